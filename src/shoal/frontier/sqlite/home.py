"""The default home: one SQLite file, nothing to start, several processes at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from typing import Self

from shoal.clock import Clock
from shoal.errors import StoreError
from shoal.frontier.clock import Timebase
from shoal.frontier.news import UnheardNews
from shoal.frontier.protocol import Journal
from shoal.frontier.sqlite import adding, claiming, finding, jobs, settling
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.faults import translated
from shoal.frontier.sqlite.inventory import compact, take_stock
from shoal.frontier.sqlite.presence import Presence, workers_folder
from shoal.frontier.sqlite.schema import connect, shared_timebase
from shoal.frontier.sqlite.writer import Writer
from shoal.frontier.values import (
    SCAN,
    Added,
    Claim,
    Claimed,
    Cursor,
    DeadFilter,
    Flight,
    HostPage,
    HostQueue,
    HostRecord,
    Inventory,
    Job,
    JobSpec,
    JobState,
    Note,
    PastJob,
    Room,
    Settled,
    Whereabouts,
    WorkerRecord,
)
from shoal.model import DeadLetter, Lease, Settlement, Task

_LOOK_AROUND = 0.2  # seconds between looks for other processes' commits while idle
_REAP_EVERY = 1.0
_PROMPT = 0.01  # seconds between a claim and the arrival of its leases that do not matter


class SqliteFrontier:
    """`path` may be ':memory:': the same machinery, gone with the process."""

    def __init__(self, path: str | Path, clock: Clock | None = None) -> None:
        self.path = str(path)
        self._clock = clock
        shared = self.path != ":memory:"
        self._presence = Presence(workers_folder(self.path) if shared else None)
        self._writer = Writer(self._open_session, self.path)
        self._changed = asyncio.Event()
        self.news = UnheardNews()
        self._version = 0
        self._reaped_at = float("-inf")
        self.epoch = ""  # what was committed is on disk: the store never goes back

    def __repr__(self) -> str:
        return f"<SqliteFrontier {self.path}>"

    def _open_session(self) -> Session:
        db = connect(self.path)
        if self._clock is not None:
            return Session(db, Timebase(self._clock))
        with translated(self.path):  # the file has one time for all processes
            return Session(db, shared_timebase(db))

    async def open(self) -> None:
        await self._writer.start()

    async def close(self) -> None:
        holding = await self._holding()
        if self._presence.announced:
            self._writer.post(lambda s: settling.forget_workers(s, self._presence.announced))
        await self._writer.stop()
        self._presence.leave(holding)

    async def _holding(self) -> Set[str]:
        """This process's workers that still hold leases, because an error kept them from settling or releasing all."""
        if not self._presence.announced:
            return frozenset()
        try:
            rows = await self._writer.do(lambda s: s.all("SELECT DISTINCT worker FROM lease"))
        except StoreError:
            return self._presence.announced
        return {worker for (worker,) in rows}

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- jobs

    async def open_job(self, spec: JobSpec, source: str | None = None, *, again: bool = False) -> Job:
        return await self._writer.do(lambda s: jobs.open_job(s, spec, source, again))

    async def job(self, name: str) -> Job | None:
        return await self._writer.do(lambda s: jobs.find_job(s, name))

    async def jobs(self, state: JobState | None = None) -> Sequence[Job]:
        return await self._writer.do(lambda s: jobs.all_jobs(s, state))

    async def set_state(self, name: str, state: JobState) -> None:
        await self._writer.do(lambda s: jobs.set_state(s, name, state))

    async def finish(self, name: str) -> bool:
        return await self._writer.do(lambda s: jobs.finish(s, name))

    async def drop_job(self, name: str) -> None:
        await self._writer.do(lambda s: jobs.drop_job(s, name))

    async def prune_job(self, job: Job, summary: bytes = b"") -> bool:
        pruned = await self._writer.do(lambda s: jobs.prune_job(s, job, summary))
        while await self._writer.do(jobs.clear_some):  # noqa: ASYNC110
            await asyncio.sleep(_PROMPT)  # others want to write, too
        return pruned

    async def past_job(self, name: str) -> PastJob | None:
        return await self._writer.do(lambda s: jobs.past_job(s, name))

    async def past_jobs(self) -> Sequence[PastJob]:
        return await self._writer.do(jobs.past_jobs)

    async def lanes(self, job: str | None = None) -> Mapping[str, int]:
        return await self._writer.do(lambda s: jobs.lanes(s, job))

    async def durable(self, seconds: float) -> bool | None:
        return None if self.path == ":memory:" else True  # a verb answers after its commit

    # -- the path of a URL

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        def act(session: Session) -> Added:
            added = adding.add(session, job, tasks, cursor)
            jobs.bring_back(session, job)
            return added

        added = await self._writer.do(act)
        self.wake()
        return added

    async def claim(self, claim: Claim) -> Claimed:
        claimed, age = await self._writer.do(lambda s: self._claim(s, claim), last=True)
        paced = {lease.task.host for lease in claimed.leases if lease.interval > 0}
        if paced and (late := age()) > _PROMPT:
            # The commit or the event loop was slow. The hosts' intervals must count from now: otherwise the next
            # request to a host would come too soon after this one.
            self._writer.post(lambda s: claiming.hold_back(s, paced, late))
        return claimed

    def _claim(self, session: Session, claim: Claim) -> tuple[Claimed, Callable[[], float]]:
        """What was claimed, and a function that returns how long ago that was."""
        with translated(self.path):
            self._presence.announce(claim.worker)
        self._reap_sometimes(session)
        at = session.now()
        return claiming.claim(session, claim), lambda: session.now() - at

    def _reap_sometimes(self, session: Session) -> None:
        now = session.now()
        if now - self._reaped_at >= _REAP_EVERY or now < self._reaped_at:
            self._reaped_at = now
            settling.reap(session, self._presence.take_loss)

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        return await self._writer.do(lambda s: settling.settle(s, batch, journal))

    async def extend(
        self,
        worker: str,
        lease_seconds: float,
        status: bytes = b"",
        tokens: Collection[int] | None = None,
    ) -> int:
        return await self._writer.do(lambda s: settling.extend(s, worker, lease_seconds, status, tokens))

    async def workers(self) -> Sequence[WorkerRecord]:
        known = await self._writer.do(settling.workers)
        return [record for record in known if not self._presence.has_left(record.name)]

    async def held(self, worker: str) -> Sequence[Lease]:
        return await self._writer.do(lambda s: settling.held(s, worker))

    async def flights(self, limit: int, job: str | None = None) -> Sequence[Flight]:
        return await self._writer.do(lambda s: settling.flights(s, limit, job))

    def loss_file(self, worker: str) -> str:
        return self._presence.path(worker)

    async def release(self, leases: Sequence[Lease]) -> int:
        count = await self._writer.do(lambda s: settling.release(s, leases))
        self.wake()
        return count

    async def reap(self) -> int:
        return await self._writer.do(lambda s: settling.reap(s, self._presence.take_loss))

    async def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._changed.is_set() and (left := until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(min(left, _LOOK_AROUND)):
                    await self._changed.wait()
            except TimeoutError:
                if await self._others_committed():
                    break
        self._changed.clear()
        return True

    async def _others_committed(self) -> bool:
        before, self._version = self._version, await self._writer.do(_data_version)
        return before != self._version

    def wake(self) -> None:
        self._changed.set()

    # -- hosts

    async def host(self, name: str) -> HostRecord | None:
        return await self._writer.do(lambda s: jobs.find_host(s, name))

    async def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]:
        page = await self.host_page(job)
        while True:
            for record, _ in page.hosts:
                yield record
            if not page.after:
                return
            page = await self.host_page(job, page.after)

    async def host_page(self, job: str | None = None, after: str = "", limit: int = 1000) -> HostPage:
        return await self._writer.do(lambda s: jobs.host_page(s, job, after, limit))

    async def update_host(self, record: HostRecord) -> bool:
        updated = await self._writer.do(lambda s: jobs.update_host(s, record))
        self.wake()
        return updated

    async def queues(self, job: str | None = None, limit: int = 10) -> Sequence[tuple[str, int]]:
        return await self._writer.do(lambda s: jobs.longest_queues(s, job, limit))

    async def host_queues(self, host: str) -> Sequence[HostQueue]:
        return await self._writer.do(lambda s: finding.host_queues(s, host))

    # -- looking for one URL

    async def now(self) -> float:
        return await self._writer.do(lambda s: s.now())

    async def find(self, job: str, task: Task, scan: int = SCAN) -> Whereabouts:
        return await self._writer.do(lambda s: finding.find(s, job, task, scan))

    # -- room

    async def room(self) -> Room:
        return (
            Room()
        )  # a full disk ends the crawl in good order; how much of it is ours to take, nobody knows

    async def take_stock(self) -> Inventory:
        return await self._writer.do(lambda s: take_stock(s, self.path))

    async def compact(self) -> int:
        while await self._writer.do(jobs.clear_some):  # noqa: ASYNC110
            await asyncio.sleep(_PROMPT)
        others = bool(await self.workers())
        return await asyncio.to_thread(compact, self.path, others=others)

    # -- notes

    async def note(self, key: str) -> Note | None:
        return await self._writer.do(lambda s: jobs.find_note(s, key))

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        return await self._writer.do(lambda s: jobs.set_note(s, key, value, version))

    async def drop_note(self, key: str) -> None:
        await self._writer.do(lambda s: jobs.drop_note(s, key))

    # -- journals

    async def journal_length(self, job: str, key: str) -> int | None:
        return await self._writer.do(lambda s: jobs.journal_length(s, job, key))

    # -- dead letters

    async def dead(self, query: DeadFilter) -> Sequence[DeadLetter]:
        return await self._writer.do(lambda s: jobs.dead(s, query))

    async def replay(self, query: DeadFilter) -> int:
        count = await self._writer.do(lambda s: jobs.replay(s, query))
        self.wake()
        return count

    async def drop(self, query: DeadFilter) -> int:
        return await self._writer.do(lambda s: jobs.drop(s, query))


def _data_version(session: Session) -> int:
    return int(session.db.pragma("data_version"))
