"""Chooses a proxy of a pool for a request, and learns from the outcome about the proxy and the host. Pure.

    sign of a proxy   at a host      effect
    ───────────────   ───────────    ─────────────────────────────────────────────────────────────────────
    good              good           the estimate rises, suspicion falls; a quarantine being probed is lifted
    neutral           -              the host failed, certainly: the request is counted, nothing else
    -                 doubt          the pair's estimate falls (429, 403)
    failed            failed         the proxy's fault or the host's: both are suspected, by what others met there
    -                 banned         certain: quarantine of the pair
    down              -              certain: quarantine of the proxy

A quarantine ends after a cooldown with one probe, by the process that reserves it first (`reserve`); a failed probe
doubles the cooldown. A request that started before the quarantine ended is no probe.

One request does not show whether proxy or host is at fault. Two rules decide:

- **Suspicion** of a proxy is a running sum (Page's CUSUM) over its outcomes: how much likelier each is for a broken
  proxy than for one that meets what the others meet at that host. A failure where the others succeed weighs much, a
  failure where they fail too weighs nothing, a success subtracts. Above a limit the proxy goes into quarantine; if it
  works for other hosts, only for this host.
- **The host** is to blame when two proxies have failed there with no answer in between: one that had an answer from any
  host lately and is not suspected, and another such, or one that has failed nowhere else. While no proxy had an answer
  from any host, it takes several that have failed nowhere else; if they failed elsewhere, the pool does not work.

Estimates are counts of successes and failures that lose half their weight in ten minutes. The scored strategy samples
from them (Thompson sampling), so a bad proxy is tried now and then, and a slow one less often. Hosts are stored only
where something went wrong. For all others the overall estimate of the proxy holds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from shoal.settings import Settings

Probe = Literal["", "proxy", "pair"]
# It had answers lately; it failed at one host at most; neither.
Reputation = Literal["proven", "fresh", "doubtful"]
Sign = Literal["good", "neutral", "doubt", "failed", "banned", "down"]

_HALF_LIFE = 600.0
_MOST_DOUBLINGS = 6  # of the cooldown
_FORGIVEN = 3600.0  # seconds after its end that a quarantine is dropped, if nobody probed
_DOWN_AFTER = 2  # failures in a row; a single one may be brief
_BANNED_AFTER = 2
_SURE = frozenset({"proxy_auth"})  # one is enough, if the proxy has never worked
_PRIOR = (1.0, 0.5)  # successes and failures that a new proxy starts with
_OVERALL = 6.0  # the most that the overall estimate weighs against the one for a host
_SLOW = 2.0  # times the latency of the quickest that count as equally quick
_SMOOTHING = 0.2
_PROBING = 1.0  # seconds to wait for the result of another's probe
_LIGHT = 0.05  # weight below which a pair is forgotten
PAIRS = 1_000  # remembered in a pool
SITES = 300  # hosts, too
_BROKEN = 0.98  # share of its requests that fail through a broken proxy
_USUAL = 0.1  # … that fail at a host, at least, whatever is known of it
# Suspicion: four failures in a row where others succeed, a dozen where every other request fails.
_QUARANTINE = 9.0
_BELIEVED = 4.4  # suspicion up to which a failure counts against the host: one such failure, not two
_LEARNING = 0.1  # weight of the last outcome in what is expected at a host …
_LEARNING_POOL = 0.05  # … and elsewhere
_IN_A_ROW = 0.7  # factor of the expected success after each failure in a row
_WITNESSES = 2  # that blame a host, one of them proven
_UNPROVEN = 5  # … while no proxy of the pool had an answer from anywhere
_AHEAD = 1  # unanswered requests that a proxy may have more than others, if it answered lately
_NONE: Mapping[str, int] = {}
_MOST_FAILED = 8  # proxies that failed at a host and are stored


class Quarantine(Struct, frozen=True, omit_defaults=True):
    """A quarantine, or the failures that lead to one."""

    row: int = 0  # failures in a row before it
    strikes: int = 0  # how often it was entered without a success since; 0: free
    until: float = 0.0
    probing: float = 0.0  # until when another's probe is awaited
    reason: str = ""


FREE = Quarantine()


class Pair(Struct, frozen=True, omit_defaults=True):
    """A proxy at one host."""

    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0  # when the counts were last updated
    hold: Quarantine = FREE
    suspicion: float = 0.0


class ProxyState(Struct, frozen=True, omit_defaults=True):
    requests: int = 0
    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0
    latency: float = 0.0  # smoothed seconds of what went well
    hold: Quarantine = FREE
    hosts: dict[str, Pair] = {}
    suspicion: float = 0.0

    def success(self) -> float | None:
        """Share of recent requests that succeeded; None: not known."""
        total = self.good + self.bad
        return self.good / total if total > _LIGHT else None


_UNKNOWN = ProxyState()


class HostFailures(Struct, frozen=True, omit_defaults=True):
    """A host where something went wrong, through any proxy."""

    failing: float  # share of requests that fail there, through trusted proxies
    at: float = 0.0
    row: int = 0  # of these, failures in a row
    failed: tuple[str, ...] = ()  # all proxies that failed there since its last answer


class PoolState(Struct, frozen=True, omit_defaults=True):
    proxies: dict[str, ProxyState] = {}
    sites: dict[str, HostFailures] = {}
    failing: float = _USUAL  # share of requests that fail at an unknown host


class ProxyObservation(Struct, frozen=True):
    """What one request showed about a proxy. Times are the frontier's."""

    proxy: str
    host: str
    sign: Sign
    started: float
    ended: float
    kind: str = ""


