"""The dispatcher: what it starts, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from lateness import Lateness
from shoal.engine.dispatcher import Engine
from shoal.engine.login_tasks import waiting_for_login
from shoal.engine.pressure import Load
from shoal.engine.served import OneJob
from shoal.errors import SinkError, StoreFull
from shoal.fetch.slots import take_slot, waiting
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier, Journal
from shoal.frontier.values import Claim, Claimed, Counters, Cursor, DeadFilter, JobSpec, Settled, worker_lost
from shoal.jobs.worker_status import status_of
from shoal.model import Done, Failure, Lease, Retry, Settlement
from shoal.policy.backpressure import Pressure, Reason
from shoal.settings import Settings
from shoal.sink import Sink
from shoal.testing.conformance.tools import JournalSink, make_task
from shoal.testing.simulation.virtual import SimulatedClock, VirtualLoop
from shoal.valve import Valve

OPEN = Valve(interval=0.0, cap=100)
DEADLINE = 60.0

Work = Callable[[Lease], Awaitable[Settlement | None]]


class Pages:
    """In place of a worker: does with a lease what the test says, and notes what becomes of it."""

    def __init__(self, work: Work | None = None) -> None:
        self._work = work or self._done
        self.started: list[str] = []
        self.settlements: list[tuple[str, bool]] = []
        self.forgotten = 0

    async def _done(self, lease: Lease) -> Settlement:
        return Settlement(lease, Done())

    async def process(self, lease: Lease) -> Settlement | None:
        self.started.append(lease.task.url)
        return await self._work(lease)

    def complete(self, settlement: Settlement) -> Settlement:
        return settlement

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        self.settlements.append((settlement.lease.task.url, accepted))

    async def forget(self) -> None:
        self.forgotten += 1

    def sync(self, frontier_time: float) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def write_back(self, *, everything: bool = False) -> None:
        pass


class Job:
    made_at = 0.0

    def __init__(self, name: str, pages: Pages, sink: Sink, settings: Settings) -> None:
        self.name, self.pages, self.sink, self.settings = name, pages, sink, settings


class Gate:
    """Pages that stay in flight until they are let go."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0
        self.peak = 0
        self._arrivals = asyncio.Condition()

    async def process(self, lease: Lease) -> Settlement:
        self.waiting += 1
        self.peak = max(self.peak, self.waiting)
        async with self._arrivals:
            self._arrivals.notify_all()
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
            async with self._arrivals:
                self._arrivals.notify_all()
        return Settlement(lease, Done())

    async def holds(self, count: int) -> None:
        await self.arrival(lambda: self.waiting == count)

    async def arrival(self, after_which: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE), self._arrivals:
            await self._arrivals.wait_for(after_which)


@pytest.fixture
async def frontier() -> AsyncIterator[MemoryFrontier]:
    async with MemoryFrontier() as frontier:
        await frontier.open_job(JobSpec("job", valve=OPEN))
        yield frontier


async def add(frontier: Frontier, count: int) -> None:
    await frontier.add("job", [make_task(f"http://h{n}.test/") for n in range(count)], Cursor(fed_all=True))


async def counters(frontier: Frontier) -> Counters:
    job = await frontier.job("job")
    assert job is not None
    return job.counters


def engine_of(frontier: Frontier, pages: Pages, **settings: object) -> Engine:
    return pressed(frontier, pages, Pressure, **settings)


async def finish(engine: Engine) -> None:
    async with asyncio.timeout(DEADLINE):
        await engine.run()


