"""What must hold in every world: a plain model that watches the verbs of the frontier and the hits on the web.

    check        what it says
    ───────────  ─────────────────────────────────────────────────────────────────────────────────
    counters     admitted = pending + delayed + leased + done + dead + merged, and each as the model counts it
    one lease    a task has at most one live lease; a token is never given twice
    stale        a settlement is accepted if its lease is alive, and only then
    cap          a host's live leases never exceed its cap
    places       a host's in_flight is the number of its live leases
    gap          claims on a host are an interval apart, and none comes while it is blocked
    domain       the same cap, places and gap for all hosts of a domain together, once there are two
    one probe    a host whose breaker is open gets one request at a time, and none before its time
    visits       a page is visited again if that was planned, not before its time, and with what was remembered; all
                 pages that are followed wait for a visit, or are in the middle of one
    links        what a settled page links to is admitted
    feed         of a page that changes, each version that was found is told once, and so is the change to it
    rows         the journal holds the rows of accepted settlements, each once and in order
    permission   a lease is good for one request
    server       a host's server has no more requests under way than its cap, those of lost workers among them
    robots       nothing is fetched before robots.txt was answered, or that it forbids
    farewell     a worker that was asked to stop leaves no lease behind, and stops in time
    bug          nothing raises that nobody foresaw
    ends         the crawl ends, in bounded time
    obtainable   every obtainable page was fetched, and no other
    budget       when everything fails, retries stay within their budget

The model knows only what goes in and out of the verbs; it shares no code with the frontier.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.identity import host_key, registrable_domain
from shoal.frontier.memory.data import copied
from shoal.frontier.values import Added, Claim, Claimed, Counters, HostRecord, Settled
from shoal.hosts.host_state import state_of
from shoal.model import Dead, Done, Lease, Moved, Retry, Revisit, Settlement, Task
from shoal.policy.breaker import BreakerState
from shoal.policy.compose import HostPolicies, domain_limit
from shoal.policy.concurrency import most_at_once
from shoal.settings import Settings
from shoal.testing.simulation.generated_web import Host, Web, forbids
from shoal.testing.simulation.planned_visits import PlannedVisits, faults_of_feed

_CLOSE = 1e-4  # seconds; epoch times have no finer grain in the sums of them


_STORED = ("_known", "_held", "_domain_hosts", "_counts", "_visits", "rows")


class Violation(Struct, frozen=True):
    check: str
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.detail}"


class Held(Struct, frozen=True):
    """A lease that is alive."""

    lease: Lease
    worker: str
    deadline: float
    since: float


class Claims(Struct):
    """The claims on a host under its present interval."""

    interval: float = 0.0
    burst: int = 1
    times: list[float] = msgspec.field(default_factory=list)


class Checker:
    def __init__(self, web: Web, settings: Settings, fail: Callable[[Violation], None]) -> None:
        self._web = web
        self._settings = settings
        self._fail = fail
        self._policies = HostPolicies(settings)
        self.has_file = True  # rows go to a result file; else to a database
        self._breakers: dict[tuple[str, int], BreakerState] = {}
        self._known: set[str] = set()
        self._held: dict[int, Held] = {}
        self._tokens: set[int] = set()
        self._revived: set[int] = (
            set()
        )  # leases that were held when the store went back, by whoever had them then
        self._claims: defaultdict[str, Claims] = defaultdict(Claims)
        self._domain_limit = domain_limit(settings)
        self._domain_hosts: defaultdict[str, set[str]] = defaultdict(set)
        self._domain_claims: defaultdict[str, list[float]] = defaultdict(list)
        self._permits: Counter[tuple[str, str]] = Counter()
        self._robots_answered: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._visits = PlannedVisits()
        self.rows: list[bytes] = []
        self._pages_hit: set[str] = set()
        self.hits: Counter[str] = Counter()  # "page", "robots"
        self.stale = 0

    def expect(self, holds: bool, check: str, detail: str) -> None:
        if not holds:
            self._fail(Violation(check, detail))

    # -- going back: what the store has forgotten; not what the web has seen, nor whoever was told something

    def saved(self) -> dict[str, Any]:
        return {name: copied(getattr(self, name)) for name in _STORED}

    def go_back(self, saved: dict[str, Any]) -> None:
        vars(self).update(copied(saved))
        self._breakers.clear()
        self._revived |= self._held.keys()

    # -- adding

    def added(self, tasks: Sequence[Task], added: Added) -> None:
        self.expect(added.new == self._admit(tasks), "counters", f"{added.new} of {len(tasks)} were added")

    def _admit(self, tasks: Sequence[Task]) -> int:
        fresh = {task.url for task in tasks} - self._known
        self._meet(fresh)
        self._counts["admitted"] += len(fresh)
        return len(fresh)

    def _meet(self, urls: Iterable[str]) -> None:
        for url in urls:
            self._known.add(url)
            host = host_key(url)
            self._domain_hosts[registrable_domain(host)].add(host)

    def _is_shared(self, domain: str) -> bool:
        return len(self._domain_hosts[domain]) > 1

    # -- claiming

    def claimed(self, claim: Claim, claimed: Claimed) -> None:
        now = claimed.now
        self.expire(now)
        for lease in claimed.leases:
            task, busy = lease.task, {held.lease.task.id for held in self._held.values()}
            self.expect(task.id not in busy, "one lease", f"a second live lease for {task.url}")
            self.expect(lease.token not in self._tokens, "one lease", f"token {lease.token} was given twice")
            most = task.max_attempts or self._settings.max_attempts
            self.expect(1 <= task.attempt <= most, "counters", f"attempt {task.attempt} of {task.url}")
            self._tokens.add(lease.token)
            self._visited(task, now)
            self._held[lease.token] = Held(lease, claim.worker, now + claim.lease_seconds, now)
            self._permits[claim.worker, task.host] += 1

    def _visited(self, task: Task, now: float) -> None:
        if task.record is None or not task.record.visits:
            return
        visit = self._visits.begin(task)
        early = visit.due - now if visit is not None else 0.0
        self.expect(visit is not None, "visits", f"{task.url} is visited again, though nobody planned it so")
        self.expect(early <= _CLOSE, "visits", f"{task.url} is visited {early:.3f} s before its time")

    def hastened(self, pages: Collection[int], now: float) -> None:
        """Somebody says that these pages have changed, so they may be visited at once."""
        self._visits.hasten(pages, now)

    def valve_held(self, record: HostRecord, leases: Sequence[Lease], now: float) -> None:
        """Told after a claim that took leases on a host. A claim moves in_flight and next_at alone, so the other
        numbers are those it had to go by."""
        valve, live, name = record.valve, self._live_on(record.name), record.name
        self.expect(live <= valve.cap, "cap", f"{name} has {live} live leases, its cap is {valve.cap}")
        self.expect(now >= valve.blocked_until - _CLOSE, "gap", f"{name} was claimed while it is blocked")
        self._space(record, len(leases), now)
        self._domain_held(record, len(leases), now)
        breaker = self._breaker(record)
        if breaker.phase == "open":
            self.expect(live <= 1, "one probe", f"{name} is probed by {live} requests at once")
            self.expect(now >= breaker.until - _CLOSE, "one probe", f"{name} is probed before its time")

    def reserved(self, worker: str, record: HostRecord, at: float) -> None:
        """A request inside a page has the turn of a host at that time."""
        name = record.name
        self._permits[worker, name] += 1
        self.expect(at >= record.valve.blocked_until - _CLOSE, "gap", f"{name} gave a turn in its block")
        self._space(record, 1, at)
        self._domain_held(record, 1, at)

    def _space(self, record: HostRecord, count: int, now: float) -> None:
        valve, claims = record.valve, self._claims[record.name]
        if (claims.interval, claims.burst) != (valve.interval, valve.burst):
            carried = claims.times[-1:] if valve.burst == 1 else []
            self._claims[record.name] = claims = Claims(valve.interval, valve.burst, carried)
        for _ in range(count):
            if valve.interval and len(claims.times) >= valve.burst:
                gap = now - claims.times[-valve.burst]
                detail = f"{record.name} was claimed {gap:.4f} s after the request {valve.burst} before"
                self.expect(gap >= valve.interval - _CLOSE, "gap", f"{detail}; interval {valve.interval:g}")
            claims.times.append(now)

    def _domain_held(self, record: HostRecord, count: int, now: float) -> None:
        domain, limit = registrable_domain(record.name), self._domain_limit
        if not self._is_shared(domain):
            return
        live = self._live_on(*self._domain_hosts[domain])
        full = f"{domain} has {live} live leases, its cap is {limit.cap}"
        self.expect(not limit.cap or live <= limit.cap, "domain", full)
        for _ in range(count if record.valve.interval and limit.interval else 0):
            gap = now - (self._domain_claims[domain] or [0.0])[-1]
            near = f"{record.name} was claimed {gap:.4f} s after another host of {domain}"
            self.expect(gap >= limit.interval - _CLOSE, "domain", f"{near}; interval {limit.interval:g}")
            self._domain_claims[domain].append(now)

    def _breaker(self, record: HostRecord) -> BreakerState:
        key = (record.name, record.version)
        if key not in self._breakers:
            state = self._policies.decode(state_of(record).policies).get("breaker@http", BreakerState())
            assert isinstance(state, BreakerState)
            self._breakers[key] = state
        return self._breakers[key]

    def _refund(self, held: Held) -> None:
        """It was no request after all, so the next one may have its turn."""
        host = held.lease.task.host
        self._permits[held.worker, host] -= 1
        for times in (self._claims[host].times, self._domain_claims[registrable_domain(host)]):
            if held.since in times:
                times.remove(held.since)

    def _live_on(self, *hosts: str) -> int:
        return sum(held.lease.task.host in hosts for held in self._held.values())

    def extended(
        self, worker: str, count: int, deadline: float, tokens: Collection[int] | None = None
    ) -> None:
        own = {
            token: held
            for token, held in self._held.items()
            if held.worker == worker and (tokens is None or token in tokens)
        }
        self.expect(len(own) == count, "one lease", f"{worker} renewed {count} leases, and held {len(own)}")
        for token, held in own.items():
            self._held[token] = replace(held, deadline=max(held.deadline, deadline))

    def expire(self, now: float) -> None:
        for token in [token for token, held in self._held.items() if held.deadline <= now]:
            task = self._held.pop(token).lease.task
            self._counts["dead"] += task.attempt >= (task.max_attempts or self._settings.max_attempts)

    # -- settling

    def settled(
        self, batch: Sequence[Settlement], settled: Settled, rows: Sequence[bytes], now: float
    ) -> None:
        new = 0
        for place, (settlement, accepted) in enumerate(zip(batch, settled.accepted, strict=True)):
            if place in settled.outdated:
                continue
            held = self._held.pop(settlement.lease.token, None)
            alive = held is not None
            said = "accepted" if accepted else "refused"
            lease = "alive" if alive else "gone"
            url = settlement.lease.task.url
            self.expect(accepted == alive, "stale", f"{url} was {said}, and its lease is {lease}")
            self.stale += not alive
            if held is not None:
                if settlement.unsent:
                    self._refund(held)
                new += self._conclude(settlement, now)
        self.expect(
            settled.found.new == new, "links", f"{settled.found.new} found tasks were admitted, not {new}"
        )
        for settlement, accepted in zip(batch, settled.accepted, strict=True):
            if accepted and isinstance(settlement.verdict, Done | Revisit):
                self._links_admitted(settlement.lease.task)
        self.rows_written(rows)

    def _conclude(self, settlement: Settlement, now: float) -> int:
        """Counts what becomes of the task; answers how many it found."""
        task = settlement.lease.task
        match settlement.verdict:
            case Done():
                self._counts["done"] += 1
                self._visits.end(task)
                self.rows += [row.data for row in settlement.rows]
            case Revisit(after, record):
                self._visits.end(task)
                self._visits.plan(task, now + after, record)
                self.rows += [row.data for row in (*settlement.rows, *settlement.archived)]
            case Moved(to) as moved:
                self._counts["merged"] += to.url in self._known and not moved.returns_to(task)
                self._meet([to.url])
            case Dead(failure):
                self._counts["dead"] += 1
                self.expect(failure.kind != "unexpected", "bug", f"{task.url}: {failure.detail}")
            case Retry(counts=counts):
                last = counts and task.attempt >= (task.max_attempts or self._settings.max_attempts)
                self._counts["dead"] += last
        return self._admit(settlement.found)

    def _links_admitted(self, task: Task) -> None:
        for link in self._web.links(task.url):
            self.expect(link in self._known, "links", f"{task.url} is done, but its link {link} is not known")

    def rows_written(self, rows: Sequence[bytes]) -> None:
        ours = len(self.rows)
        same = not self.has_file or (
            len(rows) >= ours and list(rows[max(0, ours - 5) : ours]) == self.rows[-5:]
        )
        self.expect(same, "rows", f"the journal does not hold the {ours} rows of settled pages")

    def released(self, leases: Sequence[Lease], count: int) -> None:
        alive = sum(self._held.pop(lease.token, None) is not None for lease in leases)
        self.expect(alive == count, "stale", f"{count} leases were taken back, {alive} were alive")

    def replayed(self, count: int) -> None:
        self._counts["dead"] -= count

    # -- at any time

    def counted(self, counters: Counters, now: float) -> None:
        c = counters
        total = c.pending + c.delayed + c.leased + c.done + c.dead + c.merged
        self.expect(c.admitted == total, "counters", f"admitted {c.admitted}, in all places {total}")
        counted = self._counts
        ours = (counted["admitted"], len(self._held), counted["done"], counted["dead"], counted["merged"])
        theirs = (c.admitted, c.leased, c.done, c.dead, c.merged)
        least, most = self._visits.later_than(now), self._visits.planned
        said = f"{c.waiting} pages wait, and {most} visits are planned, {least} for later"
        self.expect(least <= c.waiting <= most, "visits", said)
        said = f"admitted, leased, done, dead, merged are {theirs}, and should be {ours}"
        self.expect(theirs == ours, "counters", said)

    def places(self, record: HostRecord) -> None:
        live, taken = self._live_on(record.name), record.valve.in_flight
        self.expect(live == taken, "places", f"{record.name} has in_flight {taken} and {live} live leases")
        domain = registrable_domain(record.name)
        self.expect(
            (record.domain is not None) == self._is_shared(domain), "domain", f"{domain} is shared or not"
        )
        if record.domain is not None:
            live, taken = self._live_on(*self._domain_hosts[domain]), record.domain.in_flight
            self.expect(live == taken, "domain", f"{domain} has in_flight {taken} and {live} live leases")

    def hit(self, worker: str, host: Host, path: str) -> None:
        self.hits["robots" if path == "/robots.txt" else "page"] += 1
        self._permits[worker, host.name] -= 1
        more = self._permits[worker, host.name]
        self.expect(more >= 0, "permission", f"{worker} hits {host.name}{path} without a lease for it")
        if path == "/robots.txt":
            return
        self._pages_hit.add(host.url(path))
        if self._settings.robots:
            known = host.name in self._robots_answered
            self.expect(known, "robots", f"{host.name}{path} is fetched before robots.txt was")
            self.expect(not forbids(host, path), "robots", f"{host.name}{path} is forbidden by robots.txt")

    def at_the_server(self, host: Host, count: int) -> None:
        most = most_at_once(self._settings)
        self.expect(count <= most, "server", f"{host.name} has {count} requests under way, its cap is {most}")

    def robots_answered(self, host: Host) -> None:
        self._robots_answered.add(host.name)

    def stopped(self, worker: str, late: float) -> None:
        own = [
            held.lease
            for token, held in self._held.items()
            if token not in self._revived and held.worker == worker
        ]
        left = [lease.task.url for lease in own]
        self.expect(not left, "farewell", f"{worker} stopped, but holds {', '.join(left)}")
        self.expect(late <= 0, "farewell", f"{worker} stopped {late:.1f} s after its grace")

    # -- at the end

    def follows_all(self) -> bool:
        """Whether every obtainable page was visited, and is visited again."""
        return self._web.obtainable(robots=self._settings.robots) <= self._visits.pages()

    def owes_visits(self, now: float) -> bool:
        """Whether visits that were due by then have not begun."""
        return self._visits.planned > self._visits.later_than(now)

    def ended(self, rows: Sequence[bytes], *, everything_fails: bool, workers: int) -> None:
        self.expect(
            not self.has_file or list(rows) == self.rows,
            "rows",
            "the journal is not what settled pages yielded",
        )
        items = map(msgspec.json.decode, rows)
        got = Counter(item["url"] for item in items if "url" in item)  # the others tell of changes
        if self._web.changes:
            faults = list(faults_of_feed(rows))
            self.expect(not faults, "feed", "; ".join(faults[:3]))
        else:
            doubled = [url for url, count in got.items() if count > 1]
            self.expect(not doubled, "rows", f"more than one row for {', '.join(doubled)}")
        wanted = self._web.obtainable(robots=self._settings.robots)
        missing, extra = sorted(wanted - got.keys()), sorted(got.keys() - wanted)
        self.expect(not missing, "obtainable", f"not obtained: {', '.join(missing)}")
        self.expect(not extra, "obtainable", f"obtained, though impossible: {', '.join(extra)}")
        if everything_fails:
            self._within_budget(workers)

    def _within_budget(self, workers: int) -> None:
        """Of every process: its floor, or its share of first attempts."""
        first, pages = len(self._pages_hit), self.hits["page"]
        floor, share = self._settings.retry_budget_floor, self._settings.retry_budget
        most = first * (1 + share) + workers * floor
        self.expect(pages <= most, "budget", f"{pages} requests for {first} pages; {most:g} are allowed")
