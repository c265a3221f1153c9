"""Processes of a fleet write one file, and one of them is killed or frozen at any point between taking its turn and
giving it up. The others go on, nothing that was committed ever changes, and in the end every row is there once."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crash.frozen_writer import row_of
from crash.harness import DEADLINE, Desk, Process, state_of
from shoal.frontier.redis import filelock
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import Claim
from shoal.model import Done, Row, Settlement
from shoal.sink.jsonl import JsonLines
from shoal.testing.conformance.tools import make_task, spec
from shoal.testing.servers import ValkeyServer
from shoal.valve import Valve

POINTS = ["taken", "prepared", "unlocked", "synced", "settled"]  # without the file's lock
LOCKED = ["locked", "written"]
WRITER = (sys.executable, str(Path(__file__).with_name("frozen_writer.py")))
_number = itertools.count()
also_in_two_shards = pytest.mark.parametrize("store", [1, 2], indirect=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filelock, "_SILENCE", 0.5)


@pytest.fixture
def store(valkey_server: ValkeyServer, request: pytest.FixtureRequest) -> str:
    return f"{valkey_server.url}?prefix=frozen{next(_number)}&shards={getattr(request, 'param', 1)}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


@asynccontextmanager
async def a_job(store: str, pages: int = 9) -> AsyncIterator[RedisFrontier]:
    async with RedisFrontier(store) as frontier:
        await frontier.open_job(spec(valve=Valve(cap=1000), max_attempts=200))
        await frontier.add("job", [make_task(f"http://h{n % 7}.test/{n}") for n in range(pages)])
        yield frontier


class Writers:
    """The processes that write the file."""

    def __init__(self, desk: Desk, store: str, path: Path) -> None:
        self._desk = desk
        self._argv = (store, str(path))

    def start(self, point: str = "", how: str = "", lease: int = 2) -> Process:
        return self._desk.start(*self._argv, point, how, str(lease), program=WRITER)


@pytest.fixture
def writers(tmp_path_factory: pytest.TempPathFactory, store: str, path: Path) -> Iterator[Writers]:
    with Desk(tmp_path_factory.mktemp("writers")) as desk:
        yield Writers(desk, store, path)


async def comes_to_rest(process: Process) -> None:
    """It is frozen, or dead."""
    async with asyncio.timeout(DEADLINE):
        while process.running and state_of(process.pid) not in "TZ":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


async def ends(process: Process) -> None:
    async with asyncio.timeout(DEADLINE):
        while process.running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert process.code() == 0, process.err


async def settle_some(frontier: RedisFrontier, path: Path, most: int = 2) -> int:
    leases = (await frontier.claim(Claim("other", ["job"], {"normal": most}, most))).leases
    batch = [Settlement(lease, Done(), rows=(Row(row_of(lease.task.url)),)) for lease in leases]
    journal = JsonLines(path)
    assert all((await frontier.settle(batch, journal)).accepted)
    journal.close()
    return len(batch)


async def is_done(frontier: RedisFrontier) -> bool:
    job = await frontier.job("job")
    assert job is not None
    return job.counters.done == job.counters.admitted


async def settle_the_rest(frontier: RedisFrontier, path: Path) -> None:
    """Also what the other one had in hand, when its leases have run out."""
    async with asyncio.timeout(30):
        while not await is_done(frontier):
            await settle_some(frontier, path)
            await asyncio.sleep(0.05)


async def check(frontier: RedisFrontier, path: Path, pages: int = 9) -> None:
    wanted = sorted(row_of(f"http://h{n % 7}.test/{n}") for n in range(pages))
    there = _read(path)
    assert sorted(there.splitlines(keepends=True)) == wanted
    assert await frontier.journal_length("job", str(path)) == len(there)
    job = await frontier.job("job")
    assert job is not None
    assert job.counters.items == pages
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("how", ["SIGSTOP", "SIGKILL"])
@pytest.mark.parametrize("point", POINTS)
async def test_the_others_go_on(store: str, path: Path, writers: Writers, point: str, how: str) -> None:
    async with a_job(store) as frontier:
        process = writers.start(point, how)
        await comes_to_rest(process)
        async with asyncio.timeout(DEADLINE):  # whoever waits for it waits for ever
            assert await settle_some(frontier, path) == 2
        if how == "SIGSTOP":
            process.signal(signal.SIGCONT)
            await ends(process)
        else:
            await settle_the_rest(frontier, path)
        await check(frontier, path)


@pytest.mark.parametrize("store", [2], indirect=True)
@pytest.mark.parametrize("point", POINTS)
async def test_one_that_wakes_when_its_pages_are_another_s(
    store: str, path: Path, writers: Writers, point: str
) -> None:
    async with a_job(store) as frontier:
        process = writers.start(point, "SIGSTOP")
        await comes_to_rest(process)
        await settle_the_rest(frontier, path)
        process.signal(signal.SIGCONT)
        await ends(process)
        await check(frontier, path)


@also_in_two_shards
@pytest.mark.parametrize("point", POINTS)
async def test_two_wake_one_after_the_other(store: str, path: Path, writers: Writers, point: str) -> None:
    """The first when the second has written, and not committed yet. Both have their pages still."""
    async with a_job(store) as frontier:
        first = writers.start(point, "SIGSTOP", lease=60)
        await comes_to_rest(first)
        second = writers.start("synced", "SIGSTOP", lease=60)
        await comes_to_rest(second)
        first.signal(signal.SIGCONT)
        await asyncio.sleep(0.3)
        second.signal(signal.SIGCONT)
        await ends(first)
        await ends(second)
        await check(frontier, path)


@pytest.mark.parametrize("how", ["SIGCONT", "SIGKILL"])
@pytest.mark.parametrize("point", LOCKED)
async def test_struck_in_the_moment_of_writing(
    store: str, path: Path, writers: Writers, point: str, how: str
) -> None:
    """The one moment in which the others have to wait: nobody could stop it from writing when it wakes."""
    async with a_job(store) as frontier:
        process = writers.start(point, "SIGSTOP")
        await comes_to_rest(process)
        waiting = asyncio.create_task(settle_some(frontier, path))
        await asyncio.wait([waiting], timeout=1.5)
        assert not waiting.done()
        process.signal(getattr(signal, how))
        assert await waiting == 2
        await settle_the_rest(frontier, path)
        process.code()
        await check(frontier, path)


async def test_one_that_is_slow_keeps_its_turn(
    store: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = 5.0  # on a busy machine, one that is well may be silent for seconds
    monkeypatch.setattr(filelock, "_SILENCE", silence)

    class SlowDisk(JsonLines):
        syncs = 0

        def sync(self) -> None:
            self.syncs += 1
            time.sleep(1.5 * silence)
            super().sync()

    async with a_job(store) as frontier, RedisFrontier(store) as another:
        [lease] = (await frontier.claim(Claim("slow", ["job"], {"normal": 1}, 1))).leases
        journal = SlowDisk(path)
        slow = asyncio.create_task(
            frontier.settle([Settlement(lease, Done(), rows=(Row(row_of(lease.task.url)),))], journal)
        )
        while not journal.syncs:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await settle_some(another, path)
        assert slow.done()
        assert list((await slow).accepted) == [True]
        assert journal.syncs == 1, "somebody else had its turn"
        await settle_the_rest(frontier, path)
        await check(frontier, path)


@also_in_two_shards
async def test_struck_at_random(store: str, path: Path, writers: Writers) -> None:
    """Three processes, and twice a second one of them is frozen for up to three seconds, or killed and replaced. What
    was committed is read all the time: it never changes, and every line of it is whole."""
    dice, pages, seconds = random.Random(1), 600, 6.0

    async with a_job(store, pages) as frontier:
        processes = [writers.start() for _ in range(3)]
        known = b""

        async def watch() -> None:
            nonlocal known
            while not await is_done(frontier):
                committed = await frontier.journal_length("job", str(path)) or 0
                now = _read(path)[:committed]
                assert len(now) == committed
                assert now.startswith(known), "what was committed has changed"
                for line in now[len(known) :].splitlines(keepends=True):
                    assert line.endswith(b"\n")
                    json.loads(line)
                known = now
                await asyncio.sleep(0.02)

        async def freeze(process: Process) -> None:
            process.signal(signal.SIGSTOP)
            await asyncio.sleep(dice.uniform(0.1, 3))
            process.signal(signal.SIGCONT)

        async def strike(group: asyncio.TaskGroup) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await asyncio.sleep(dice.uniform(0.3, 0.7))
                at = dice.randrange(3)
                if not processes[at].running:
                    continue
                if dice.random() < 0.6:
                    group.create_task(freeze(processes[at]))
                else:
                    processes[at].signal(signal.SIGKILL)
                    processes[at] = writers.start()

        async with asyncio.timeout(seconds + DEADLINE), asyncio.TaskGroup() as group:
            group.create_task(watch())
            group.create_task(strike(group))
        for process in processes:
            await ends(process)
        await check(frontier, path, pages)
