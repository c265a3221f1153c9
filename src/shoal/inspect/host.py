"""A host as a person looks at it: what is stored about it, and what follows from that. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier.values import HostRecord
from shoal.hosts.host_limits import HostRules, Terms
from shoal.hosts.host_state import HostState, OriginState, state_of
from shoal.inspect.held_pages import HeldPages
from shoal.policy.breaker import BreakerPolicy, BreakerState
from shoal.policy.compose import States, domain_limit, origins_of, state_name
from shoal.policy.escalation import needs_browser, sentence
from shoal.policy.host_table import NOTHING, HostTable
from shoal.policy.protocol import Limits, ease, strictest
from shoal.policy.timeout import TimeoutState
from shoal.settings import HOST_KEYS, HostSettings, Settings
from shoal.text import MASK, command
from shoal.text.humanize import span, speed
from shoal.valve import FOREVER, Domain, DomainLimit, Valve

# From well to ill.
Condition = Literal["healthy", "no robots", "resting", "probing", "cooling down", "blocked", "given up"]
CONDITIONS: tuple[Condition, ...] = (
    "healthy",
    "no robots",
    "resting",
    "probing",
    "cooling down",
    "blocked",
    "given up",
)


class Cause(Struct, frozen=True):
    """Why something has not happened: a name for programs, a sentence for people."""

    name: str
    sentence: str


class HostVisits(Struct, frozen=True):
    """What is known of the pages of a host that are visited again and again, by all jobs."""

    pages: int  # about
    on_time: float | None  # share of the visits of the last days that were on time; None: there were none
    changed: float | None  # … and that found a change


class OriginView(Struct, frozen=True):
    """What is known of one origin of a host."""

    name: str  # "https://shop.example"
    state: OriginState
    opinions: Mapping[str, Limits]  # of the policies that are kept by origin, by their names
    condition: Condition  # by its breaker alone
    until: float  # then it is probed

    @property
    def limits(self) -> Limits:
        return strictest(list(self.opinions.values()))


class HostView(Struct, frozen=True):
    name: str
    now: float  # the frontier's time
    valve: Valve
    state: HostState
    asks_robots: bool  # as the settings say
    opinions: Mapping[str, Limits]  # of the policies, by their names
    origins: Mapping[str, OriginView]  # by scheme
    latency: float | None  # smoothed; None: never answered
    pending: int = 0
    robots: Mapping[str, RobotsRecord] = {}  # for this crawl, by scheme, on request
    domain: Domain | None = None  # what it shares with other hosts
    domain_limit: DomainLimit = DomainLimit()  # as the settings say
    settings: Settings = Settings()  # that hold here
    own: HostSettings = NOTHING  # … of these, what is for this host alone
    sources: Mapping[str, str] = {}  # … and by what each of them is: "set for this host in shoal.toml"
    held: HeldPages | None = None  # pages of workers that are gone, if they take all its places

    @property
    def limits(self) -> Limits:
        return strictest(list(self.opinions.values()))

    @property
    def visits(self) -> HostVisits | None:
        """None: no page of it is visited again and again."""
        plan = self.state.revisits
        if round(plan.pages) < 1:
            return None
        return HostVisits(round(plan.pages), plan.on_time, plan.changed)

    @property
    def rate(self) -> float | None:
        """Requests a second that the valve lets through; None: no limit."""
        return 1 / self.valve.interval if self.valve.interval else None

    @property
    def pace(self) -> float | None:
        """Requests a second that are possible: by the rate, and by how many run at once for how long."""
        at_once = self.valve.cap / self.latency if self.latency else None
        return min((pace for pace in (self.rate, at_once) if pace is not None), default=None)

    @property
    def in_browser(self) -> Mapping[str, str]:
        """Patterns of URLs whose pages go to the browser, each with a sentence that says why."""
        known = self.state.patterns
        return {name: sentence(name, known[name]) for name in known if needs_browser(known, name, self.now)}

    @property
    def best(self) -> OriginView | None:
        """The origin that is best off: the host's valve goes by it."""
        known = self.origins.values()
        return min(known, key=lambda one: (ease(one.limits), one.state.robots_missing), default=None)

    @property
    def robots_missing(self) -> bool:
        """robots.txt could not be fetched from any origin, so nothing may be fetched."""
        return self.asks_robots and self.state.robots_missing

    @property
    def crawl_delay(self) -> float | None:
        delays = [robots.delay for robots in self.robots.values()]
        return max((delay for delay in delays if delay), default=None)

    @property
    def condition(self) -> Condition:
        if self.state.manual.blocked_until > self.now:
            return "blocked"
        if self.limits.refuse:
            return "given up"
        if self.best is not None and self.best.condition != "healthy":
            return self.best.condition
        if self.robots_missing:
            return "no robots"
        return "resting" if (self.limits.blocked_until or 0.0) > self.now else "healthy"

    @property
    def until(self) -> float | None:
        """When the condition may end by itself; None: not by time, or not at all."""
        match self.condition:
            case "blocked":
                until = self.state.manual.blocked_until
            case "cooling down" | "given up":
                until = self.best.until if self.best is not None else FOREVER
            case "resting":
                until = self.limits.blocked_until or FOREVER
            case _:
                return None
        return until if until < FOREVER else None


