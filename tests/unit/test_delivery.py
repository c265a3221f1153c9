"""Rows on their way to a sink that writes by itself: before the settlement, and without holding up other jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from shoal.engine.dispatcher import Engine
from shoal.engine.served import EngineJob
from shoal.errors import SinkAway, SinkError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, Counters, Cursor, JobSpec
from shoal.model import Done, Lease, Row, Settlement
from shoal.policy.lanes import Lane
from shoal.settings import Settings
from shoal.sink import Sink
from shoal.sink.objects import outage
from shoal.sink.ownership import FileClaim
from shoal.testing.conformance.tools import JournalSink, make_task
from shoal.valve import Valve

OPEN = Valve(interval=0.0, cap=100)
DEADLINE = 60.0


class Database:
    """A sink that writes by itself, when it is there."""

    journal = None
    writes_first = True

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.there.set()
        self.batches: list[int] = []
        self.written: list[str] = []
        self.error: SinkError | None = None

    async def open(self, asked: FileClaim | None = None) -> None:
        pass

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        self.batches.append(len(batch))
        await self.there.wait()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.written += [settlement.lease.task.url for settlement in batch]
        return batch

    async def close(self) -> None:
        pass


class Pages:
    """Every page yields a row."""

    def __init__(self, sink: Database | None) -> None:
        self._sink = sink
        self.settled_urls: list[str] = []

    async def process(self, lease: Lease) -> Settlement:
        await asyncio.sleep(0)
        return Settlement(lease, Done(), rows=(Row(b"{}\n"),))

    def complete(self, settlement: Settlement) -> Settlement:
        return settlement

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        assert accepted
        url = settlement.lease.task.url
        assert self._sink is None or url in self._sink.written, "settled before its row was written"
        self.settled_urls.append(url)

    def sync(self, frontier_time: float) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def write_back(self, *, everything: bool = False) -> None:
        pass


class Job:
    made_at = 0.0
    settings = Settings()

    def __init__(self, name: str, sink: Sink, pages: Pages) -> None:
        self.name, self.sink, self.pages = name, sink, pages


class Jobs:
    """Two jobs, for ever."""

    def __init__(self, *jobs: Job, forgiving: bool = True) -> None:
        self._jobs = list(jobs)
        self._forgiving = forgiving
        self.aside: list[str] = []

    def current(self) -> Sequence[Job]:
        return [job for job in self._jobs if job.name not in self.aside]

    def everyone(self) -> Sequence[Job]:
        return self._jobs

    def lanes(self) -> Mapping[str, Lane]:
        return LANES

    async def over(self) -> bool:
        return False

    def set_aside(self, job: EngineJob, error: SinkError) -> bool:
        self.aside.append(job.name)
        return self._forgiving


LANES = {"normal": Lane()}


async def make(
    *names: str, pages: int = 20, forgiving: bool = True, **settings: object
) -> tuple[MemoryFrontier, Jobs, Engine, dict[str, Database]]:
    frontier = MemoryFrontier()
    sinks = {name: Database() for name in names}
    for name in names:
        await frontier.open_job(JobSpec(name, valve=OPEN))
        await frontier.add(
            name, [make_task(f"http://{name}{n}.test/") for n in range(pages)], Cursor(fed_all=True)
        )
    jobs = Jobs(*(Job(name, sink, Pages(sink)) for name, sink in sinks.items()), forgiving=forgiving)
    return frontier, jobs, Engine(frontier, jobs, Settings(**settings), name="engine"), sinks  # type: ignore[arg-type]


async def counters(frontier: MemoryFrontier, name: str) -> Counters:
    job = await frontier.job(name)
    assert job is not None
    return job.counters


async def reaches(frontier: MemoryFrontier, name: str, done: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while (await counters(frontier, name)).done < done:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def ended(engine: Engine, running: asyncio.Task[None]) -> None:
    engine.stop()
    async with asyncio.timeout(DEADLINE):
        await running


async def test_rows_are_written_before_their_pages_are_settled() -> None:
    frontier, _, engine, sinks = await make("a")
    running = asyncio.create_task(engine.run())
    await reaches(frontier, "a", 20)
    await ended(engine, running)
    assert len(sinks["a"].written) == 20


async def test_a_database_that_is_away_holds_back_its_own_job_alone() -> None:
    frontier, jobs, engine, sinks = await make("away", "here", concurrency=4)
    sinks["away"].there.clear()
    running = asyncio.create_task(engine.run())
    await reaches(frontier, "here", 20)
    held = await counters(frontier, "away")
    assert held.done == 0
    assert held.leased <= 2 * 4, "no more are claimed than the slots, while their rows pile up"
    assert engine.load().unsettled_for > 0
    assert engine.holds(jobs.everyone()[0]) == held.leased
    sinks["away"].there.set()
    await reaches(frontier, "away", 20)
    await ended(engine, running)


async def test_batches_gather_while_one_is_being_written() -> None:
    frontier, _, engine, sinks = await make("a", concurrency=64)
    sinks["a"].there.clear()
    running = asyncio.create_task(engine.run())
    async with asyncio.timeout(DEADLINE):
        while not sinks["a"].batches or engine.in_flight or (await counters(frontier, "a")).leased < 20:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    sinks["a"].there.set()
    await reaches(frontier, "a", 20)
    await ended(engine, running)
    assert len(sinks["a"].batches) <= 3


async def test_what_cannot_be_delivered_within_the_grace_is_handed_back() -> None:
    frontier, _, engine, sinks = await make("a", pages=3, grace=0.05)
    sinks["a"].there.clear()
    running = asyncio.create_task(engine.run())
    async with asyncio.timeout(DEADLINE):
        while not sinks["a"].batches:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    await ended(engine, running)
    after = await counters(frontier, "a")
    assert (after.done, after.pending, after.leased) == (0, 3, 0)


async def test_stopping_waits_for_what_is_on_its_way() -> None:
    frontier, _, engine, sinks = await make("a", pages=3)
    sinks["a"].there.clear()
    running = asyncio.create_task(engine.run())
    async with asyncio.timeout(DEADLINE):
        while not sinks["a"].batches or engine.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    engine.stop()
    await asyncio.sleep(0.05)
    assert not running.done()
    sinks["a"].there.set()
    async with asyncio.timeout(DEADLINE):
        await running
    assert (await counters(frontier, "a")).done == 3


async def test_an_error_sets_the_job_aside_and_hands_its_pages_back() -> None:
    frontier, jobs, engine, sinks = await make("bad", "good", pages=5)
    sinks["bad"].error = SinkError("no such table")
    running = asyncio.create_task(engine.run())
    await reaches(frontier, "good", 5)
    async with asyncio.timeout(DEADLINE):
        while (await counters(frontier, "bad")).pending < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert set(jobs.aside) == {"bad"}
    await ended(engine, running)


async def test_an_error_ends_the_engine_if_nothing_can_go_on() -> None:
    """All pages go back: those whose rows were refused, those that waited for them, and those in flight."""
    frontier, _, engine, sinks = await make("bad", pages=20, forgiving=False, concurrency=4)
    sinks["bad"].error = SinkError("no such table")
    sinks["bad"].there.clear()
    running = asyncio.create_task(engine.run())
    async with asyncio.timeout(DEADLINE):
        while not sinks["bad"].batches or engine.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    sinks["bad"].there.set()
    with pytest.raises(SinkError, match="no such table"):
        async with asyncio.timeout(DEADLINE):
            await running
    after = await counters(frontier, "bad")
    assert (after.done, after.pending, after.leased) == (0, 20, 0)
    claimed = await frontier.claim(Claim("next", ["bad"], {"normal": 20}, 20))
    assert {lease.task.attempt for lease in claimed.leases} == {1}, "no attempt was counted"


async def test_an_object_store_that_refuses_rows_ends_the_engine_and_its_pages_go_back() -> None:
    frontier, _, engine, objects = await make_remote(10, forgiving=False)
    objects.error = SinkError("access denied")
    with pytest.raises(SinkError, match="access denied"):
        async with asyncio.timeout(DEADLINE):
            await engine.run()
    after = await counters(frontier, "a")
    assert (after.done, after.pending, after.leased) == (0, 10, 0)


class Objects:
    """A journal that is reached by the network. It takes rows when it is there."""

    key, remote = "objects", True

    def __init__(self) -> None:
        self.away = 0  # how many tries fail
        self.batches: list[int] = []
        self.error: SinkError | None = None

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        if self.error is not None:
            raise self.error
        if self.away:
            self.away -= 1
            raise SinkAway("s3://bucket/rows.jsonl", "503 Service Unavailable")
        self.batches.append(len(rows))
        return committed + 1


async def make_remote(
    pages: int, *, forgiving: bool = True, **settings: object
) -> tuple[MemoryFrontier, Jobs, Engine, Objects]:
    frontier, objects = MemoryFrontier(), Objects()
    await frontier.open_job(JobSpec("a", valve=OPEN))
    tasks = [make_task(f"http://a{n}.test/") for n in range(pages)]
    await frontier.add("a", tasks, Cursor(fed_all=True))
    job = Job("a", JournalSink(objects), Pages(None))
    job.settings = Settings(**settings)  # type: ignore[arg-type]
    jobs = Jobs(job, forgiving=forgiving)
    return frontier, jobs, Engine(frontier, jobs, job.settings, name="engine"), objects


async def test_rows_for_an_object_store_wait_for_others() -> None:
    """Those that are there when nothing is in flight wait no longer."""
    frontier, _, engine, objects = await make_remote(100, concurrency=10, upload_delay=3600.0)
    running = asyncio.create_task(engine.run())
    await reaches(frontier, "a", 100)
    await ended(engine, running)
    assert sum(objects.batches) == 100
    assert len(objects.batches) <= 10


async def test_an_object_store_that_is_away_is_told_once_and_gets_the_rows_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "_FIRST", 0.01)
    frontier, jobs, engine, objects = await make_remote(20, concurrency=4)
    objects.away = 4
    running = asyncio.create_task(engine.run())
    await reaches(frontier, "a", 20)
    await ended(engine, running)
    assert sum(objects.batches) == 20
    assert jobs.aside == []
    told = [record.message for record in caplog.records if "s3://" in record.message]
    assert "is away (503 Service Unavailable)" in told[0]
    assert "is back" in told[1]
    assert len(told) == 2


async def test_pages_whose_rows_an_object_store_does_not_take_are_handed_back() -> None:
    frontier, _, engine, objects = await make_remote(3, grace=0.05)
    objects.away = 1000
    running = asyncio.create_task(engine.run())
    async with asyncio.timeout(DEADLINE):
        while objects.away == 1000:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    await ended(engine, running)
    after = await counters(frontier, "a")
    assert (after.done, after.pending, after.leased) == (0, 3, 0)