class Telling(MemoryFrontier):
    """A store that says whose turn it is to look, as one does that many share."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = 0
        self.told = False  # whether it is the turn of this one

    async def claim(self, claim: Claim) -> Claimed:
        self.claims += 1
        return replace(await super().claim(claim), again=60.0)

    async def wait(self, seconds: float) -> bool:
        await super().wait(seconds)
        told, self.told = self.told, False
        return told


async def test_it_asks_only_when_it_is_told_to() -> None:
    frontier = Telling()
    await frontier.open_job(JobSpec("job", valve=OPEN))
    await add(frontier, 2)
    gate = Gate()
    pages = Pages(gate.process)
    running = asyncio.create_task(finish(engine_of(frontier, pages, concurrency=5)))
    await gate.holds(2)
    gate.open.set()
    async with asyncio.timeout(DEADLINE):
        while len(pages.settlements) < 2:  # noqa: ASYNC110 (the engine does not know of us)
            await asyncio.sleep(0.01)
    assert frontier.claims == 1  # what has ended is settled without another claim
    await running


async def test_told_it_looks_and_after_a_rest_it_looks_by_itself() -> None:
    frontier = Telling()
    await frontier.open_job(JobSpec("job", valve=OPEN), "start")
    pressure = [Pressure()]
    running = asyncio.create_task(finish(pressed(frontier, Pages(), lambda: pressure[-1])))

    async def claims(told: bool, than: Pressure = pressure[0]) -> int:
        before = frontier.claims
        frontier.told = told
        pressure.append(than)
        frontier.wake()
        for _ in range(200):
            await asyncio.sleep(0)
        return frontier.claims - before

    await claims(told=True)
    assert await claims(told=False) == 0
    assert await claims(told=True) == 1
    assert await claims(told=True, than=Pressure(claiming_paused=True)) == 0
    # Meanwhile it was not there to be told.
    assert await claims(told=False) == 1
    await frontier.add("job", [], Cursor("start", fed_all=True))
    await running


# -- to the end


async def test_it_runs_until_nothing_is_left(frontier: MemoryFrontier) -> None:
    async def with_a_link(lease: Lease) -> Settlement:
        found = (make_task("http://found.test/"),) if lease.task.host == "h0.test" else ()
        return Settlement(lease, Done(), found)

    await add(frontier, 3)
    pages = Pages(with_a_link)
    await finish(engine_of(frontier, pages))
    assert (await counters(frontier)).done == 4
    assert sorted(pages.settlements) == [(f"http://{h}.test/", True) for h in ("found", "h0", "h1", "h2")]


async def test_it_waits_for_a_retry(frontier: MemoryFrontier) -> None:
    async def fails_once(lease: Lease) -> Settlement:
        failed = Retry(0.05, Failure("timeout"))
        return Settlement(lease, Done() if lease.task.attempt > 1 else failed)

    await add(frontier, 2)
    await finish(engine_of(frontier, Pages(fails_once)))
    after = await counters(frontier)
    assert (after.done, after.retried) == (2, 2)


async def test_it_waits_for_the_feeder(frontier: MemoryFrontier) -> None:
    pages = Pages()
    running = asyncio.create_task(finish(engine_of(frontier, pages)))
    await asyncio.sleep(0)
    await add(frontier, 1)
    await running
    assert pages.started == ["http://h0.test/"]


async def test_no_more_run_at_once_than_configured(frontier: MemoryFrontier) -> None:
    await add(frontier, 10)
    gate = Gate()
    running = asyncio.create_task(finish(engine_of(frontier, Pages(gate.process), concurrency=3)))
    await gate.holds(3)
    gate.open.set()
    await running
    assert gate.peak == 3
    assert (await counters(frontier)).done == 10


@pytest.mark.parametrize(("per_slot", "in_flight"), [(0, 3), (2, 9)])
async def test_pages_that_only_wait_make_room_for_others(
    frontier: MemoryFrontier, per_slot: int, in_flight: int
) -> None:
    await add(frontier, 20)
    gate, handling = Gate(), Counter[str]()

    async def work(lease: Lease) -> Settlement:
        with waiting():
            settlement = await gate.process(lease)
        await take_slot()
        handling["now"] += 1
        handling["peak"] = max(handling["peak"], handling["now"])
        await asyncio.sleep(0)
        handling["now"] -= 1
        return settlement

    engine = engine_of(frontier, Pages(work), concurrency=3, waiting_per_slot=per_slot)
    running = asyncio.create_task(finish(engine))
    await gate.holds(in_flight)
    assert (engine.in_flight, engine.waiting) == (in_flight, in_flight)
    gate.open.set()
    await running
    assert gate.peak == in_flight
    assert handling["peak"] <= 3, "what costs is done by so many at once as there are slots"
    assert (await counters(frontier)).done == 20
    assert (engine.in_flight, engine.waiting) == (0, 0)


async def test_a_lanes_cap_counts_those_that_wait(frontier: MemoryFrontier) -> None:
    await add_lanes(frontier, normal=10, discovery=10)
    gate = Gate()
    lanes: Counter[str] = Counter()

    async def work(lease: Lease) -> Settlement:
        lanes[lease.task.lane] += 1
        with waiting():
            return await gate.process(lease)

    engine = engine_of(frontier, Pages(work), concurrency=4, lane_caps={"discovery": 2})
    running = asyncio.create_task(finish(engine))
    await gate.holds(12)
    assert lanes == {"normal": 10, "discovery": 2}
    gate.open.set()
    await running


async def test_a_page_that_returns_nothing_goes_back_untouched(frontier: MemoryFrontier) -> None:
    """Its permission was used for something else; the attempt does not count."""
    attempts: list[int] = []

    async def second_time(lease: Lease) -> Settlement | None:
        attempts.append(lease.task.attempt)
        return Settlement(lease, Done()) if len(attempts) == 2 else None

    await add(frontier, 1)
    await finish(engine_of(frontier, Pages(second_time)))
    assert attempts == [1, 1]
    assert (await counters(frontier)).done == 1


async def test_a_job_that_is_paused_ends_the_run(frontier: MemoryFrontier) -> None:
    await add(frontier, 5)
    await frontier.set_state("job", "paused")
    pages = Pages()
    await finish(engine_of(frontier, pages))
    assert pages.started == []


async def test_a_claim_that_is_answered_before_the_settlement_is_made_again() -> None:
    """Not every home carries out both at once. The place that the settlement gives back would be seen by nobody."""

    class SlowToSettle(MemoryFrontier):
        async def settle(
            self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
        ) -> Settled:
            await asyncio.sleep(0.01)
            return await super().settle(batch, journal, epoch=epoch)

    slow = SlowToSettle()
    await slow.open_job(JobSpec("job", valve=Valve(interval=0.0, cap=1)))
    await slow.add("job", [make_task(f"http://one.test/{n}") for n in range(5)], Cursor(fed_all=True))
    await finish(engine_of(slow, Pages()))
    assert (await counters(slow)).done == 5


# -- being stopped


async def test_stop_finishes_what_runs_and_claims_no_more(frontier: MemoryFrontier) -> None:
    await add(frontier, 10)
    gate = Gate()
    engine = engine_of(frontier, Pages(gate.process), concurrency=4)
    running = asyncio.create_task(finish(engine))
    await gate.holds(4)
    engine.stop()
    gate.open.set()
    await running
    after = await counters(frontier)
    assert (after.done, after.pending, after.leased) == (4, 6, 0)


async def test_what_takes_longer_than_the_grace_period_is_handed_back(frontier: MemoryFrontier) -> None:
    await add(frontier, 3)
    gate = Gate()
    engine = engine_of(frontier, Pages(gate.process), grace=0.05)
    running = asyncio.create_task(finish(engine))
    await gate.holds(3)
    engine.stop()
    await running
    after = await counters(frontier)
    assert (after.done, after.pending, after.leased) == (0, 3, 0)
    [first, *_] = (await frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))).leases
    assert first.task.attempt == 1, "the attempt that was cut short does not count"


async def test_a_page_that_waits_for_a_login_is_handed_back_at_once(frontier: MemoryFrontier) -> None:
    """It has not been sent, and the login may wait for a proxy for longer than the grace period."""
    await add(frontier, 3)
    gate = Gate()

    async def process(lease: Lease) -> Settlement:
        if lease.task.host != "h0.test":
            return await gate.process(lease)
        with waiting_for_login():
            return await gate.process(lease)

    engine = engine_of(frontier, Pages(process), grace=3600)
    running = asyncio.create_task(finish(engine))
    await gate.holds(3)
    engine.stop()
    await gate.arrival(lambda: gate.waiting == 2)
    gate.open.set()
    await running
    after = await counters(frontier)
    assert (after.done, after.pending, after.leased) == (2, 1, 0)


async def test_force_does_not_wait(frontier: MemoryFrontier) -> None:
    await add(frontier, 3)
    gate = Gate()
    engine = engine_of(frontier, Pages(gate.process), grace=3600)
    running = asyncio.create_task(finish(engine))
    await gate.holds(3)
    engine.stop()
    engine.force()
    await running
    assert (await counters(frontier)).pending == 3


async def test_what_is_claimed_when_the_time_is_up_is_not_begun(frontier: MemoryFrontier) -> None:
    claim, asked, answer = frontier.claim, asyncio.Event(), asyncio.Event()

    async def slowly(wanted: Claim) -> Claimed:
        asked.set()
        await answer.wait()
        return await claim(wanted)

    await add(frontier, 2)
    frontier.claim = slowly  # type: ignore[method-assign]
    pages = Pages()
    engine = engine_of(frontier, pages)
    running = asyncio.create_task(finish(engine))
    await asked.wait()
    engine.force()
    answer.set()
    await running
    assert pages.started == []
    assert (await counters(frontier)).pending == 2


async def test_a_cancelled_run_keeps_no_leases(frontier: MemoryFrontier) -> None:
    await add(frontier, 3)
    gate = Gate()
    running = asyncio.create_task(finish(engine_of(frontier, Pages(gate.process))))
    await gate.holds(3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    after = await counters(frontier)
    assert (after.pending, after.leased) == (3, 0)


async def test_a_claim_that_is_cancelled_midway_keeps_no_leases(frontier: MemoryFrontier) -> None:
    """The store may have carried it out before the news came."""
    asked, answered = asyncio.Event(), asyncio.Event()

    class Slow(MemoryFrontier):
        async def claim(self, claim: Claim) -> Claimed:
            claimed = await super().claim(claim)
            asked.set()
            await answered.wait()
            return claimed

    slow = Slow()
    await slow.open_job(JobSpec("job", valve=OPEN))
    await add(slow, 3)
    running = asyncio.create_task(finish(engine_of(slow, Pages())))
    async with asyncio.timeout(DEADLINE):
        await asked.wait()
    running.cancel()
    await asyncio.sleep(0)
    answered.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    after = await counters(slow)
    assert (after.pending, after.leased) == (3, 0)


# -- trouble


async def test_a_bug_is_buried_with_its_traceback(
    frontier: MemoryFrontier, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(lease: Lease) -> Settlement:
        raise ZeroDivisionError("oops")

    await add(frontier, 1)
    await finish(engine_of(frontier, Pages(broken)))
    [letter] = await frontier.dead(DeadFilter())
    assert letter.kind == "unexpected"
    assert letter.task.history[-1].detail == "ZeroDivisionError: oops"
    assert letter.snapshot is not None
    assert "in broken" in letter.snapshot.traceback
    assert "a bug in Shoal, met on http://h0.test/" in caplog.text


@pytest.mark.parametrize("error", [StoreFull("no space left"), SinkError("cannot write rows.jsonl")])
async def test_an_error_of_store_or_sink_stops_the_run(frontier: MemoryFrontier, error: Exception) -> None:
    async def fails(lease: Lease) -> Settlement:
        raise error

    await add(frontier, 3)
    with pytest.raises(type(error)) as caught:
        await finish(engine_of(frontier, Pages(fails), concurrency=1))
    assert caught.value is error


async def test_a_settlement_that_cannot_be_written_stops_the_run(frontier: MemoryFrontier) -> None:
    class Full(MemoryFrontier):
        async def settle(
            self, batch: Sequence[Settlement], journal: object = None, *, epoch: str | None = None
        ) -> object:  # type: ignore[override]
            raise StoreFull("no space left")

    full = Full()
    await full.open_job(JobSpec("job", valve=OPEN))
    await add(full, 3)
    pages = Pages()
    with pytest.raises(StoreFull, match="no space left"):
        await finish(engine_of(full, pages))
    assert pages.settlements == []


async def test_pages_in_flight_are_stopped_when_the_store_fails(frontier: MemoryFrontier) -> None:
    gate = Gate()

    async def one_fails(lease: Lease) -> Settlement:
        if lease.task.host == "h0.test":
            await gate.holds(2)
            raise StoreFull("no space left")
        return await gate.process(lease)

    await add(frontier, 3)
    with pytest.raises(StoreFull):
        await finish(engine_of(frontier, Pages(one_fails)))
    assert gate.waiting == 0


async def test_a_late_settlement_is_refused_and_reported(
    frontier: MemoryFrontier, caplog: pytest.LogCaptureFixture
) -> None:
    async def loses_its_lease(lease: Lease) -> Settlement:
        if lease.task.attempt == 1 and not taken:
            taken.append(await frontier.release([lease]))  # as if it had expired
        return Settlement(lease, Done())

    taken: list[int] = []
    await add(frontier, 1)
    pages = Pages(loses_its_lease)
    with caplog.at_level(logging.WARNING, "shoal"):
        await finish(engine_of(frontier, pages))
    assert pages.settlements == [("http://h0.test/", False), ("http://h0.test/", True)]
    assert "settled too late" in caplog.text
    after = await counters(frontier)
    assert (after.done, after.stale) == (1, 1)


async def test_long_pages_keep_their_leases_by_heartbeat() -> None:
    """A lease of 0.15 s, a page of several times that: without a heartbeat it would be given away."""
    frontier = MemoryFrontier()
    await frontier.open_job(JobSpec("job", valve=OPEN))
    await add(frontier, 1)
    beats = asyncio.Semaphore(0)
    extend = frontier.extend

    async def noting(worker: str, seconds: float, status: bytes, tokens: set[int]) -> int:
        held = await extend(worker, seconds, status, tokens)
        beats.release()
        return held

    async def long(lease: Lease) -> Settlement:
        for _ in range(6):
            await beats.acquire()
        return Settlement(lease, Done())

    frontier.extend = noting  # type: ignore[method-assign]
    pages = Pages(long)
    await finish(engine_of(frontier, pages, lease=0.15, total_timeout=0.01))
    assert pages.settlements == [("http://h0.test/", True)]


async def test_a_claim_so_slow_that_its_leases_may_be_over_is_made_again(frontier: MemoryFrontier) -> None:
    """A store that was away in the middle of a claim: the permission to fetch was for then."""
    claim, claims = frontier.claim, 0

    async def slow_at_first(wanted: Claim) -> Claimed:
        nonlocal claims
        claims += 1
        claimed = await claim(wanted)
        if claims == 1:
            await asyncio.sleep(0.12)  # more than half of the lease
        return claimed

    async def of_a_later_claim(lease: Lease) -> Settlement:
        assert claims > 1
        return Settlement(lease, Done())

    await add(frontier, 1)
    frontier.claim = slow_at_first  # type: ignore[method-assign]
    await finish(engine_of(frontier, Pages(of_a_later_claim), lease=0.2))
    after = await counters(frontier)
    assert (after.done, after.dead) == (1, 0)


async def test_after_a_set_back_leases_are_compared_with_the_store(frontier: MemoryFrontier) -> None:
    """One page is still leased there and goes on, one is not and ends, and one that was settled is leased again."""
    await add(frontier, 3)
    gate = Gate()
    pages = Pages(gate.process)
    engine = engine_of(frontier, pages, lease=60.0)
    running = asyncio.create_task(finish(engine))
    await gate.holds(3)
    [kept, lost, _] = await frontier.held(engine.name)
    await frontier.release([lost])  # the store has forgotten that it gave this one
    [stray] = (await frontier.claim(Claim(engine.name, ["job"], {"normal": 1}, 1, 60.0))).leases
    frontier.epoch = "after"
    frontier.wake()
    await gate.arrival(lambda: pages.started.count(stray.task.url) == 2)
    gate.open.set()
    await running
    assert pages.forgotten == 1
    assert dict(pages.settlements)[kept.task.url]
    assert pages.settlements.count((stray.task.url, True)) == 1
    after = await counters(frontier)
    assert (after.done, after.stale, after.retried) == (3, 0, 0)


async def test_a_page_ends_before_its_lease_can_be_anothers() -> None:
    """A worker that cannot reach the store: its requests must be over when their places are given away."""
    loop = asyncio.get_running_loop()
    ended: list[float] = []
    started, in_reach = asyncio.Event(), asyncio.Event()

    class OutOfReach(MemoryFrontier):
        async def extend(self, *asked: Any, **named: Any) -> int:
            await in_reach.wait()
            return await super().extend(*asked, **named)

    async def under_way(lease: Lease) -> Settlement:
        if ended:
            return Settlement(lease, Done())
        started.set()
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            ended.append(loop.time())
        raise AssertionError("nobody ended it")

    async with OutOfReach() as frontier:
        await frontier.open_job(JobSpec("job", valve=OPEN))
        await add(frontier, 1)
        running = asyncio.create_task(
            finish(engine_of(frontier, Pages(under_way), lease=0.5, total_timeout=0.01))
        )
        await started.wait()
        [held] = await frontier.held("engine")
        given_away = loop.time() + held.deadline - await frontier.now()
        with Lateness() as late:
            await running
    assert len(ended) == 1
    assert given_away - 0.2 < ended[0] < given_away + late.seconds


async def test_a_page_that_lost_its_lease_is_not_saved_by_a_late_heartbeat(frontier: MemoryFrontier) -> None:
    """The process was frozen, and its next heartbeat is answered before any timer runs: its leases are lost, however
    well the store answers now."""
    given: list[str] = []

    async def freezes_once(lease: Lease) -> Settlement:
        given.append(lease.task.url)
        if len(given) == 1:
            time.sleep(0.4)  # noqa: ASYNC251 (nothing runs meanwhile, as under SIGSTOP)
            await frontier.reap()
            await asyncio.sleep(DEADLINE)
        return Settlement(lease, Done())

    await add(frontier, 1)
    pages = Pages(freezes_once)
    await finish(engine_of(frontier, pages, lease=0.3, total_timeout=0.01, max_attempts=9))
    assert pages.settlements == [("http://h0.test/", True)]
    assert len(given) == 2


async def test_a_page_that_is_cancelled_before_its_first_step_is_handed_back(
    frontier: MemoryFrontier,
) -> None:
    """Else its lease would be lost, and the worker's own heartbeats would keep it for ever."""
    forced: list[str] = []

    class Sinking(Pages):
        def sync(self, frontier_time: float) -> None:
            if not forced:  # between the claim and the pages that it starts
                forced.append("now")
                asyncio.get_running_loop().call_soon(engine.force)

    await add(frontier, 3)
    engine = engine_of(frontier, pages := Sinking())
    await finish(engine)
    assert (forced, pages.started) == (["now"], [])
    after = await counters(frontier)
    assert (after.leased, after.pending) == (0, 3)
    assert not await frontier.held("engine")