class Choice(Struct, frozen=True):
    proxy: str
    probe: Probe = ""  # whose quarantine the request probes


class Wait(Struct, frozen=True):
    """No proxy may be used now."""

    until: float
    reason: str


class ProxyPolicy:
    def __init__(self, settings: Settings) -> None:
        self._cooldown = settings.pool_cooldown
        self._in_turn = settings.pool_strategy == "round_robin"

    # -- observing

    def observe(self, state: PoolState, seen: ProxyObservation) -> PoolState:
        proxy = self._observe(state, seen)
        state = replace(state, proxies={**state.proxies, seen.proxy: proxy})
        return state if seen.sign == "down" else _learnt(state, seen)

    def _observe(self, state: PoolState, seen: ProxyObservation) -> ProxyState:
        proxy = state.proxies.get(seen.proxy, _UNKNOWN)
        kept = _kept(proxy.at, seen.ended)
        expected = _expected(state, seen.host)
        evidence = _evidence_of(state, seen, expected)
        proxy = replace(proxy, suspicion=max(0.0, proxy.suspicion * kept + evidence))
        return ProxyState(
            requests=proxy.requests + 1,
            good=proxy.good * kept + (seen.sign == "good"),
            bad=proxy.bad * kept + _badness(seen, expected),
            at=max(proxy.at, seen.ended),
            latency=_smoothed(proxy.latency, seen),
            hold=(hold := self._judged(proxy, seen, expected)),
            hosts=self._at_hosts(proxy.hosts, seen, evidence, expected),
            suspicion=0.0 if hold.strikes else proxy.suspicion,
        )

    def _judged(self, proxy: ProxyState, seen: ProxyObservation, expected: float) -> Quarantine:
        """Its quarantine after the observation."""
        hold = proxy.hold
        if seen.sign == "down":
            after = 1 if seen.kind in _SURE and proxy.good < _LIGHT else _DOWN_AFTER
            return self._struck(hold, seen, after, seen.kind)
        if _is_failure(seen):
            return self._suspected(hold, proxy.suspicion, seen, expected)
        return _passed(hold, seen)  # it let a request through, whatever came of it

    def _suspected(
        self, hold: Quarantine, suspicion: float, seen: ProxyObservation, expected: float
    ) -> Quarantine:
        if hold.strikes and expected >= 0.5:  # a probe at a host where others fail too shows nothing
            return replace(hold, probing=0.0)
        if hold.strikes or suspicion >= _QUARANTINE:
            return self._struck(hold, seen, 1, seen.kind)
        return hold

    def _at_hosts(
        self, hosts: dict[str, Pair], seen: ProxyObservation, evidence: float, expected: float
    ) -> dict[str, Pair]:
        pair = hosts.get(seen.host)
        tells = seen.sign in ("doubt", "failed", "banned") or (seen.sign == "good" and pair is not None)
        if not tells:
            return hosts
        return {**hosts, seen.host: self._at_host(pair or Pair(), seen, evidence, expected)}

    def _at_host(self, pair: Pair, seen: ProxyObservation, evidence: float, expected: float) -> Pair:
        kept, good, hold = _kept(pair.at, seen.ended), seen.sign == "good", pair.hold
        suspicion = max(0.0, pair.suspicion * kept + evidence)
        if seen.sign == "banned":
            hold = self._struck(hold, seen, _BANNED_AFTER, "banned")
        elif seen.sign == "failed":
            hold = self._suspected(hold, suspicion, seen, expected)
        elif good:
            hold = _passed(hold, seen)
        bad = _badness(seen, expected) if seen.sign == "failed" else float(not good)
        return Pair(
            good=pair.good * kept + good,
            bad=pair.bad * kept + bad,
            at=max(pair.at, seen.ended),
            hold=hold,
            suspicion=0.0 if hold.strikes else suspicion,
        )

    def _struck(self, hold: Quarantine, seen: ProxyObservation, after: int, reason: str) -> Quarantine:
        if hold.strikes and seen.started < hold.until:
            return hold
        row = hold.row + 1
        if not hold.strikes and row < after:
            return Quarantine(row=row, reason=reason)
        cooldown = self._cooldown * 2.0 ** min(hold.strikes, _MOST_DOUBLINGS)
        return Quarantine(row, hold.strikes + 1, seen.ended + cooldown, reason=reason)

    # -- blaming

    def blames_host(self, state: PoolState, names: Sequence[str], host: str, proxy: str, now: float) -> bool:
        """Whether a failure through the proxy, just observed, is the host's fault."""
        if len(names) == 1:
            return True  # there is no other proxy
        if _reputation(state.proxies.get(proxy, _UNKNOWN), now) == "doubtful":
            return False
        free = sum(name not in state.proxies or not state.proxies[name].hold.strikes for name in names)
        failed = _failed_at(state.sites.get(host), now)
        standings = [_reputation(state.proxies.get(name, _UNKNOWN), now) for name in failed]
        if not _is_any_proven(state, now):
            return standings.count("fresh") >= min(_UNPROVEN, free)
        witnesses = len(standings) - standings.count("doubtful")
        return "proven" in standings and witnesses >= min(_WITNESSES, free)

    def reserve(self, state: PoolState, choice: Choice, host: str, now: float, seconds: float) -> PoolState:
        """Reserves the probe: nobody else may probe for `seconds`, or until its result is known."""
        proxy = state.proxies[choice.proxy]
        if choice.probe == "proxy":
            proxy = replace(proxy, hold=replace(proxy.hold, probing=now + seconds))
        else:
            pair = proxy.hosts[host]
            pair = replace(pair, hold=replace(pair.hold, probing=now + seconds))
            proxy = replace(proxy, hosts={**proxy.hosts, host: pair})
        return replace(state, proxies={**state.proxies, choice.proxy: proxy})

    # -- choosing

    def choose(
        self,
        state: PoolState,
        names: Sequence[str],
        host: str,
        now: float,
        rng: random.Random,
        *,
        avoid: AbstractSet[str] = frozenset(),
        turn: int = 0,
        probes: bool = True,
        unanswered: Mapping[str, int] = _NONE,
    ) -> Choice | Wait | None:
        """One of `names`; None if all are to be avoided. A probe that is due goes first, so that the pool recovers;
        without `probes`, only if there is no other proxy.

        `unanswered`: requests in flight through each proxy that began since its last answer. A proxy that stops
        answering gets no more requests than the others, long before a timeout."""
        ready: list[str] = []
        due: list[Choice] = []
        held: list[tuple[float, str]] = []
        for name in names:
            if name in avoid:
                continue
            probe, until, reason = self._condition(state.proxies.get(name), host, now)
            if until:
                held.append((until, reason))
            elif probe:
                due.append(Choice(name, probe))
            else:
                ready.append(name)
        if due and (probes or not ready):
            return due[0]
        if ready:
            failed = _failed_at(state.sites.get(host), now)
            ready = [name for name in ready if name not in failed] or ready
            ready = _not_silent(state, ready, unanswered, now)
            return Choice(self._pick(state, ready, host, now, rng, turn))
        return _wait(held, now) if held else None

    def _condition(self, proxy: ProxyState | None, host: str, now: float) -> tuple[Probe, float, str]:
        """What a request would probe; or until when the proxy may not be used, and why."""
        if proxy is None:
            return "", 0.0, ""
        pair = proxy.hosts.get(host)
        probe: Probe = ""
        for part, hold in (("proxy", proxy.hold), ("pair", pair.hold if pair is not None else FREE)):
            if not hold.strikes:
                continue
            if now < hold.until:
                return "", hold.until, hold.reason
            if now < hold.probing:  # it will soon be known
                return "", now + min(_PROBING, self._cooldown), hold.reason
            probe = probe or cast(Probe, part)
        return probe, 0.0, ""

    def _pick(
        self, state: PoolState, ready: list[str], host: str, now: float, rng: random.Random, turn: int
    ) -> str:
        if self._in_turn or len(ready) == 1:
            return ready[turn % len(ready)]
        known = {name: state.proxies.get(name, _UNKNOWN) for name in ready}
        quickest = min((proxy.latency for proxy in known.values() if proxy.latency), default=0.0)

        def draw(name: str) -> float:
            proxy = known[name]
            speed = min(1.0, _SLOW * quickest / proxy.latency) if proxy.latency else 1.0
            return speed * rng.betavariate(*_evidence(proxy, host, now))

        return max(ready, key=draw)

    def chance(self, state: PoolState, names: Sequence[str], host: str, now: float) -> float:
        """How likely a request to the host succeeds through the best of these."""
        found = [_evidence(state.proxies.get(name, _UNKNOWN), host, now) for name in names]
        return max((good / (good + bad) for good, bad in found), default=0.0)


