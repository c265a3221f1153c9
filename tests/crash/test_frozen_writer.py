"""Processes of a fleet write one file, and one of them is killed or frozen at any point between taking its turn and
giving it up. The others go on, nothing that was committed ever changes, and in the end every row is there once."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from crash.frozen_writer import row_of
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
Process = asyncio.subprocess.Process
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


@asynccontextmanager
async def writer(
    store: str, path: Path, point: str = "", how: str = "", lease: int = 2
) -> AsyncIterator[Process]:
    script = Path(__file__).with_name("frozen_writer.py")
    argv = (script, store, path, point, how, str(lease))
    process = await asyncio.create_subprocess_exec(sys.executable, *argv)
    try:
        yield process
    finally:
        signal_to(process, signal.SIGKILL)
        await process.wait()


async def comes_to_rest(process: Process) -> None:
    """It is frozen, or dead."""
    async with asyncio.timeout(30):
        while process.returncode is None and _state(process.pid) not in "TZ":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def signal_to(process: Process, number: int) -> None:
    """`Process.send_signal` may reap it before asyncio does, which then does not know how it ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


async def ends(process: Process) -> None:
    async with asyncio.timeout(30):
        assert await process.wait() == 0


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
async def test_the_others_go_on(store: str, path: Path, point: str, how: str) -> None:
    async with a_job(store) as frontier, writer(store, path, point, how) as process:
        await comes_to_rest(process)
        began = time.monotonic()
        assert await settle_some(frontier, path) == 2
        assert time.monotonic() - began < 5, "it was waited for"
        if how == "SIGSTOP":
            signal_to(process, signal.SIGCONT)
            await ends(process)
        else:
            await settle_the_rest(frontier, path)
        await check(frontier, path)


@pytest.mark.parametrize("store", [2], indirect=True)
@pytest.mark.parametrize("point", POINTS)
async def test_one_that_wakes_when_its_pages_are_another_s(store: str, path: Path, point: str) -> None:
    async with a_job(store) as frontier, writer(store, path, point, "SIGSTOP") as process:
        await comes_to_rest(process)
        await settle_the_rest(frontier, path)
        signal_to(process, signal.SIGCONT)
        await ends(process)
        await check(frontier, path)


@also_in_two_shards
@pytest.mark.parametrize("point", POINTS)
async def test_two_wake_one_after_the_other(store: str, path: Path, point: str) -> None:
    """The first when the second has written, and not committed yet. Both have their pages still."""
    async with a_job(store) as frontier, writer(store, path, point, "SIGSTOP", lease=60) as first:
        await comes_to_rest(first)
        async with writer(store, path, "synced", "SIGSTOP", lease=60) as second:
            await comes_to_rest(second)
            signal_to(first, signal.SIGCONT)
            await asyncio.sleep(0.3)
            signal_to(second, signal.SIGCONT)
            await asyncio.gather(ends(first), ends(second))
        await check(frontier, path)


@pytest.mark.parametrize("how", ["SIGCONT", "SIGKILL"])
@pytest.mark.parametrize("point", LOCKED)
async def test_struck_in_the_moment_of_writing(store: str, path: Path, point: str, how: str) -> None:
    """The one moment in which the others have to wait: nobody could stop it from writing when it wakes."""
    async with a_job(store) as frontier, writer(store, path, point, "SIGSTOP") as process:
        await comes_to_rest(process)
        waiting = asyncio.create_task(settle_some(frontier, path))
        await asyncio.wait([waiting], timeout=1.5)
        assert not waiting.done()
        signal_to(process, getattr(signal, how))
        assert await waiting == 2
        await settle_the_rest(frontier, path)
        await process.wait()
        await check(frontier, path)


async def test_one_that_is_slow_keeps_its_turn(
    store: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SlowDisk(JsonLines):
        syncs = 0

        def sync(self) -> None:
            self.syncs += 1
            time.sleep(1.5)
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
async def test_struck_at_random(store: str, path: Path) -> None:
    await strike_at_random(store, path, seconds=6, seed=1)


async def strike_at_random(store: str, path: Path, *, seconds: float, seed: int) -> dict[str, int]:
    """Three processes, and twice a second one of them is frozen for up to three seconds, or killed and replaced. What
    was committed is read all the time: it never changes, and every line of it is whole."""
    dice, pages = random.Random(seed), int(seconds * 100)

    async with a_job(store, pages) as frontier, AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(writer(store, path)) for _ in range(3)]
        known = b""
        strikes = {"frozen": 0, "killed": 0}

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
            signal_to(process, signal.SIGSTOP)
            await asyncio.sleep(dice.uniform(0.1, 3))
            signal_to(process, signal.SIGCONT)

        async def strike(group: asyncio.TaskGroup) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await asyncio.sleep(dice.uniform(0.3, 0.7))
                at = dice.randrange(3)
                if processes[at].returncode is not None:
                    continue
                if dice.random() < 0.6:
                    strikes["frozen"] += 1
                    group.create_task(freeze(processes[at]))
                else:
                    strikes["killed"] += 1
                    signal_to(processes[at], signal.SIGKILL)
                    processes[at] = await stack.enter_async_context(writer(store, path))

        async with asyncio.timeout(seconds + 90), asyncio.TaskGroup() as group:
            group.create_task(watch())
            group.create_task(strike(group))
        for process in processes:
            await ends(process)
        await check(frontier, path, pages)
    return strikes