async def test_a_lease_outlasts_the_request_for_its_page(frontier: MemoryFrontier) -> None:
    """If this process vanishes, the server may work on until the request would have been given up."""
    claims: list[Claim] = []
    claim = frontier.claim

    async def noting(wanted: Claim) -> Claimed:
        claims.append(wanted)
        return await claim(wanted)

    await add(frontier, 1)
    frontier.claim = noting  # type: ignore[method-assign]
    await finish(engine_of(frontier, Pages(), lease=4, total_timeout=30))
    assert claims[0].lease_seconds >= 30
    await finish(engine_of(frontier, Pages(), lease=60, total_timeout=30))
    assert claims[-1].lease_seconds == 60


async def test_a_heartbeat_that_fails_stops_the_run(frontier: MemoryFrontier) -> None:
    async def fails(worker: str, seconds: float, status: bytes, tokens: set[int]) -> int:
        raise StoreFull("no space left")

    await add(frontier, 1)
    gate = Gate()
    frontier.extend = fails  # type: ignore[method-assign]
    with pytest.raises(StoreFull):
        await finish(engine_of(frontier, Pages(gate.process), lease=0.03))
    assert gate.waiting == 0


# -- backpressure and lanes


async def add_lanes(frontier: Frontier, **counts: int) -> None:
    tasks = [
        make_task(f"http://{lane}{n}.test/", lane=lane)
        for lane, count in counts.items()
        for n in range(count)
    ]
    await frontier.add("job", tasks, Cursor(fed_all=True))