def pruned(state: PoolState, now: float) -> PoolState:
    """The state without old entries, and bounded in size."""
    pairs = [
        (name, host, pair)
        for name, proxy in state.proxies.items()
        for host, pair in proxy.hosts.items()
        if _says_something(pair, now)
    ]
    pairs.sort(key=lambda found: (found[2].hold.strikes > 0, found[2].at), reverse=True)
    kept: Mapping[str, dict[str, Pair]] = {name: {} for name in state.proxies}
    for name, host, pair in pairs[:PAIRS]:
        kept[name][host] = pair
    proxies = {name: replace(proxy, hosts=kept[name]) for name, proxy in sorted(state.proxies.items())}
    sites = [(host, site) for host, site in state.sites.items() if _is_recent(site, now)]
    sites.sort(key=lambda found: found[1].at, reverse=True)
    return replace(state, proxies=proxies, sites=dict(sites[:SITES]))


def condition(proxy: ProxyState, now: float) -> str:
    """The condition of a proxy, in a few words."""
    hold = proxy.hold
    if hold.strikes and now < hold.until:
        return f"down: {hold.reason}"
    if hold.strikes:
        return f"to be probed: {hold.reason}"
    reasons = [
        pair.hold.reason for pair in proxy.hosts.values() if pair.hold.strikes and now < pair.hold.until
    ]
    banned = reasons.count("banned")
    found = [(banned, "banned by"), (len(reasons) - banned, "fails at")]
    told = [f"{words} {count} host{'s' if count > 1 else ''}" for count, words in found if count]
    return ", ".join(told) or "ok"