def view_of(record: HostRecord, rules: HostRules, now: float, pending: int = 0) -> HostView:
    state = state_of(record)
    own = rules.own(record.name, state.manual)
    terms = rules.terms(own)
    states = terms.policies.decode(state.policies)
    timeout = states.get("timeout")
    schemes = sorted({*state.origins, *origins_of(states)})
    return HostView(
        record.name,
        now,
        record.valve,
        state,
        terms.settings.robots,
        terms.policies.opinions(states, now, state.origins),
        {scheme: _origin(record.name, scheme, state, states, terms, now) for scheme in schemes},
        timeout.latency if isinstance(timeout, TimeoutState) else None,
        pending,
        domain=record.domain,
        domain_limit=domain_limit(rules.settings),
        settings=terms.settings,
        own=own,
    )


def _origin(host: str, scheme: str, state: HostState, states: States, terms: Terms, now: float) -> OriginView:
    found = states.get(state_name("breaker", scheme))
    breaker = found if isinstance(found, BreakerState) else BreakerState()
    return OriginView(
        f"{scheme}://{host}",
        state.origin(scheme),
        terms.policies.opinions_at(states, now, scheme),
        _condition(breaker, now),
        breaker.until,
    )


def _condition(breaker: BreakerState, now: float) -> Condition:
    if breaker.phase == "closed":
        return "healthy"
    if now >= breaker.until:
        return "probing"
    return "given up" if breaker.phase == "given_up" else "cooling down"


def with_robots(host: HostView, rules: HostRules) -> HostView:
    return replace(host, robots=rules.robots(host.state))


def with_sources(host: HostView, rules: HostRules, standing: HostTable) -> HostView:
    """`standing`: what is set in the store, for whatever host."""
    by_hand = host.state.manual.settings
    sources = {}
    for key in HOST_KEYS:
        if getattr(by_hand, key) not in (None, {}):
            found = standing.says(host.name, key)
            sources[key] = _source(host, found[0] if found is not None else host.name, BY_HAND_WHERE)
        elif (found := rules.table.says(host.name, key)) is not None:
            sources[key] = _source(host, found[0], found[1].where or "the settings of the job")
    return replace(host, sources=sources)


BY_HAND_WHERE = "this store, by hand"


def _source(host: HostView, pattern: str, where: str) -> str:
    return f"set for {'this host' if pattern == host.name else pattern} in {where}"