def pressed(frontier: Frontier, pages: Pages, pressure: Callable[[], Pressure], **settings: object) -> Engine:
    limits = Settings(**settings)  # type: ignore[arg-type]
    jobs = OneJob(frontier, Job("job", pages, JournalSink(), limits), limits)
    return Engine(frontier, jobs, limits, name="engine", pressure=pressure)


async def test_under_pressure_fewer_slots_are_used(frontier: MemoryFrontier) -> None:
    await add(frontier, 10)
    gate = Gate()
    engine = pressed(frontier, Pages(gate.process), lambda: Pressure(concurrency=0.3), concurrency=10)
    running = asyncio.create_task(finish(engine))
    await gate.holds(3)
    gate.open.set()
    await running
    assert gate.peak == 3


async def test_a_paused_lane_is_not_claimed_until_the_pressure_is_off(frontier: MemoryFrontier) -> None:
    await add_lanes(frontier, normal=3, discovery=3)
    pressure = [Pressure(paused_lanes=frozenset({"discovery"}))]
    settled = asyncio.Event()

    class Noting(Pages):
        def settled(self, settlement: Settlement, accepted: bool) -> None:
            super().settled(settlement, accepted)
            if len(self.settlements) == 3:
                settled.set()

    pages = Noting()
    running = asyncio.create_task(finish(pressed(frontier, pages, lambda: pressure[-1])))
    async with asyncio.timeout(DEADLINE):
        await settled.wait()
    assert all("normal" in url for url in pages.started)
    pressure.append(Pressure())
    frontier.wake()
    await running
    assert len(pages.started) == 6


