"""The default home: one SQLite file, nothing to start, several processes at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from msgspec.structs import replace

from shoal.clock import Clock
from shoal.errors import StoreError
from shoal.frontier.clock import Timebase
from shoal.frontier.news import UnheardNews
from shoal.frontier.protocol import Journal
from shoal.frontier.sqlite import adding, claiming, finding, hastening, settling
from shoal.frontier.sqlite import jobs as stored
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.faults import translated
from shoal.frontier.sqlite.following import following
from shoal.frontier.sqlite.inventory import compact, take_stock
from shoal.frontier.sqlite.presence import Presence, workers_folder
from shoal.frontier.sqlite.schema import connect, shared_timebase
from shoal.frontier.sqlite.writer import Writer
from shoal.frontier.values import (
    Added,
    Claim,
    Claimed,
    Cursor,
    HostRecord,
    Inventory,
    Job,
    Room,
    Settled,
    Turn,
    WorkerRecord,
)
from shoal.model import Settlement, Task

_LOOK_AROUND = 0.2  # seconds between looks for other processes' commits while idle
_REAP_EVERY = 1.0
_PROMPT = 0.01  # seconds between a claim and the arrival of its leases that do not matter


P = ParamSpec("P")
T = TypeVar("T")


def _verb(
    function: Callable[Concatenate[Session, P], T], *, wakes: bool = False
) -> Callable[Concatenate[SqliteFrontier, P], Coroutine[Any, Any, T]]:
    """A verb that runs the function in a transaction of the writer. `wakes`: there may be work after it."""

    async def verb(self: SqliteFrontier, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = await self._writer.do(lambda session: function(session, *args, **kwargs))
        if wakes:
            self.wake()
        return result

    return verb


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

    open_job = _verb(stored.open_job)
    job = _verb(stored.find_job)
    jobs = _verb(stored.all_jobs)
    set_state = _verb(stored.set_state)
    finish = _verb(stored.finish)
    drop_job = _verb(stored.drop_job)

    async def prune_job(self, job: Job, summary: bytes = b"") -> bool:
        pruned = await self._writer.do(lambda s: stored.prune_job(s, job, summary))
        while await self._writer.do(stored.clear_some):  # noqa: ASYNC110
            await asyncio.sleep(_PROMPT)  # others want to write, too
        return pruned

    past_job = _verb(stored.past_job)
    past_jobs = _verb(stored.past_jobs)
    lanes = _verb(stored.lanes)

    async def durable(self, seconds: float) -> bool | None:
        return None if self.path == ":memory:" else True  # a verb answers after its commit

    # -- the path of a URL

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        def act(session: Session) -> Added:
            added = adding.add(session, job, tasks, cursor)
            stored.bring_back(session, job)
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

    async def hasten(self, job: str, host: str, wanted: Mapping[int, float]) -> int:
        hastened, after = 0, (0.0, 0)
        while True:
            found, last = await self._writer.do(
                lambda session: hastening.hasten_some(session, job, host, wanted, after)  # noqa: B023
            )
            hastened += found
            if last is None:
                break
            after = last
        if hastened:
            self.wake()
        return hastened

    async def reserve(self, job: str, host: str, most: float) -> Turn:
        def act(session: Session) -> tuple[Turn, Callable[[], float]]:
            at = session.now()
            return claiming.reserve(session, job, host, most), lambda: session.now() - at

        turn, age = await self._writer.do(act)
        late = age() - turn.wait
        if turn.taken and turn.interval > 0 and late > _PROMPT:
            self._writer.post(lambda s: claiming.hold_back(s, {host}, late))  # as in claim
        return replace(turn, wait=max(0.0, -late))

    def _reap_sometimes(self, session: Session) -> None:
        now = session.now()
        if now - self._reaped_at >= _REAP_EVERY or now < self._reaped_at:
            self._reaped_at = now
            settling.reap(session, self._presence.take_loss)

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        return await self._writer.do(lambda s: settling.settle(s, batch, journal))

    extend = _verb(settling.extend)

    async def workers(self) -> Sequence[WorkerRecord]:
        known = await self._writer.do(settling.workers)
        return [record for record in known if not self._presence.has_left(record.name)]

    held = _verb(settling.held)
    flights = _verb(settling.flights)

    def loss_file(self, worker: str) -> str:
        return self._presence.path(worker)

    release = _verb(settling.release, wakes=True)

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

    host = _verb(stored.find_host)

    async def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]:
        page = await self.host_page(job)
        while True:
            for record, _ in page.hosts:
                yield record
            if not page.after:
                return
            page = await self.host_page(job, page.after)

    host_page = _verb(stored.host_page)
    update_host = _verb(stored.update_host, wakes=True)
    queues = _verb(stored.longest_queues)
    host_queues = _verb(finding.host_queues)

    # -- looking for one URL

    async def now(self) -> float:
        return await self._writer.do(lambda s: s.now())

    find = _verb(finding.find)
    following = _verb(following)

    # -- room

    async def room(self) -> Room:
        return (
            Room()
        )  # how much of the disk the store may use is not known; a full disk ends the crawl in good order

    async def take_stock(self) -> Inventory:
        return await self._writer.do(lambda s: take_stock(s, self.path))

    async def compact(self) -> int:
        while await self._writer.do(stored.clear_some):  # noqa: ASYNC110
            await asyncio.sleep(_PROMPT)
        others = bool(await self.workers())
        return await asyncio.to_thread(compact, self.path, others=others)

    # -- notes

    note = _verb(stored.find_note)
    set_note = _verb(stored.set_note)
    drop_note = _verb(stored.drop_note)
    drop_notes = _verb(stored.drop_notes)

    # -- journals

    journal_length = _verb(stored.journal_length)
    journals = _verb(stored.journals)

    # -- dead letters

    dead = _verb(stored.dead)
    replay = _verb(stored.replay, wakes=True)
    drop = _verb(stored.drop)


def _data_version(session: Session) -> int:
    return int(session.db.pragma("data_version"))
