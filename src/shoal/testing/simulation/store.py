"""The frontier of a world: one home that all processes share, watched by the checker, behind a shell that fails.

Process ──▶ FaultyFrontier ──▶ CheckedFrontier ──▶ the home
            latency, errors,    the model is told
            death, pauses       of every verb
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from shoal.errors import SinkError, StoreError
from shoal.frontier.protocol import (
    OWN_START,
    Added,
    Claim,
    Claimed,
    DeadFilter,
    Frontier,
    HostQueue,
    HostRecord,
    Job,
    JobState,
    Journal,
    Note,
    Settled,
)
from shoal.model import Lease, Settlement, Task
from shoal.sink.jsonl import MemoryJournal
from shoal.testing.simulation.check import Checker
from shoal.testing.simulation.faults import Faults
from shoal.testing.simulation.process import Process
from shoal.testing.simulation.story import Story

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

    def append(self, committed: int, rows: Sequence[bytes]) -> int:
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


class CheckedFrontier:
    """Carries a verb out, tells the model, and checks what must hold after every verb."""

    def __init__(self, home: Frontier, checker: Checker, journal: FaultyJournal, job: str) -> None:
        self.home = home
        self._checker = checker
        self._journal = journal
        self._job = job
        self.processes: list[Process] = []  # those alive, who want to know of work

    async def add(
        self,
        job: str,
        tasks: Sequence[Task],
        *,
        source: str,
        fed: int | None,
        fed_all: bool,
        epoch: str | None,
    ) -> Added:
        added = await self.home.add(job, tasks, source=source, fed=fed, fed_all=fed_all, epoch=epoch)
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

    async def settle(self, batch: Sequence[Settlement], journal: Journal | None) -> Settled:
        settled = await self.home.settle(batch, journal)
        self._checker.settled(batch, settled, self._journal.rows)
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

    async def update_host(self, record: HostRecord) -> bool:
        updated = await self.home.update_host(record)
        await self._after([record.name], news=updated)
        return updated

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
        self._checker.counted(job.counters)
        for host in dict.fromkeys(hosts):
            self._checker.places(await self._record(host))
        if news:
            for process in self.processes:
                process.woken.set()


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

    async def _do(self, verb: str, act: Callable[[], Awaitable[T]]) -> T:
        fault = self._faults.at_verb(verb)
        process = self._process
        async with self._turn:
            await process.elapse(self._faults.latency())
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
            if fault == "error after":
                raise SimulatedFault(f"simulated: {verb} was carried out, but its answer was lost", process)
            if fault == "death after":
                raise process.die()
        await process.elapse(self._faults.latency())
        return result

    def _tell(self, what: str) -> None:
        self._story.tell(self._process.name, what)

    @property
    def epoch(self) -> str:
        return self._store.home.epoch

    # -- the path of a URL

    async def add(
        self,
        job: str,
        tasks: Sequence[Task],
        *,
        source: str = OWN_START,
        fed: int | None = None,
        fed_all: bool = False,
        epoch: str | None = None,
    ) -> Added:
        added = await self._do(
            "add",
            lambda: self._store.add(job, tasks, source=source, fed=fed, fed_all=fed_all, epoch=epoch),
        )
        self._tell(f"adds {added.new} of {len(tasks)}{', the last' if fed_all else ''}")
        return added

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self._do("claim", lambda: self._store.claim(claim))
        for lease in claimed.leases:
            self._tell(f"claims {lease.task.url} (attempt {lease.task.attempt}, token {lease.token})")
        return claimed

    async def settle(self, batch: Sequence[Settlement], journal: Journal | None = None) -> Settled:
        settled = await self._do("settle", lambda: self._store.settle(batch, journal))
        for settlement, accepted in zip(batch, settled.accepted, strict=True):
            verdict = type(settlement.verdict).__name__.lower()
            late = "" if accepted else ": too late"
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

    async def held(self, worker: str) -> Sequence[Lease]:
        return await self._do("held", lambda: self._store.home.held(worker))

    async def release(self, leases: Sequence[Lease]) -> int:
        count = await self._do("release", lambda: self._store.release(leases))
        self._tell(f"hands back {count} of {len(leases)}")
        return count

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._process.woken.wait()
        except TimeoutError:
            pass
        self._process.woken.clear()
        await self._process.elapse(0)

    def wake(self) -> None:
        self._process.woken.set()

    # -- notes

    async def note(self, key: str) -> Note | None:
        return await self._do("note", lambda: self._store.home.note(key))

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        return await self._do("set_note", lambda: self._store.home.set_note(key, value, version))

    # -- dead letters

    async def replay(self, query: DeadFilter) -> int:
        count = await self._do("replay", lambda: self._store.replay(query))
        self._tell(f"brings {count} dead letters back")
        return count

    # -- jobs and hosts

    async def jobs(self, state: JobState | None = None) -> Sequence[Job]:
        return await self._do("jobs", lambda: self._store.home.jobs(state))

    async def job(self, name: str) -> Job | None:
        return await self._do("job", lambda: self._store.home.job(name))

    async def finish(self, name: str) -> bool:
        return await self._do("finish", lambda: self._store.home.finish(name))

    async def host(self, name: str) -> HostRecord | None:
        return await self._do("host", lambda: self._store.home.host(name))

    async def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]:
        await self._process.elapse(self._faults.latency())
        async for record in self._store.home.hosts(job):
            yield record

    async def host_queues(self, host: str) -> Sequence[HostQueue]:
        return await self._do("host_queues", lambda: self._store.home.host_queues(host))

    async def update_host(self, record: HostRecord) -> bool:
        updated = await self._do("update_host", lambda: self._store.update_host(record))
        valve = record.valve
        if updated:
            blocked = f", blocked until {valve.blocked_until:.3f}" if valve.blocked_until else ""
            self._tell(f"writes {record.name}: interval {valve.interval:.3f}, cap {valve.cap}{blocked}")
        return updated
