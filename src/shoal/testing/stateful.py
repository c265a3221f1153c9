"""A frontier under random use: Hypothesis plays workers, crashes and clocks against a plain model.

    class TestMyHome(stateful.machine(lambda clock: MyFrontier(clock=clock)).TestCase): ...

The model knows for every URL whether it is pending, delayed, leased, done or dead, and what is remembered of a page
that is visited again. After each step the frontier must agree on the counts, no task may have two live leases, no page
may be visited before its time, and no host or domain may be hit more often than its valve allows; and whoever works on
as the frontier says comes to an end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Claim, DeadFilter, JobSpec
from shoal.model import Dead, Done, Failure, Lease, Moved, Retry, Revisit, Row, Settlement, Task, Verdict
from shoal.model.page_record import PageRecord
from shoal.testing.conformance.tools import ListJournal, make_task
from shoal.testing.manual_clock import ManualClock
from shoal.valve import DomainLimit, Valve

DOMAIN = "c.test"
SHARING = tuple(f"{name}.{DOMAIN}" for name in ("x", "y", "z"))
HOSTS = ("a.test", "b.test", *SHARING)
LANES = ("urgent", "normal")
MAX_ATTEMPTS = 3
LEASE = 30.0
FAILED = Failure("timeout")

urls = st.builds(lambda host, n: f"http://{host}/{n}", st.sampled_from(HOSTS), st.integers(0, 11))


def _id(task: Task) -> int:
    """The first id of the task: with each visit it may get another."""
    return task.record.first if task.record is not None else task.id


def _task(url: str) -> Task:
    return make_task(url, lane=LANES[int(url[-1]) % 2])


class FrontierMachine(RuleBasedStateMachine):
    make: Callable[[ManualClock], Frontier]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.frontier = type(self).make(self.clock)
        self.journal = ListJournal()
        self.seen: set[str] = set()  # every URL ever admitted or redirected to
        self.where: dict[int, str] = {}  # task's first id -> waiting, revisit, leased, done, dead, merged
        self.records: dict[int, PageRecord] = {}  # task id -> what is remembered of its page
        self.due: dict[int, float] = {}  # task id -> when its next visit is due
        self.merged: dict[str, str] = {}  # URL -> the URL of the page that it redirected to
        self.held: dict[int, Lease] = {}  # token -> lease that is alive
        self.deadlines: dict[int, float] = {}
        self.claimed: dict[int, float] = {}  # token -> when
        self.lost: list[Lease] = []  # leases that were given away or ended
        self.hits: dict[str, list[float]] = {host: [] for host in HOSTS}
        self.domain_hits: list[float] = []  # since it has two hosts
        self.visited: set[str] = set()  # hosts of which turns were taken
        self.rows: list[bytes] = []
        self.own: Counter[str] = Counter()  # counters of the spider
        self.admitted = 0

    def do(self, verb: Any) -> Any:
        return self.loop.run_until_complete(verb)

    def teardown(self) -> None:
        self.do(self.frontier.close())
        self.loop.close()

    @initialize(
        interval=st.sampled_from([0.0, 0.5, 2.0]),
        burst=st.integers(1, 3),
        cap=st.integers(1, 3),
        limit=st.builds(DomainLimit, st.sampled_from([0.0, 0.2, 3.0]), st.integers(0, 3)),
    )
    def open(self, interval: float, burst: int, cap: int, limit: DomainLimit) -> None:
        self.valve = Valve(interval=interval, burst=burst, cap=cap)
        self.limit = limit
        self.do(self.frontier.open())
        spec = JobSpec("job", valve=self.valve, max_attempts=MAX_ATTEMPTS, domain=limit)
        self.do(self.frontier.open_job(spec))

    # -- what workers and people do

    @rule(batch=st.lists(urls, max_size=12))
    def add(self, batch: list[str]) -> None:
        added = self.do(self.frontier.add("job", [_task(url) for url in batch]))
        fresh = set(batch) - self.seen
        assert added.new == len(fresh)
        self.seen |= fresh
        self.admitted += added.new

    @rule(limit=st.integers(1, 6), worker=st.sampled_from(["w1", "w2"]), ahead=st.integers(0, 3))
    def claim(self, limit: int, worker: str, ahead: int = 0) -> None:
        self._expire()
        claim = Claim(worker, ["job"], dict.fromkeys(LANES, limit), limit, LEASE, ahead={"job": ahead})
        got = self.do(self.frontier.claim(claim))
        assert len(got.leases) <= limit
        for lease in got.leases:
            busy = {_id(held.task) for held in self.held.values()}
            assert _id(lease.task) not in busy, "a second live lease for the same task"
            assert lease.token not in self.held
            assert 1 <= lease.task.attempt <= MAX_ATTEMPTS
            self._check_visit(lease.task)
            self.where[_id(lease.task)] = "leased"
            self.held[lease.token] = lease
            self.deadlines[lease.token] = self.clock.monotonic() + LEASE
            self.claimed[lease.token] = self.clock.monotonic()
            if not lease.ahead:
                self.hits[lease.task.host].append(self.clock.monotonic())
        sent = [lease for lease in got.leases if not lease.ahead]
        self._domain_hit([lease for lease in sent if lease.task.host in SHARING])
        if len(got.leases) < limit and got.next_due < 1e9:
            assert got.next_due > 0, "work is due, but was not given"

    @rule(host=st.sampled_from(HOSTS), most=st.sampled_from([0.0, 1.0, 60.0]))
    def reserve(self, host: str, most: float) -> None:
        """A request inside a page takes the host's next turn."""
        self.visited.add(host)
        turn = self.do(self.frontier.reserve("job", host, most))
        assert turn.taken == (turn.wait <= most)
        if turn.taken:
            self.hits[host].append(self.clock.monotonic() + turn.wait)
            if host in SHARING and self._is_shared():
                self.domain_hits.append(self.clock.monotonic() + turn.wait)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), found=st.lists(urls, max_size=4))
    def finish(self, data: st.DataObject, found: list[str]) -> None:
        lease = self._pick(data)
        row = Row(f"{lease.task.url}\n".encode())
        tasks = tuple(_task(url) for url in found)
        settlement = Settlement(lease, Done(), tasks, (row,), counts=(("rows", 1), (lease.task.host, 2)))
        self.own.update({"rows": 1, lease.task.host: 2})
        settled = self.do(self.frontier.settle([settlement], self.journal))
        assert list(settled.accepted) == [True]
        fresh = set(found) - self.seen
        assert settled.found.new == len(fresh), "a settled page's links must be admitted with it"
        self.seen |= fresh
        self.admitted += settled.found.new
        self.rows.append(row.data)
        self._end(lease, "done")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish_without_a_request(self, data: st.DataObject) -> None:
        """The page was in a cache: the host was not hit."""
        lease = self._pick(data)
        settled = self.do(self.frontier.settle([Settlement(lease, Done(), unsent=True)]))
        assert list(settled.accepted) == [True]
        at = self.claimed[lease.token]
        if not lease.ahead:
            self.hits[lease.task.host].remove(at)
            if lease.task.host in SHARING and at in self.domain_hits:
                self.domain_hits.remove(at)
        self._end(lease, "done")

    @precondition(lambda self: self.held)
    @rule(data=st.data(), after=st.sampled_from([0.0, 1.0, 20.0]))
    def fail(self, data: st.DataObject, after: float) -> None:
        lease = self._pick(data)
        settled = self.do(self.frontier.settle([Settlement(lease, Retry(after, FAILED))]))
        last = lease.task.attempt >= MAX_ATTEMPTS
        assert (list(settled.accepted), settled.buried) == ([True], int(last))
        self._end(lease, "dead" if last else "waiting")

    @precondition(lambda self: self.held)
    @rule(data=st.data(), after=st.sampled_from([0.0, 1.0, 20.0, 3600.0]), found=st.lists(urls, max_size=2))
    def finish_a_visit(self, data: st.DataObject, after: float, found: list[str]) -> None:
        """The page is visited again."""
        lease = self._pick(data)
        id, row = _id(lease.task), Row(f"{lease.task.url}\n".encode())
        visits = self.records.get(id, PageRecord()).visits + 1
        record = PageRecord(visits=visits, rate=bytes([id % 256]), first=id)
        tasks = tuple(_task(url) for url in found)
        settlement = Settlement(lease, Revisit(after, record), tasks, (row,))
        settled = self.do(self.frontier.settle([settlement], self.journal))
        assert (list(settled.accepted), settled.found.new) == ([True], len(set(found) - self.seen))
        self.seen |= set(found)
        self.admitted += settled.found.new
        self.rows.append(row.data)
        self.records[id], self.due[id] = record, self.clock.monotonic() + after
        self._end(lease, "revisit")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        lease = self._pick(data)
        self._settle(lease, Dead(FAILED))
        self._end(lease, "dead")

    @precondition(lambda self: self.held)
    @rule(data=st.data(), url=urls)
    def redirect(self, data: st.DataObject, url: str) -> None:
        lease = self._pick(data)
        to = replace(_task(url), hops=(*lease.task.hops, lease.task.url), trail=lease.task.pages)
        moved = Moved(replace(to, record=lease.task.record))
        duplicate = url in self.seen and not moved.returns_to(lease.task)
        self.seen.add(url)
        self._settle(lease, moved)
        self._end(lease, "merged" if duplicate else "waiting")
        if duplicate:
            self.merged |= dict.fromkeys(to.hops, url)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = self._pick(data)
        assert self.do(self.frontier.release([lease])) == 1
        self._end(lease, "waiting")

    @precondition(lambda self: self.lost)
    @rule(data=st.data(), found=st.lists(urls, max_size=2))
    def settle_too_late(self, data: st.DataObject, found: list[str]) -> None:
        lease = data.draw(st.sampled_from(self.lost))
        late = Settlement(
            lease, Done(), tuple(_task(url) for url in found), (Row(b"late\n"),), counts=(("late", 1),)
        )
        assert list(self.do(self.frontier.settle([late], self.journal)).accepted) == [False]

    @rule(worker=st.sampled_from(["w1", "w2"]))
    def heartbeat(self, worker: str) -> None:
        self._expire()
        self.do(self.frontier.reap())
        before = self.do(self.frontier.extend(worker, LEASE))
        assert before <= len(self.held)
        # Which worker holds which lease is the frontier's to know: keep all of them alive in the model too.
        other = "w2" if worker == "w1" else "w1"
        assert before + self.do(self.frontier.extend(other, LEASE)) == len(self.held)
        for token in self.held:
            self.deadlines[token] = self.clock.monotonic() + LEASE

    @rule(seconds=st.sampled_from([0.1, 0.5, 2.0, 11.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3600.0, 3600.0]))
    def wall_clock_jumps(self, seconds: float) -> None:
        self.clock.jump_wall(seconds)

    @rule()
    def replay_the_dead(self) -> None:
        self._expire()
        self.do(self.frontier.reap())
        dead = [id for id, place in self.where.items() if place == "dead"]
        assert self.do(self.frontier.replay(DeadFilter(job="job"))) == len(dead)
        for id in dead:
            self.where[id] = "waiting"

    @rule(limit=st.integers(1, 6))
    def work_until_nothing_is_left(self, limit: int) -> None:
        """Claims, sleeps as long as the frontier says, and claims again."""
        self._expire()
        self.do(self.frontier.reap())
        for lease in list(self.held.values()):
            self._settle(lease, Done())
            self._end(lease, "done")
        open_tasks = self.do(self.frontier.job("job")).counters.open
        for _ in range(4 * open_tasks + 4):
            got = self.do(
                self.frontier.claim(Claim("w1", ["job"], dict.fromkeys(LANES, limit), limit, LEASE))
            )
            for lease in got.leases:
                self.hits[lease.task.host].append(self.clock.monotonic())
                self._check_visit(lease.task)
                self.where[_id(lease.task)] = "done"
            self._domain_hit([lease for lease in got.leases if lease.task.host in SHARING], ended=True)
            self.do(self.frontier.settle([Settlement(lease, Done()) for lease in got.leases]))
            self.lost += got.leases
            if not got.leases and got.next_due < 1e9:
                self.clock.advance(got.next_due)
        assert self.do(self.frontier.job("job")).counters.open == 0, "there is work that nobody is given"

    # -- what must hold

    @invariant()
    def counts_agree(self) -> None:
        self._expire()
        self.do(self.frontier.reap())
        job = self.do(self.frontier.job("job"))
        assert job.counts == self.own, "a counter is added to with its page, once"
        c = job.counters
        places = Counter(self.where.values())
        assert c.admitted == self.admitted
        assert c.admitted == c.pending + c.delayed + c.leased + c.done + c.dead + c.merged
        lanes = self.do(self.frontier.lanes("job"))
        assert sum(lanes.values()) == c.pending
        assert set(lanes) <= set(LANES)
        assert min(lanes.values(), default=1) > 0
        assert (c.leased, c.done) == (len(self.held), places["done"])
        assert (c.dead, c.merged) == (places["dead"], places["merged"])
        early = sum(
            place == "revisit" and self.due[id] > self.clock.monotonic() for id, place in self.where.items()
        )
        assert early <= c.waiting <= min(places["revisit"], c.delayed), "some are due, and not promoted yet"

    @rule(data=st.data())
    def ask_why(self, data: st.DataObject) -> None:
        """A page that was merged is found as such, or where another task has taken it since."""
        if self.merged:
            url = data.draw(st.sampled_from(sorted(self.merged)))
            found = self.do(self.frontier.find("job", _task(url)))
            assert found.task is not None or (found.place, found.into) == ("merged", self.merged[url])

    @invariant()
    def hosts_are_hit_no_faster_than_their_valve(self) -> None:
        for times in map(sorted, self.hits.values()):
            for first in range(len(times)):
                for last in range(first + self.valve.burst, len(times)):
                    needed = (last - first - self.valve.burst + 1) * self.valve.interval
                    assert times[last] - times[first] >= needed - 1e-6

    @invariant()
    def no_host_exceeds_its_cap(self) -> None:
        in_flight = Counter(lease.task.host for lease in self.held.values() if not lease.ahead)
        assert all(count <= self.valve.cap for count in in_flight.values())
        for host in HOSTS:
            record = self.do(self.frontier.host(host))
            assert record is None or record.valve.in_flight == in_flight[host]

    @invariant()
    def the_domain_is_hit_no_faster_than_it_allows(self) -> None:
        if self.valve.interval:  # a host without a rate is not held to its domain's
            for earlier, later in itertools.pairwise(sorted(self.domain_hits)):
                assert later - earlier >= self.limit.interval - 1e-6

    @invariant()
    def the_domain_counts_what_is_in_flight(self) -> None:
        live = sum(lease.task.host in SHARING for lease in self.held.values() if not lease.ahead)
        for host in SHARING:
            record = self.do(self.frontier.host(host))
            shared = self._is_shared() and record is not None
            assert (record is not None and record.domain is not None) == shared
            assert not shared or record.domain.in_flight == live

    @invariant()
    def the_journal_holds_each_row_once(self) -> None:
        assert self.journal.data == b"".join(self.rows)

    # -- the model's own book-keeping

    def _is_shared(self) -> bool:
        return len(({host_key(url) for url in self.seen} | self.visited) & set(SHARING)) > 1

    def _domain_hit(self, leases: list[Lease], *, ended: bool = False) -> None:
        """The domain gave these leases; `ended`: they are settled at once."""
        if leases and self._is_shared():
            self.domain_hits += [self.clock.monotonic()] * len(leases)
            held = [lease for lease in self.held.values() if not lease.ahead]
            live = sum(lease.task.host in SHARING for lease in held) + ended * len(leases)
            assert not self.limit.cap or live <= self.limit.cap, "more in flight than the domain allows"

    def _pick(self, data: st.DataObject) -> Lease:
        self._expire()
        self.do(self.frontier.reap())
        if not self.held:
            return self._claim_one()
        return self.held[data.draw(st.sampled_from(sorted(self.held)))]

    def _claim_one(self) -> Lease:
        """All leases ran out while time passed: wait long enough and take one again."""
        self.clock.advance(25.0)
        before = set(self.held)
        self.claim(1, "w1")
        fresh = set(self.held) - before
        if not fresh:
            self.add([f"http://{HOSTS[0]}/extra-{self.admitted}"])
            self.clock.advance(5.0)
            self.claim(6, "w1")
        return next(iter(self.held.values()))

    def _check_visit(self, task: Task) -> None:
        id = _id(task)
        assert task.record == self.records.get(id)
        if self.where.get(id) == "revisit":
            assert task.attempt == 1
            assert self.clock.monotonic() >= self.due[id] - 1e-4, "visited before its time"

    def _settle(self, lease: Lease, verdict: Verdict) -> None:
        assert list(self.do(self.frontier.settle([Settlement(lease, verdict)])).accepted) == [True]

    def _end(self, lease: Lease, place: str) -> None:
        self.where[_id(lease.task)] = place
        self.lost.append(self.held.pop(lease.token))
        del self.deadlines[lease.token]

    def _expire(self) -> None:
        for token, deadline in list(self.deadlines.items()):
            if deadline <= self.clock.monotonic():
                lease = self.held[token]
                self._end(lease, "dead" if lease.task.attempt >= MAX_ATTEMPTS else "waiting")


def machine(make: Callable[[ManualClock], Frontier]) -> type[FrontierMachine]:
    """The state machine for one home; run its `.TestCase`."""
    return type("Machine", (FrontierMachine,), {"make": staticmethod(make)})