async def test_only_the_lanes_that_are_served_are_claimed(frontier: MemoryFrontier) -> None:
    await add_lanes(frontier, normal=2, images=2)
    pages = Pages()
    engine = engine_of(frontier, pages, lanes={"images": 1}, serve=["images"])
    running = asyncio.create_task(finish(engine))
    async with asyncio.timeout(DEADLINE):
        while len(pages.settlements) < 2:  # noqa: ASYNC110 (the engine does not know of us)
            await asyncio.sleep(0)
    engine.stop()
    await running
    assert sorted(pages.started) == ["http://images0.test/", "http://images1.test/"]


def test_it_tells_how_long_finished_pages_wait_for_the_store() -> None:
    """The oldest of those that are not committed, and not longer: a busy engine always has some."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_waits_of_finished_pages())


async def _waits_of_finished_pages() -> None:
    took = 0.05

    class Slow(MemoryFrontier):
        async def settle(
            self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
        ) -> Settled:
            await asyncio.sleep(took)
            waits.append(engine.load().unsettled_for)
            return await super().settle(batch, journal, epoch=epoch)

    async def takes_a_while(lease: Lease) -> Settlement:
        await asyncio.sleep(0.01)
        return Settlement(lease, Done())

    waits: list[float] = []
    slow = Slow(SimulatedClock(asyncio.get_running_loop()))
    await slow.open_job(JobSpec("job", valve=OPEN))
    await add(slow, 40)
    engine = engine_of(slow, Pages(takes_a_while), concurrency=8)
    assert engine.load() == Load(0, 0.0, 0.0)
    await finish(engine)
    assert len(waits) >= 5
    # What ended just after a settlement began waits for that one and its own.
    assert all(took - 1e-9 <= wait < 2.5 * took + 0.05 for wait in waits), waits
    assert engine.load().unsettled_for == 0.0


async def test_what_was_learnt_is_written_before_places_are_given_back(frontier: MemoryFrontier) -> None:
    """Else a place would be taken again by the rules of before: a host that just failed its probe, by another one."""
    calls: list[str] = []

    class Noting(Pages):
        async def flush(self) -> None:
            calls.append("flush")
            await asyncio.sleep(0)
            calls.append("flushed")

        def settled(self, settlement: Settlement, accepted: bool) -> None:
            calls.append("settled")

    await add(frontier, 1)
    await finish(engine_of(frontier, Noting()))
    settled = calls.index("settled")
    assert calls[:settled][-2:] == ["flush", "flushed"]


async def test_its_heartbeat_tells_what_holds_it_back(frontier: MemoryFrontier) -> None:
    await add(frontier, 1)
    gate = Gate()
    reason = Reason("sink", "finished pages wait 3.0 s to be stored")
    pressure = Pressure(0.5, frozenset({"discovery"}), reasons=(reason,))
    running = asyncio.create_task(finish(pressed(frontier, Pages(gate.process), lambda: pressure)))
    await gate.holds(1)
    [record] = await frontier.workers()
    status = status_of(record)
    assert (status.job, status.pressure, status.paused_lanes) == ("job", (reason,), {"discovery"})
    assert status.lanes == ("urgent", "normal", "discovery", "browser")
    gate.open.set()
    await running


async def test_the_repr_is_a_status_line(frontier: MemoryFrontier) -> None:
    assert repr(engine_of(frontier, Pages())) == "<Engine engine: 0 running, 0 to settle>"


# -- pages that may kill the process


async def test_pages_that_have_lost_two_workers_are_in_flight_one_at_a_time(frontier: MemoryFrontier) -> None:
    """And the others are back in the queue before it is started: it may be the end of the process."""
    lost = tuple(worker_lost(attempt, 0.0) for attempt in (1, 2))
    suspects = [make_task(f"http://a.test/{n}", attempt=2, history=lost) for n in range(5)]
    await frontier.add("job", suspects)
    await add(frontier, 5)
    together: list[int] = []
    in_flight: list[str] = []

    async def work(lease: Lease) -> Settlement:
        in_flight.append(lease.task.host)
        for _ in range(20):
            leased = [held.lease.task.host for held in frontier._leases.values()]
            together.append(max(in_flight.count("a.test"), leased.count("a.test")))
            await asyncio.sleep(0)
        in_flight.remove(lease.task.host)
        return Settlement(lease, Done())

    pages = Pages(work)
    await finish(engine_of(frontier, pages))
    assert max(together) == 1
    assert len(pages.started) == 10, "none is started in vain"
    assert (await counters(frontier)).done == 10
