"""A hundred thousand hosts, none of them due: the engine sleeps, and wakes at once when work arrives."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lateness import Lateness
from shoal.engine.dispatcher import Engine
from shoal.engine.served import OneJob
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import JobSpec
from shoal.model import Done, Lease, Settlement
from shoal.settings import Settings
from shoal.testing.conformance.tools import JournalSink, make_task
from shoal.valve import Valve

HOSTS = 100_000
FAR = time.time() + 1e6
BLOCKED = JobSpec("idle", valve=Valve(interval=1.0, blocked_until=FAR))
OPEN = JobSpec("idle", valve=Valve(interval=1.0))
WATCHED = 2.0  # seconds
PROMPT = 0.5


class Pages:
    """In place of a worker: says what was started, and when."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[tuple[str, float]] = asyncio.Queue()

    async def process(self, lease: Lease) -> Settlement:
        self.started.put_nowait((lease.task.url, time.monotonic()))
        return Settlement(lease, Done())

    def complete(self, settlement: Settlement) -> Settlement:
        return settlement

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        pass

    def sync(self, frontier_time: float) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def write_back(self, *, everything: bool = False) -> None:
        pass


class IdleJob:
    name = "idle"
    made_at = 0.0

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.sink = JournalSink()
        self.settings = Settings()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("idle") / "store.db"
    asyncio.run(fill(path))
    return path


async def fill(path: Path) -> None:
    async with SqliteFrontier(path) as frontier:
        await frontier.open_job(BLOCKED)
        for first in range(0, HOSTS, 10_000):
            hosts = range(first, first + 10_000)
            await frontier.add("idle", [make_task(f"http://host{n}.test/") for n in hosts])
        await frontier.open_job(OPEN)  # from now on, hosts are born open


@asynccontextmanager
async def running(frontier: SqliteFrontier, pages: Pages) -> AsyncIterator[None]:
    settings = Settings()
    engine = Engine(frontier, OneJob(frontier, IdleJob(pages), settings), settings, name="engine")
    run = asyncio.create_task(engine.run())
    try:
        yield
    finally:
        engine.stop()
        await run


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def test_waiting_for_a_hundred_thousand_hosts_takes_no_cpu(store: Path) -> None:
    pages = Pages()
    async with SqliteFrontier(store) as frontier, running(frontier, pages):
        before = cpu_seconds()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(WATCHED):
                await pages.started.get()
        used = cpu_seconds() - before
    assert used < 0.1 * WATCHED, f"{used:.3f} s of CPU in {WATCHED} s of waiting"


@pytest.mark.parametrize("origin", ["the same process", "another process"])
async def test_work_that_arrives_is_started_at_once(store: Path, origin: str) -> None:
    url = f"http://new-{origin.split()[0]}.test/"
    pages = Pages()
    async with SqliteFrontier(store) as frontier, SqliteFrontier(store) as other, running(frontier, pages):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):  # the engine has looked around and gone to sleep
                await pages.started.get()
        adder = frontier if origin == "the same process" else other
        with Lateness() as late:
            assert (await adder.add("idle", [make_task(url)])).new == 1
            added = time.monotonic()
            async with asyncio.timeout(60):
                started, at = await pages.started.get()
    assert started == url
    assert at - added < PROMPT + late.stalled


async def test_a_host_that_becomes_due_is_started_on_time(store: Path) -> None:
    """The engine sleeps exactly as long as the first host needs, be there ever so many others."""
    pages = Pages()
    async with SqliteFrontier(store) as frontier, running(frontier, pages):
        await frontier.add("idle", [make_task(f"http://due.test/{n}") for n in range(2)])
        with Lateness() as late:
            async with asyncio.timeout(60):
                _, first = await pages.started.get()
                _, second = await pages.started.get()
    # The first may have been started late: by no more than threads are woken.
    assert 0.95 - late.seconds <= second - first < 1.0 + PROMPT + late.stalled
