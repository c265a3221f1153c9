"""Targets that need a real server: HTTP over a socket, and the scripts in Valkey."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from shoal.clock import SystemClock
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.transport import FetchRequest
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import Claim, DeadFilter, JobSpec
from shoal.model import Dead, Done, Lease, Moved, Outcome, Response, Retry, Settlement, Snapshot, Task
from shoal.policy.outcomes import TABLE, judge, kind_of, row_of, snapshot_of
from shoal.settings import Settings
from shoal.testing.fuzz.target import Reader, Run
from shoal.testing.fuzz.targets.stores import as_stored, failure_of, task_of
from shoal.testing.servers import ValkeyServer
from shoal.valve import Valve

_SETTINGS = Settings(
    connect_timeout=5.0,
    read_timeout=5.0,
    total_timeout=5.0,
    max_body=1024 * 1024,
    allow_network=["127.0.0.0/8"],
)
_OPEN = Valve(interval=0.0, cap=1_000)
_LANES = ("normal", "urgent", "lane ✓")


def http(data: bytes) -> None:
    """Whatever bytes a server answers with, the outcome is a response or a failure of a known kind, within its time
    and size."""


@contextmanager
def open_http() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        speaker = _Speaker()
        runner.run(speaker.start())
        try:
            yield lambda data: _check_outcome(runner.run(speaker.exchange(data)))
        finally:
            runner.run(speaker.stop())


def _check_outcome(outcome: Outcome) -> None:
    kind = kind_of(outcome)
    assert row_of(kind) in TABLE
    assert kind not in ("unexpected", "invalid_url", "invalid_request"), outcome
    if isinstance(outcome, Response):
        assert len(outcome.body) <= _SETTINGS.max_body
        judge(outcome, Task(outcome.url), _SETTINGS, now=0.0, rng=random.Random(0))
        snapshot_of(outcome, _SETTINGS)
    else:
        assert len(outcome.detail.splitlines()) <= 1, outcome.detail


class _Speaker:
    """A server that answers every request with the same bytes and closes, and a client that asks it."""

    async def start(self) -> None:
        self._says = b""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self._transport = HttpTransport(_SETTINGS, Guard(_SETTINGS.allow_network), SystemClock())
        self._url = f"http://127.0.0.1:{port}/page"

    async def exchange(self, data: bytes) -> Outcome:
        self._says = data
        return await self._transport.fetch(FetchRequest(self._url))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._says)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def stop(self) -> None:
        await self._transport.close()
        self._server.close()


def valkey(data: bytes) -> None:
    """Tasks with anything in them come back from Valkey as they were: claimed, retried, moved, found and dead."""


@contextmanager
def open_valkey() -> Iterator[Run]:
    with (
        tempfile.TemporaryDirectory(prefix="shoal-fuzz-") as folder,
        ValkeyServer(folder, appendonly=True, fsync="no") as server,
        asyncio.Runner() as runner,
    ):
        frontier = RedisFrontier(f"{server.url}?shards=2")
        runner.run(frontier.open())
        counter = iter(range(1 << 60))

        def run(data: bytes) -> None:
            # A job of its own for each input; to drop it afterwards would take longer than all the rest.
            runner.run(_exercise(frontier, f"job-{next(counter)}", data))

        try:
            yield run
        finally:
            runner.run(frontier.close())


async def _exercise(frontier: RedisFrontier, job: str, data: bytes) -> None:
    reader = Reader(data)
    await frontier.open_job(JobSpec(job, valve=_OPEN))
    task = replace(task_of(reader), id=0, job=job, attempt=0, max_attempts=9)
    await frontier.add(job, [task])
    lease = await _claim(frontier, job)
    _same(lease.task, task)
    failure = failure_of(reader)
    snapshot = Snapshot(200, {reader.text(): reader.text()}, reader.raw(), reader.text())
    await _settled(frontier, Settlement(lease, Retry(0.0, failure)))
    lease = await _claim(frontier, job)
    to = replace(task_of(reader), job=job, id=lease.task.id, history=lease.task.history, fingerprint=None)
    await _settled(frontier, Settlement(lease, Moved(to)))
    lease = await _claim(frontier, job)
    _same(replace(lease.task, history=()), replace(to, max_attempts=lease.task.max_attempts, history=()))
    found = replace(task_of(reader), id=0, job=job, attempt=0, fingerprint=None)
    await _settled(frontier, Settlement(lease, Dead(failure, snapshot), (found,)))
    [letter] = await frontier.dead(DeadFilter(job=job))
    assert letter.kind == failure.kind
    lease = await _claim(frontier, job)
    _same(lease.task, found)
    await _settled(frontier, Settlement(lease, Done()))
    stored = await frontier.job(job)
    assert stored is not None
    counters = stored.counters
    assert (counters.done, counters.dead, counters.open) == (1, 1, 0), counters


async def _claim(frontier: RedisFrontier, job: str) -> Lease:
    for _ in range(20):
        claimed = await frontier.claim(Claim("worker", [job], dict.fromkeys(_LANES, 10), 10))
        if claimed.leases:
            return claimed.leases[0]
    raise AssertionError("a task that was added cannot be claimed")


async def _settled(frontier: RedisFrontier, settlement: Settlement) -> None:
    settled = await frontier.settle([settlement])
    assert list(settled.accepted) == [True]


def _same(got: Task, given: Task) -> None:
    """But for what the store decides itself."""
    expected = as_stored(given)
    got = replace(got, id=0, attempt=0, created_at=0.0)
    expected = replace(expected, id=0, attempt=0, created_at=0.0)
    assert got == expected, f"{got} instead of {expected}"