def rate_source(host: HostView) -> str:
    """What decides how often the host is asked: of all that limit it, the strictest."""
    interval = host.valve.interval
    by_setting = 1 / host.settings.rate if host.settings.rate else 0.0
    said = host.sources.get("rate", "setting rate")
    if _same(by_setting, interval):
        return said
    delay = min(host.crawl_delay or 0.0, host.settings.max_crawl_delay)
    if host.asks_robots and delay and _same(delay, interval):
        return "Crawl-delay of robots.txt"
    for job, ask in host.state.asks.items():
        if _same(ask.interval, interval):
            return f"job {job} allows no more"
    for policy, limits in host.opinions.items():
        if limits.interval and abs(limits.interval - interval) <= interval / 10:  # it creeps
            return f"slowed down by the policy {policy}"
    return "as last written; the next request brings it up to date"


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-6 * max(one, other)


def settings_in_words(own: HostSettings) -> dict[str, str]:
    """Each of a host's own settings, by its key. Of headers only the names: their values may be secret."""
    said: dict[str, str] = {}
    if own.rate is not None:
        said["rate"] = f"{speed(own.rate)} req/s" if own.rate else "no limit on the rate"
    if own.per_host is not None:
        said["per_host"] = f"{own.per_host} at a time"
    if own.timeout is not None:
        said["timeout"] = f"timeout {own.timeout:g} s"
    if own.headers:
        said["headers"] = f"headers {', '.join(own.headers)} ({MASK})"
    if own.pool is not None:
        said["pool"] = f"pool {own.pool}"
    if own.robots is not None:
        said["robots"] = "robots.txt asked for" if own.robots else "robots.txt not asked for"
    if own.lane is not None:
        said["lane"] = f"lane {own.lane}"
    return said


def causes(host: HostView) -> list[Cause]:
    """Why the host gets fewer requests than it could, the most decisive first."""
    return [*_blocks(host), *_held(host), *_domain(host), *_robots(host), *_slower(host)]


def _blocks(host: HostView) -> list[Cause]:
    found = []
    manual = host.state.manual
    if manual.blocked_until > host.now:
        ends = f"for another {span(manual.blocked_until - host.now)}"
        if manual.blocked_until >= FOREVER:
            ends = "until it is unblocked"
        said = f" ({manual.reason})" if manual.reason else ""
        found.append(Cause("blocked_by_hand", f"host {host.name} is blocked by hand {ends}{said}"))
    for policy, limits in host.opinions.items():
        if limits.refuse:
            found.append(_given_up(f"host {host.name}", host.name, limits))
        elif (until := limits.blocked_until or 0.0) > host.now:
            found.append(_blocked(f"host {host.name}", policy, limits, until - host.now))
    return [*found, *_origins(host)]


def _origins(host: HostView) -> list[Cause]:
    """Origins that are worse off than the host: those wait, while others of its pages are fetched."""
    found = []
    for origin in host.origins.values():
        for policy, limits in origin.opinions.items():
            if ease(limits) <= ease(host.opinions[policy]):
                continue
            if limits.refuse:
                found.append(_given_up(origin.name, host.name, limits))
            elif (until := limits.blocked_until or 0.0) > host.now:
                found.append(_blocked(origin.name, policy, limits, until - host.now))
    return found


def _given_up(what: str, host: str, limits: Limits) -> Cause:
    then = (
        f"its pages are buried until it answers; {command(f'hosts unblock {host}')} gives it another chance"
    )
    return Cause("given_up", f"{what} is {limits.why or limits.refuse}: {then}")


def _blocked(what: str, policy: str, limits: Limits, seconds: float) -> Cause:
    if policy == BreakerPolicy.name:  # it says itself until when
        return Cause("blocked_by_breaker", f"{what} is {limits.why}")
    why = f" ({limits.why})" if limits.why else ""
    return Cause(f"blocked_by_{policy}", f"{what} is blocked for another {span(seconds)}{why}")


def _held(host: HostView) -> list[Cause]:
    if host.held is None:
        return []
    return [Cause("workers_gone", f"host {host.name}: {host.held.sentence(host.now)}")]


