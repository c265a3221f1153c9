"""One thread, group commit: what is asked for together is committed together, and fails together or alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from shoal.errors import StoreError, StoreFull
from shoal.frontier.clock import Timebase
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.schema import connect
from shoal.frontier.sqlite.writer import Writer
from shoal.testing import ManualClock
from shoal.valve import Valve

DEADLINE = 10.0


class Brittle(Session):
    """A session whose next commits fail as the test says, and which counts those that did not."""

    def __init__(self, path: str) -> None:
        super().__init__(connect(path), Timebase(ManualClock()))
        self.failures: list[Exception] = []
        self.commits = 0

    def commit(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        super().commit()
        self.commits += 1


class Store:
    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.writer = Writer(self._open, self.path)
        self.session: Brittle

    def _open(self) -> Session:
        self.session = Brittle(self.path)
        return self.session

    async def together(self, *jobs: Callable[[Session], object]) -> list[object]:
        """Runs the jobs in one transaction."""
        async with self.held():
            asked = [asyncio.ensure_future(self.writer.do(job)) for job in jobs]
            await asyncio.sleep(0)
        return await asyncio.gather(*asked, return_exceptions=True)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keeps the thread busy with a transaction of its own; what is asked for inside piles up."""
        busy, go_on = threading.Event(), threading.Event()

        def hold(session: Session) -> None:
            busy.set()
            assert go_on.wait(DEADLINE)

        holding = asyncio.ensure_future(self.writer.do(hold))
        await asyncio.to_thread(busy.wait, DEADLINE)
        try:
            yield
        finally:
            go_on.set()
            await holding

    async def keys(self) -> list[str]:
        rows = await self.writer.do(
            lambda s: s.all("SELECT key FROM meta WHERE key LIKE 'test%' ORDER BY key")
        )
        return [key for (key,) in rows]


def put(key: str) -> Callable[[Session], str]:
    def job(session: Session) -> str:
        session.db.execute("INSERT INTO meta(key, value) VALUES (?, 1)", (f"test {key}",))
        return key

    return job


def put_then(key: str, error: Exception) -> Callable[[Session], str]:
    def job(session: Session) -> str:
        put(key)(session)
        raise error

    return job


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(tmp_path / "store.db")
    await store.writer.start()
    yield store
    await store.writer.stop()


async def test_what_piles_up_shares_one_commit(store: Store) -> None:
    before = store.session.commits
    assert await store.together(*(put(str(n)) for n in range(10))) == [str(n) for n in range(10)]
    assert store.session.commits == before + 2  # the one that held the thread, and all the others
    assert len(await store.keys()) == 10


async def test_one_that_fails_undoes_itself_alone(store: Store) -> None:
    error = RuntimeError("my own fault")
    assert await store.together(put("a"), put_then("b", error), put("c")) == ["a", error, "c"]
    assert await store.keys() == ["test a", "test c"]


async def test_a_failed_commit_fails_everybody_and_leaves_nothing(store: Store) -> None:
    def arm(session: Session) -> None:
        store.session.failures.append(apsw.FullError("database or disk is full"))

    answers = await store.together(arm, put("a"), put("b"))
    assert all(isinstance(answer, StoreFull) for answer in answers)
    assert "no space left" in str(answers[1])
    assert await store.keys() == []


async def test_after_a_failed_commit_the_next_one_works(store: Store) -> None:
    store.session.failures.append(apsw.IOError("disk I/O error"))
    with pytest.raises(StoreFull, match="I/O error"):
        await store.writer.do(put("lost"))
    assert await store.writer.do(put("kept")) == "kept"
    assert await store.keys() == ["test kept"]


async def test_names_of_a_lost_transaction_are_forgotten(store: Store) -> None:
    """A number given to a host in a transaction that was undone belongs to nobody, or soon to somebody else."""

    def add_host(session: Session) -> int:
        return session.host_id("a.test", Valve())

    store.session.failures.append(apsw.FullError("database or disk is full"))
    with pytest.raises(StoreFull):
        await store.writer.do(add_host)
    number = await store.writer.do(add_host)
    assert (
        await store.writer.do(lambda s: s.value("SELECT name FROM host WHERE id = ?", (number,))) == "a.test"
    )


async def test_a_statement_that_runs_out_of_space_fails_everybody(store: Store) -> None:
    answers = await store.together(put("a"), put_then("b", apsw.FullError("full")), put("c"))
    assert all(isinstance(answer, StoreFull) for answer in answers)
    assert await store.keys() == []


async def test_those_marked_last_run_last(store: Store) -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[Session], None]:
        return lambda session: order.append(name)

    async with store.held():
        last = asyncio.ensure_future(store.writer.do(note("claim"), last=True))
        other = asyncio.ensure_future(store.writer.do(note("settle")))
        await asyncio.sleep(0)
        store.writer.post(note("posted"))
    await asyncio.gather(last, other)
    assert order == ["settle", "posted", "claim"]


async def test_what_is_posted_is_done_though_nobody_waits(store: Store) -> None:
    store.writer.post(put("a"))
    assert await store.keys() == ["test a"]


async def test_a_caller_that_left_does_not_stop_its_job(store: Store) -> None:
    """Its effects were promised to others: a settlement is carried out even if the page's task is gone."""
    async with store.held():
        waiting = asyncio.ensure_future(store.writer.do(put("a")))
        await asyncio.sleep(0)
        waiting.cancel()
    assert await store.keys() == ["test a"]


async def test_stopping_finishes_what_was_asked_before(store: Store) -> None:
    pending = [asyncio.ensure_future(store.writer.do(put(str(n)))) for n in range(5)]
    await asyncio.sleep(0)
    await store.writer.stop()
    assert await asyncio.gather(*pending) == [str(n) for n in range(5)]


async def test_a_closed_store_says_so(store: Store) -> None:
    await store.writer.stop()
    with pytest.raises(StoreError, match="is closed"):
        await store.writer.do(put("a"))
    store.writer.post(put("a"))  # too late, and nobody minds


async def test_a_store_that_cannot_be_opened_fails_at_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    store = Store(folder)
    with pytest.raises(StoreError, match="cannot open the store"):
        await store.writer.start()