def _not_silent(state: PoolState, names: list[str], unanswered: Mapping[str, int], now: float) -> list[str]:
    """Without proxies that have more unanswered requests than the others."""
    if not unanswered:
        return names
    least = min(unanswered.get(name, 0) for name in names)

    def most(name: str) -> int:
        return least + _AHEAD * _is_proven(state.proxies.get(name, _UNKNOWN), now)

    return [name for name in names if unanswered.get(name, 0) <= most(name)]


def is_held(state: PoolState, name: str, now: float) -> bool:
    hold = state.proxies[name].hold if name in state.proxies else FREE
    return hold.strikes > 0 and now < hold.until


def is_believed(state: PoolState, name: str, now: float) -> bool:
    """Whether a failure through the proxy says anything about the host."""
    standing = _reputation(state.proxies.get(name, _UNKNOWN), now)
    return standing == "proven" or (standing == "fresh" and not _is_any_proven(state, now))


def serves_well(state: PoolState, name: str, now: float) -> bool:
    """Whether it had an answer lately and is hardly suspected."""
    return _reputation(state.proxies.get(name, _UNKNOWN), now) == "proven"


def _reputation(proxy: ProxyState, now: float) -> Reputation:
    if proxy.hold.strikes:
        return "doubtful"
    if _is_proven(proxy, now):
        return "proven" if proxy.suspicion <= _BELIEVED else "doubtful"
    return "fresh" if len(proxy.hosts) <= 1 else "doubtful"


def _is_proven(proxy: ProxyState, now: float) -> bool:
    return proxy.good * _kept(proxy.at, now) > _LIGHT


def _is_any_proven(state: PoolState, now: float) -> bool:
    return any(_is_proven(proxy, now) for proxy in state.proxies.values())


