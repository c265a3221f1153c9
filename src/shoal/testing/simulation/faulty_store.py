"""The frontier of a world: one home that all processes share, watched by the checker, behind a shell that fails.

Process ──▶ FaultyFrontier ──▶ CheckedFrontier ──▶ the home
            latency, errors,    the model is told
            death, pauses       of every verb
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from shoal.errors import SinkError, StoreError
from shoal.frontier.news import UnheardNews
from shoal.frontier.protocol import Frontier, Journal
from shoal.frontier.values import (
    Added,
    Claim,
    Claimed,
    Cursor,
    DeadFilter,
    HostRecord,
    JobState,
    Settled,
    Turn,
)
from shoal.model import Lease, Row, Settlement, Task
from shoal.sink.jsonl import MemoryJournal
from shoal.sink.ownership import FileClaim
from shoal.testing.simulation.fault_injection import Faults
from shoal.testing.simulation.invariants import Checker
from shoal.testing.simulation.past import Past
from shoal.testing.simulation.virtual import Process, Story

T = TypeVar("T")


class FaultyJournal:
    """The result file. A write may fail before it begins, or when all is written but not committed."""

    key = "results"

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._file = MemoryJournal()

    @property
    def rows(self) -> Sequence[bytes]:
        return self._file.rows

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        fault = self._faults.at_journal()
        if fault == "before":
            raise SinkError("simulated: the result file cannot be written")
        length = self._file.append(committed, rows)
        if fault == "after":
            raise SinkError("simulated: the result file failed after the last byte")
        return length

    def cut(self, committed: int) -> None:
        """Drops what no commit vouches for."""
        self._file.append(committed, ())


class Table:
    """A database that keeps the latest row of every key. It does not go back with the store."""

    journal = None
    writes_first = True

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._rows: dict[tuple[str, str], bytes] = {}

    @property
    def rows(self) -> Sequence[bytes]:
        return list(self._rows.values())

    async def open(self, asked: FileClaim | None = None) -> None:
        pass

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        await asyncio.sleep(self._faults.latency())
        for settlement in batch:
            self._rows |= {(row.table, row.ident): row.data for row in settlement.rows}
        return batch

    async def close(self) -> None:
        pass


class CheckedFrontier:
    """Carries a verb out, tells the model, and checks what must hold after every verb."""

    def __init__(
        self, home: Frontier, checker: Checker, journal: FaultyJournal, job: str, rng: Random
    ) -> None:
        self.home = home
        self._checker = checker
        self._journal = journal
        self._job = job
        self.processes: list[Process] = []  # those alive, who want to know of work
        self.past = Past(home, checker, rng)
        self.away_until = 0.0  # the loop's time

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None, *, epoch: str | None
    ) -> Added:
        added = await self.home.add(job, tasks, cursor, epoch=epoch)
        if not added.outdated:
            self._checker.added(tasks, added)
        await self._after([])
        return added

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self.home.claim(claim)
        self._checker.claimed(claim, claimed)
        by_host: dict[str, list[Lease]] = {}
        for lease in claimed.leases:
            by_host.setdefault(lease.task.host, []).append(lease)
        for host, leases in by_host.items():
            self._checker.valve_held(await self._record(host), leases, claimed.now)
        await self._after(by_host, news=False)
        return claimed

    async def hasten(self, job: str, host: str, wanted: Mapping[int, float]) -> int:
        hastened = await self.home.hasten(job, host, wanted)
        self._checker.hastened(wanted.keys(), await self.home.now())
        await self._after([host])
        return hastened

    async def reserve(self, worker: str, job: str, host: str, most: float) -> Turn:
        turn, now = await self.home.reserve(job, host, most), await self.home.now()
        if turn.taken:
            self._checker.reserved(worker, await self._record(host), now + turn.wait)
        await self._after([host], news=False)
        return turn

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None, epoch: str | None
    ) -> Settled:
        settled = await self.home.settle(batch, journal, epoch=epoch)
        self._checker.settled(batch, settled, self._journal.rows, await self.home.now())
        await self._after([settlement.lease.task.host for settlement in batch])
        return settled

    async def extend(
        self, worker: str, lease_seconds: float, status: bytes, tokens: Collection[int] | None
    ) -> int:
        held = await self.home.extend(worker, lease_seconds, status, tokens)
        self._checker.extended(worker, held, await self.home.now() + lease_seconds, tokens)
        return held

    async def release(self, leases: Sequence[Lease]) -> int:
        count = await self.home.release(leases)
        self._checker.released(leases, count)
        await self._after([lease.task.host for lease in leases])
        return count

    async def reap(self) -> int:
        count = await self.home.reap()
        self._checker.expire(await self.home.now())
        await self._after([])
        return count

    async def update_host(self, record: HostRecord) -> bool:
        updated = await self.home.update_host(record)
        await self._after([record.name], news=updated)
        return updated

    async def set_state(self, name: str, state: JobState) -> None:
        await self.home.set_state(name, state)
        await self._after([])

    async def finish(self, name: str) -> bool:
        finished = await self.home.finish(name)
        await self._after([])
        return finished

    async def replay(self, query: DeadFilter) -> int:
        count = await self.home.replay(query)
        self._checker.replayed(count)
        await self._after([])
        return count

    async def _record(self, host: str) -> HostRecord:
        record = await self.home.host(host)
        assert record is not None, host
        return record

    async def _after(self, hosts: Sequence[str] | dict[str, list[Lease]], *, news: bool = True) -> None:
        job = await self.home.job(self._job)
        assert job is not None
        self._checker.counted(job.counters, await self.home.now())
        for host in dict.fromkeys(hosts):
            if (record := await self.home.host(host)) is not None:  # it may be forgotten
                self._checker.places(record)
        if news:
            self._wake_all()
        self.past.passed()

    def _wake_all(self) -> None:
        for process in self.processes:
            process.woken.set()

    def leave(self, seconds: float) -> None:
        """It is away for so long."""
        self.away_until = max(self.away_until, asyncio.get_running_loop().time() + seconds)

    def go_back(self, seconds: float) -> float:
        """Forgets the last seconds; answers how many. Connections are made anew, so everybody looks for work."""
        gone = self.past.go_back(seconds)
        self._wake_all()
        return gone


class SimulatedFault(StoreError):
    """The store failed a process."""

    def __init__(self, message: str, process: Process) -> None:
        super().__init__(message)
        self.process = process


class FaultyFrontier:
    """The frontier as one process has it. Its verbs are carried out in the order they were called, as by the thread
    or the connection of a real home."""

    def __init__(self, store: CheckedFrontier, process: Process, faults: Faults, story: Story) -> None:
        self._store = store
        self._process = process
        self._faults = faults
        self._story = story
        self._turn = asyncio.Lock()
        self._commit = 0  # the last one that an answer told of
        self._epoch = store.home.epoch
        self.news = UnheardNews()

    async def _do(self, verb: str, act: Callable[[], Awaitable[T]]) -> T:
        fault = self._faults.at_verb(verb)
        process = self._process
        async with self._turn:
            await process.elapse(self._faults.latency())
            while (away := self._store.away_until - process.loop.time()) > 0:
                await process.elapse(away)
            if fault is not None:
                self._story.tell(process.name, f"{verb}: {fault}")
            if fault == "error before":
                raise SimulatedFault(f"simulated: {verb} was not carried out", process)
            if fault == "death before":
                raise process.die()
            if fault == "pause":
                process.pause(self._faults.pick(1.0, 25.0))
                await process.elapse(0)
            result = await act()
            commit, epoch = self._store.past.commit, self._store.home.epoch
            if fault == "error after":
                raise SimulatedFault(f"simulated: {verb} was carried out, but its answer was lost", process)
            if fault == "death after":
                raise process.die()
        await process.elapse(self._faults.latency())
        if self._store.past.undone(commit) and self._faults.choose(2):
            # The answer was lost on its way, so the call is repeated; and the store has forgotten the first one.
            return await self._do(verb, act)
        if commit >= self._commit:
            self._commit, self._epoch = commit, epoch
        return result

    def _tell(self, what: str) -> None:
        self._story.tell(self._process.name, what)

    @property
    def epoch(self) -> str:
        return self._epoch

    # -- the path of a URL

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        added = await self._do("add", lambda: self._store.add(job, tasks, cursor, epoch=epoch))
        last = ", the last" if cursor is not None and cursor.fed_all else ""
        outdated = ", but the store has gone back" if added.outdated else ""
        self._tell(f"adds {added.new} of {len(tasks)}{last}{outdated}")
        return added

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self._do("claim", lambda: self._store.claim(claim))
        for lease in claimed.leases:
            self._tell(f"claims {lease.task.url} (attempt {lease.task.attempt}, token {lease.token})")
        return claimed

    async def hasten(self, job: str, host: str, wanted: Mapping[int, float]) -> int:
        return await self._do("hasten", lambda: self._store.hasten(job, host, wanted))

    async def reserve(self, job: str, host: str, most: float) -> Turn:
        worker = self._process.name
        turn = await self._do("reserve", lambda: self._store.reserve(worker, job, host, most))
        self._tell(f"{'takes' if turn.taken else 'leaves'} the turn of {host} in {turn.wait:.3f} s")
        return turn

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        settled = await self._do("settle", lambda: self._store.settle(batch, journal, epoch))
        for place, (settlement, accepted) in enumerate(zip(batch, settled.accepted, strict=True)):
            verdict = type(settlement.verdict).__name__.lower()
            late = "" if accepted else ": too late"
            if place in settled.outdated:
                late = ", but the store has gone back"
            found = f", {len(settlement.found)} links" if settlement.found else ""
            self._tell(f"settles {settlement.lease.task.url} as {verdict}{found}{late}")
        return settled

    async def extend(
        self,
        worker: str,
        lease_seconds: float,
        status: bytes = b"",
        tokens: Collection[int] | None = None,
    ) -> int:
        return await self._do("extend", lambda: self._store.extend(worker, lease_seconds, status, tokens))

    async def release(self, leases: Sequence[Lease]) -> int:
        count = await self._do("release", lambda: self._store.release(leases))
        self._tell(f"hands back {count} of {len(leases)}")
        return count

    async def wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._process.woken.wait()
        except TimeoutError:
            pass
        self._process.woken.clear()
        await self._process.elapse(0)
        return True

    def wake(self) -> None:
        self._process.woken.set()

    async def reap(self) -> int:
        return await self._do("reap", self._store.reap)

    # -- dead letters

    async def replay(self, query: DeadFilter) -> int:
        count = await self._do("replay", lambda: self._store.replay(query))
        self._tell(f"brings {count} dead letters back")
        return count

    # -- jobs and hosts

    async def set_state(self, name: str, state: JobState) -> None:
        await self._do("set_state", lambda: self._store.set_state(name, state))
        self._tell(f"job {name} is {state}")

    async def finish(self, name: str) -> bool:
        finished = await self._do("finish", lambda: self._store.finish(name))
        if finished:
            self._tell(f"job {name} is finished")
        return finished

    async def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]:
        await self._process.elapse(self._faults.latency())
        async for record in self._store.home.hosts(job):
            yield record

    async def update_host(self, record: HostRecord) -> bool:
        updated = await self._do("update_host", lambda: self._store.update_host(record))
        valve = record.valve
        if updated:
            blocked = f", blocked until {valve.blocked_until:.3f}" if valve.blocked_until else ""
            self._tell(f"writes {record.name}: interval {valve.interval:.3f}, cap {valve.cap}{blocked}")
        return updated

    # -- verbs of which the model need not know

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        carry_out = getattr(self._store.home, verb)

        async def act(*given: Any, **named: Any) -> Any:
            result = await carry_out(*given, **named)
            self._store.past.passed()
            return result

        return lambda *given, **named: self._do(verb, lambda: act(*given, **named))