def _domain(host: HostView) -> list[Cause]:
    """If the domain that the host shares with others has reached its limit at this moment."""
    domain, limit = host.domain, host.domain_limit
    if domain is None:
        return []
    if limit.cap and domain.in_flight >= limit.cap:
        running = f"{domain.in_flight} requests to its hosts are in flight (per_domain)"
        return [Cause("domain_full", f"domain {domain.name} has reached its limit: {running}")]
    if limit.interval and host.valve.interval and domain.next_at > host.now:
        pace = f"its hosts share {speed(1 / limit.interval)} req/s (domain_rate)"
        return [Cause("domain_rate", f"domain {domain.name} has reached its limit: {pace}")]
    return []


def _robots(host: HostView) -> list[Cause]:
    asked = {origin.name: origin.state.robots for origin in host.origins.values()}
    records = {name: record for name, record in asked.items() if record is not None}
    if not host.asks_robots:
        return []
    if not records:
        return [
            Cause("robots_first", f"robots.txt of {host.name} comes first: it has not been asked for yet")
        ]
    missing = {name: record for name, record in records.items() if record.verdict == "disallow"}
    # Where there is but one origin, its scheme says nothing.
    return [_no_robots(host, host.name if len(records) == 1 else name, missing[name]) for name in missing]


def _no_robots(host: HostView, what: str, record: RobotsRecord) -> Cause:
    soon = max(0.0, record.expires_at - host.now)
    again = f"it is asked for again in {span(soon)}" if soon else "it is asked for again with the next page"
    sentence = f"robots.txt of {what} cannot be fetched ({record.reason}), so nothing may be fetched; {again}"
    return Cause("robots_unreachable", sentence)


def _jobs(host: HostView) -> list[Cause]:
    """If several jobs crawl the host, and one of them is why it is not asked more often."""
    asks = host.state.asks
    job = max(asks, key=lambda job: asks[job].interval, default="")
    if len(asks) < 2 or host.state.manual.rate is not None or not asks[job].interval:
        return []
    if (
        all(ask.interval == asks[job].interval for ask in asks.values())
        or asks[job].interval < host.valve.interval
    ):
        return []
    pace = speed(1 / asks[job].interval)
    said = f"host {host.name}: job {job} allows {pace} req/s, and of {len(asks)} jobs that crawl it the strictest holds"
    return [Cause("slowed_by_job", said)]


def _slower(host: HostView) -> list[Cause]:
    found = []
    # A host that is probed says more than a smaller number of requests at once.
    by_weight = sorted(host.opinions.items(), key=lambda opinion: opinion[1].blocked_until is None)
    for policy, limits in by_weight:
        if limits.why and not limits.refuse and (limits.blocked_until or 0.0) <= host.now:
            found.append(Cause(f"slowed_by_{policy}", f"host {host.name}: {limits.why}"))
    found += _jobs(host)
    if by_hand := settings_in_words(host.state.manual.settings):
        found.append(
            Cause("set_by_hand", f"host {host.name} is set by hand to {', '.join(by_hand.values())}")
        )
    found += _set_for_host(host, but=by_hand)
    if host.asks_robots and (delay := host.crawl_delay):
        found.append(Cause("crawl_delay", f"robots.txt of {host.name} asks for {delay:g} s between requests"))
    return found


_HOLDS_BACK = ("rate", "per_host", "pool", "lane")


def _set_for_host(host: HostView, but: Collection[str]) -> list[Cause]:
    """By the tables of the job, as far as it may keep pages waiting: a sentence for each place where it is set."""
    by_source: dict[str, list[str]] = {}
    for key, said in settings_in_words(host.own).items():
        if key in _HOLDS_BACK and key not in but:
            by_source.setdefault(host.sources.get(key, "set for this host"), []).append(said)
    return [
        Cause("set_for_host", f"host {host.name}: {', '.join(said)}: {source}")
        for source, said in by_source.items()
    ]
