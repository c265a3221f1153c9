"""An engine that ends with an error: it hands its pages back, their attempt not counted, and nothing happens twice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from shoal.engine.dispatcher import Engine
from shoal.engine.served import OneJob
from shoal.errors import SinkError, StoreError, StoreFull
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier, Journal
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Claim, Claimed, Counters, Cursor, JobSpec, Settled
from shoal.model import Done, Lease, Row, Settlement
from shoal.settings import Settings
from shoal.sink.jsonl import MemoryJournal
from shoal.testing.conformance.tools import JournalSink, balanced, make_task
from shoal.testing.servers import ValkeyServer
from shoal.testing.simulation.virtual import SimulatedClock, VirtualLoop
from shoal.valve import Valve
from unit.test_engine import Gate, Job, Pages, finish

PAGES = 8
SPEC = JobSpec("job", valve=Valve(interval=0.0, cap=100), max_attempts=1)
_number = itertools.count(1)  # of stores on the server
BROKEN = SinkError("cannot write rows.jsonl: No space left on device")


class Full(MemoryJournal):
    """A file on a disk that is full, until there is room."""

    def __init__(self) -> None:
        super().__init__()
        self.room = False

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        end = super().append(committed, rows)
        if not self.room:
            raise BROKEN  # with all of it written
        return end


@pytest.fixture(params=["memory", "sqlite", "valkey", "valkey in shards"])
async def frontier(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Frontier]:
    async with _home(request, tmp_path) as frontier:
        await fill(frontier)
        yield frontier


def _home(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryFrontier | SqliteFrontier | RedisFrontier:
    match request.param:
        case "memory":
            return MemoryFrontier()
        case "sqlite":
            return SqliteFrontier(tmp_path / "shoal.db")
    server: ValkeyServer = request.getfixturevalue("valkey_server")
    shards = 3 if "shards" in request.param else 1
    return RedisFrontier(f"{server.url}?prefix=e{next(_number)}&shards={shards}")


async def fill(frontier: Frontier, pages: int = PAGES) -> None:
    await frontier.open_job(SPEC)
    tasks = [make_task(f"http://h{n}.test/") for n in range(pages)]
    await frontier.add("job", tasks, Cursor(fed_all=True))


def engine_of(frontier: Frontier, pages: Pages, journal: Journal | None = None, **settings: object) -> Engine:
    chosen = Settings(**settings)  # type: ignore[arg-type]
    jobs = OneJob(frontier, Job("job", pages, JournalSink(journal), chosen), chosen)
    return Engine(frontier, jobs, chosen, name="engine")


async def counters(frontier: Frontier) -> Counters:
    return (await balanced(frontier)).counters


async def row(lease: Lease) -> Settlement:
    return Settlement(lease, Done(), rows=(Row(lease.task.url.encode() + b"\n"),))


async def rest_is_done(frontier: Frontier, journal: MemoryJournal | None = None) -> Counters:
    """What the same command makes of it the next time."""
    await finish(engine_of(frontier, Pages(row), journal))
    return await counters(frontier)


async def test_pages_whose_rows_are_refused_go_back_with_those_in_flight(frontier: Frontier) -> None:
    gate, journal = Gate(), Full()

    async def one_ends(lease: Lease) -> Settlement:
        if lease.task.host != "h0.test":
            await gate.process(lease)
        await gate.holds(PAGES - 1)
        return await row(lease)

    with pytest.raises(SinkError) as caught:
        await finish(engine_of(frontier, Pages(one_ends), journal))
    assert caught.value is BROKEN
    after = await counters(frontier)
    assert (after.pending, after.leased, after.done, after.items) == (PAGES, 0, 0, 0)
    assert journal.rows, "its row is written, and not committed"
    journal.room = True
    after = await rest_is_done(frontier, journal)
    assert (after.done, after.dead, after.retried, after.items) == (PAGES, 0, 0, PAGES)
    assert sorted(journal.rows) == [b"http://h%d.test/\n" % n for n in range(PAGES)]


@pytest.mark.parametrize("error", [BROKEN, StoreFull("no space left")])
async def test_a_page_that_meets_the_error_itself_goes_back(frontier: Frontier, error: Exception) -> None:
    """As one does whose download cannot be written."""

    async def fails(lease: Lease) -> Settlement:
        raise error

    with pytest.raises(type(error)):
        await finish(engine_of(frontier, Pages(fails), concurrency=3))
    after = await counters(frontier)
    assert (after.pending, after.leased) == (PAGES, 0)


async def test_a_run_that_is_cancelled_hands_back_what_its_output_refuses(frontier: Frontier) -> None:
    gate = Gate()

    async def one_ends(lease: Lease) -> Settlement:
        return await row(lease) if lease.task.host == "h0.test" else await gate.process(lease)

    engine = engine_of(frontier, Pages(one_ends), Full(), concurrency=PAGES, settle_delay=3600.0)
    running = asyncio.create_task(finish(engine))
    await gate.holds(PAGES - 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    after = await counters(frontier)
    assert (after.pending, after.leased) == (PAGES, 0)


class Unheard(MemoryFrontier):
    """A store that carries out what it is asked, and whose first answers to that verb get lost."""

    def __init__(self, verb: str) -> None:
        super().__init__()
        self.verb = verb

    def _lose(self, verb: str) -> None:
        if verb == self.verb:
            self.verb = ""
            raise StoreError(f"the answer to {verb} was lost")

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await super().claim(claim)
        self._lose("claim")
        return claimed

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        settled = await super().settle(batch, journal, epoch=epoch)
        self._lose("settle")
        return settled


async def test_pages_of_a_claim_whose_answer_was_lost_go_back() -> None:
    store = Unheard("claim")
    await fill(store)
    with pytest.raises(StoreError, match="claim was lost"):
        await finish(engine_of(store, Pages(row)))
    after = await counters(store)
    assert (after.pending, after.leased) == (PAGES, 0)
    assert (await rest_is_done(store)).done == PAGES


async def test_pages_that_were_settled_after_all_do_not_go_back() -> None:
    """Their rows are committed, so they would be there twice."""
    store, journal = Unheard("settle"), MemoryJournal()
    await fill(store)
    with pytest.raises(StoreError, match="settle was lost"):
        await finish(engine_of(store, Pages(row), journal, concurrency=3))
    first = await counters(store)
    assert first.done > 0
    assert (first.pending, first.leased) == (PAGES - first.done, 0)
    assert (await rest_is_done(store, journal)).done == PAGES
    assert len(journal.rows) == len(set(journal.rows)) == PAGES


async def test_a_settlement_that_comes_after_its_page_went_back_is_refused(frontier: Frontier) -> None:
    """A store may carry out late what it was asked before."""
    asked: list[Settlement] = []

    async def fails(lease: Lease) -> Settlement:
        asked.append(await row(lease))
        raise BROKEN

    with pytest.raises(SinkError):
        await finish(engine_of(frontier, Pages(fails)))
    journal = MemoryJournal()
    assert not any((await frontier.settle(asked, journal)).accepted)
    assert journal.rows == []
    assert (await rest_is_done(frontier, journal)).done == PAGES
    assert not any((await frontier.settle(asked, journal)).accepted)
    assert len(journal.rows) == PAGES


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_store_that_takes_nothing_back_does_not_hide_the_error(how: str) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_takes_nothing_back(how))


async def _takes_nothing_back(how: str) -> None:
    class Away(MemoryFrontier):
        async def release(self, leases: Sequence[Lease]) -> int:
            if how == "fails":
                raise StoreFull("no space left for the store")
            return await asyncio.get_running_loop().create_future()

    loop = asyncio.get_running_loop()
    store = Away(SimulatedClock(loop))
    await fill(store)
    with pytest.raises(SinkError) as caught:
        await engine_of(store, Pages(row), Full()).run()
    assert caught.value is BROKEN
    assert loop.time() < 10.0
    assert (await counters(store)).leased == PAGES