def _is_failure(seen: ProxyObservation) -> bool:
    """Whether proxy or host may be at fault. A proxy that refuses to connect does not work, or not for this host."""
    return seen.sign == "failed" or seen.kind == "proxy_refused"


def _expected(state: PoolState, host: str) -> float:
    """Share of the requests to the host that fail through a good proxy."""
    site = state.sites.get(host)
    failing = state.failing if site is None else max(site.failing, 1.0 - _IN_A_ROW**site.row)
    return min(_BROKEN, max(_USUAL, failing))


def _evidence_of(state: PoolState, seen: ProxyObservation, expected: float) -> float:
    """How much likelier such an outcome is for a broken proxy, as a logarithm. 0 for the only proxy that has worked:
    there is none to compare it with."""
    if _is_failure(seen):
        proven = [name for name, proxy in state.proxies.items() if _is_proven(proxy, seen.ended)]
        return 0.0 if proven == [seen.proxy] else math.log(_BROKEN / expected)
    return math.log((1 - _BROKEN) / (1 - expected)) if seen.sign == "good" else 0.0


def _badness(seen: ProxyObservation, expected: float) -> float:
    """How much of a failure counts against the proxy."""
    return 1.0 - expected if seen.sign == "failed" else float(seen.sign == "down")


def _learnt(state: PoolState, seen: ProxyObservation) -> PoolState:
    """The state with what the request shows about its host, and about hosts in general."""
    failed, site = _is_failure(seen), state.sites.get(seen.host)
    if failed:
        others = tuple(name for name in _failed_at(site, seen.ended) if name != seen.proxy)
        site = replace(site or HostFailures(state.failing), failed=(*others, seen.proxy)[-_MOST_FAILED:])
    elif site is not None:
        site = replace(site, row=0, failed=())
    if (failed or seen.sign == "good") and is_believed(state, seen.proxy, seen.ended):
        if site is not None:
            failing = site.failing + (failed - site.failing) * _LEARNING
            site = replace(site, failing=failing, row=site.row + 1 if failed else 0)
        if _is_proven(state.proxies[seen.proxy], seen.ended):
            failing = state.failing + (failed - state.failing) * _LEARNING_POOL
            state = replace(state, failing=failing)
    return state if site is None else _with(state, seen.host, replace(site, at=max(site.at, seen.ended)))


def _with(state: PoolState, host: str, site: HostFailures) -> PoolState:
    sites = {**state.sites, host: site}
    if site.failing < _LIGHT and not site.failed:
        del sites[host]
    return replace(state, sites=sites)


def _failed_at(site: HostFailures | None, now: float) -> tuple[str, ...]:
    return site.failed if site is not None and _is_recent(site, now) else ()


def _is_recent(site: HostFailures, now: float) -> bool:
    return now - site.at < _HALF_LIFE


def _wait(held: list[tuple[float, str]], now: float) -> Wait:
    until = min(held)[0]
    reasons: dict[str, int] = {}
    for _, reason in held:
        reasons[reason] = reasons.get(reason, 0) + 1
    counted = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    return Wait(until, f"{counted}; the next is tried in {until - now:.0f} s")


def _evidence(proxy: ProxyState, host: str, now: float) -> tuple[float, float]:
    """Successes and failures that count at the host."""
    kept = _kept(proxy.at, now)
    good, bad = proxy.good * kept, proxy.bad * kept
    share = min(1.0, _OVERALL / (good + bad)) if good + bad else 1.0
    good, bad = _PRIOR[0] + good * share, _PRIOR[1] + bad * share
    pair = proxy.hosts.get(host)
    if pair is not None:
        kept = _kept(pair.at, now)
        good, bad = good + pair.good * kept, bad + pair.bad * kept
    return good, bad


def _passed(hold: Quarantine, seen: ProxyObservation) -> Quarantine:
    return hold if hold.strikes and seen.started < hold.until else FREE


def _says_something(pair: Pair, now: float) -> bool:
    if pair.hold.strikes and now < pair.hold.until + _FORGIVEN:
        return True
    return pair.bad * _kept(pair.at, now) > _LIGHT


def _smoothed(latency: float, seen: ProxyObservation) -> float:
    if seen.sign != "good":
        return latency
    took = max(0.0, seen.ended - seen.started)
    return latency + (took - latency) * _SMOOTHING if latency else took


def _kept(then: float, now: float) -> float:
    return 0.5 ** (max(0.0, now - then) / _HALF_LIFE) if then else 1.0
