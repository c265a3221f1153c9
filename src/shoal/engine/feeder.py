"""Feeds a job with its start URLs: in batches, and only while the queue is below its high water, or slots are idle."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit import Admission
from shoal.admit.sending import meant_by
from shoal.admit.sizes import OversizeError, stored_size
from shoal.engine import guardian
from shoal.engine.tally import Tally
from shoal.errors import ShoalError, SpiderError, StoreError, StoreFull
from shoal.events import event
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import OWN_START, Cursor, Job, Room, Source
from shoal.hosts.stored_settings import StoredSettingsCopy
from shoal.jobs.source_runs import begin_run
from shoal.jobs.state import StoredState
from shoal.jobs.worker_status import is_silent, status_of
from shoal.limits import START_LINE, URL_SHOWN
from shoal.model import Refused, Task
from shoal.model.built_in import is_built_in
from shoal.model.request import Request
from shoal.policy.backpressure import THROTTLES
from shoal.policy.lanes import no_such_lane
from shoal.settings import Settings
from shoal.spider.spider import Spider, StartPlace
from shoal.spider.start_sources import handlers_of_entries
from shoal.spider.state import state_of
from shoal.text import command, shown_url

_BATCH = 5_000
_LINGER = 0.2  # seconds a slow source's URLs wait for company
_LOOK_AGAIN = 0.5
_HEARD = 3.0  # seconds after which workers have told what they make of the last batch
_WIDEST = 5  # times high_water that may wait while most slots are idle
_CONFIRMED = 2.0  # seconds after which a store keeps what it was given, unless a replica lags far behind
_STANDING = 2.0  # seconds after which the store's settings for hosts are read again
_REFUSALS_TOLD = 20


class _WentBack(ShoalError):
    """The store has lost more than this process remembers."""


class Feeder:
    """Reads a spider's start and adds it to the job, as one of the job's sources. The position is committed with the
    tasks, so a feeder that was killed goes on at the same place. A source that is a function is read again from its
    beginning, and dedupe drops what is known. If the store goes back, what it has lost is added again."""

    def __init__(
        self,
        spider: Spider,
        frontier: Frontier,
        admission: Admission,
        settings: Settings,
        tally: Tally,
        *,
        job: str,
        source: str = OWN_START,
        paused: Callable[[], bool] = lambda: False,
        waits_for_room: bool = True,  # else a store that is nearly full is an error
        on_wait: Callable[[int, int], None] = lambda fed, pending: None,  # the queue is full
    ) -> None:
        self._spider = spider
        self._frontier = frontier
        self._admission = admission
        self._settings = settings
        self._tally = tally
        self._job = job
        self._source = source
        self._paused = paused
        self._waits_for_room = waits_for_room
        self._on_wait = on_wait
        self._lanes = settings.lane_weights
        self._standing = StoredSettingsCopy(frontier)
        self._batch: list[Task] = []
        self._position = 0
        self._made_at = 0.0  # when the job was made
        self._adding = asyncio.Lock()
        self._failure: ShoalError | None = None
        self._at = StartPlace()
        self._refusals = 0
        self._judged = 0  # how many were admitted or refused; what is read again is not counted again
        self._epoch = ""  # of the store, when it was told the position
        self._recent = RecentlyFed(0, anew=True)
        self._last = False  # everything was given
        self._mark = settings.high_water  # a queue of so many is full
        self._asked = 0.0  # when the store was asked whether it has gone back (the loop's time)

    async def feed(self, *, stays: bool = False) -> None:
        """`stays`: stays until it is cancelled, to feed again if the store goes back after everything was fed."""
        with state_of(StoredState(self._frontier, self._job, lambda: self._made_at)):
            await guardian.feeding(self._feed(stays))

    async def _feed(self, stays: bool) -> None:
        while True:
            try:
                return await self._feed_once(stays)
            except _WentBack as error:
                if self._spider.reads_stdin():
                    raise StoreError(
                        f"{error}; give it all of them once more: it drops those it knows"
                    ) from None
                event("feeding_failed", job=self._job, reason=str(error))
            self._at, self._batch, self._failure = StartPlace(), [], None

    async def _feed_once(self, stays: bool) -> None:
        job = await self._look()
        if job is None or (source := self._source_of(job)).fed_all:
            return
        self._made_at = job.created_at
        anew = self._spider.starts_anew()
        skip = 0 if anew else source.fed
        self._position = skip
        self._recent, self._last = RecentlyFed(skip, anew=anew), False
        # Counted here and not by the length of the batch: regular flushes keep the batches of a slow source short.
        stride, taken = min(_BATCH, self._settings.high_water), 0
        await self._wait_for_room()
        await self._standing.refresh(asyncio.get_running_loop().time(), older_than=0.0)
        flushing = asyncio.create_task(self._flush_regularly())
        try:
            async for position, request, typed in self._spider.starts(skip, self._at):
                if is_built_in(request.handler):
                    request = await begin_run(
                        self._frontier, self._spider.name, request, self._job, self._made_at
                    )
                self._take(position, request, typed=typed or self._settings.trust_start)
                taken += 1
                if taken % stride == 0:
                    await self._flush()
                    await self._below_high_water()
            self._last = True
            await self._flush()
            await self._confirm()
            while stays and self._epoch:  # `_flush_regularly` adds again what the store has lost
                await asyncio.sleep(_LOOK_AGAIN)
                self._raise_failure()
        except SpiderError:
            await self._flush()  # keeps what came before the error
            raise
        finally:
            flushing.cancel()

    def _take(self, position: int, request: Request, *, typed: bool) -> None:
        self._raise_failure()
        try:
            if request.lane is not None and request.lane not in self._lanes:
                raise SpiderError(no_such_lane(request.lane, self._lanes))
            for handler in handlers_of_entries(request):
                self._spider.handler_named(handler)
            stored_size(request)
        except (OversizeError, SpiderError) as error:
            raise self._error(position, request, str(error)) from None
        admitted = (
            Refused(shown_url(request.url), f"line longer than {START_LINE:,} characters")
            if self._at.cut
            else self._admission.admit(request)
        )
        self._position = position
        if not isinstance(admitted, Refused):
            if request.lane is None and (own := self._standing.table.of(admitted.host).lane) in self._lanes:
                admitted = replace(admitted, lane=own)
            self._batch.append(replace(admitted, typed=True) if typed else admitted)
        elif position > self._judged:
            self._refuse(admitted)
        self._judged = max(self._judged, position)

    def _error(self, position: int, request: Request, problem: str) -> SpiderError:
        url = shown_url(request.url)[:URL_SHOWN]
        place = str(self._at)
        number = f"start request {position}"
        where = number if place == number else f"{place}: {number}"
        return SpiderError(f"spider {self._spider.name!r}: {where}: {problem} ({url})")

    def _refuse(self, refused: Refused) -> None:
        """Counts every refused URL, and logs the first few with their line."""
        self._tally.refused(refused.reason)
        self._refusals += 1
        if self._refusals <= _REFUSALS_TOLD:
            meant = meant_by(refused.url)
            hint = f"; did you mean {meant}?" if meant else ""
            event(
                "start_refused",
                job=self._job,
                where=str(self._at),
                url=refused.url,
                reason=f"{refused.reason}{hint}",
            )

    def _source_of(self, job: Job) -> Source:
        return job.sources.get(self._source, Source())

    async def _look(self) -> Job | None:
        """Reads the job, and notes the epoch in which it was read."""
        while True:
            self._epoch = self._frontier.epoch
            job = await self._frontier.job(self._job)
            if self._frontier.epoch == self._epoch:
                return job

    async def _flush(self) -> None:
        async with self._adding:
            self._raise_failure()
            try:
                await self._check_job()
                await self._standing.refresh(asyncio.get_running_loop().time(), older_than=_STANDING)
                # Taken before the next await: the reader moves both the batch and the position on.
                batch, self._batch = self._batch, []
                await self._add(batch)
            except ShoalError as error:
                self._failure = error
                raise

    async def _add(self, batch: list[Task]) -> None:
        cursor = Cursor(self._source, self._position, self._last)
        if self._epoch:  # otherwise the store never goes back
            self._recent.add(batch, self._position, asyncio.get_running_loop().time())
        while True:
            added = await self._frontier.add(self._job, batch, cursor, epoch=self._epoch)
            if not added.outdated:
                return
            batch = await self._forgotten()

    async def _forgotten(self) -> list[Task]:
        """The tasks to add again, now that the store has gone back."""
        job = await self._look()
        if job is None:
            raise StoreError(
                f"the store has gone back to a time before job {self._job} was made; run the same command again"
            )
        fed = self._source_of(job).fed
        if (again := self._recent.since(fed)) is None:
            raise _WentBack(
                f"the store has gone back, and knows {fed:,} of the {self._position:,} start URLs it was given"
            )
        return again

    async def _check_job(self) -> None:
        """A process that was stopped for a while may find another job of the same name."""
        job = await self._frontier.job(self._job)
        if job is not None and job.created_at != self._made_at:
            self._failure = StoreError(f"job {self._job} was dropped meanwhile; its start is not fed on")
            raise self._failure

    def _raise_failure(self) -> None:
        """After a batch that may be lost, the next one must not commit a position beyond it."""
        if self._failure is not None:
            raise self._failure

    async def _flush_regularly(self) -> None:
        while self._failure is None:
            await asyncio.sleep(_LINGER)
            if self._batch or await self._has_gone_back():
                try:
                    await self._flush()
                except ShoalError:
                    return  # `_feed_once` raises it

    async def _has_gone_back(self) -> bool:
        """Whether the store has gone back, as far as this process knows. Asks the store now and then, because no
        other part of this process may do so."""
        loop = asyncio.get_running_loop()
        self._recent.forget(loop.time())
        if self._recent and loop.time() >= self._asked + _LOOK_AGAIN:
            self._asked = loop.time()
            with suppress(ShoalError):
                await self._frontier.job(self._job)
        return self._frontier.epoch != self._epoch

    async def _confirm(self) -> None:
        """Waits until the store cannot lose the last batch: once this process has ended, nobody could add it again."""
        while self._epoch:
            if not await self._frontier.durable(_CONFIRMED):
                await asyncio.sleep(_CONFIRMED)
            self._raise_failure()
            self._asked = 0.0
            if not await self._has_gone_back():
                return
            await self._flush()

    async def _below_high_water(self) -> None:
        """Waits while the queue is full, or backpressure pauses feeding. Once full, it goes on at half the mark, not
        with every page that leaves; or soon, if most slots are idle: then all that waits is for a few hosts, as in a
        list by host, and the start may have others."""
        loop, high_water = asyncio.get_running_loop(), self._settings.high_water
        widest = _WIDEST * high_water
        mark, told, full_since = self._mark, False, loop.time()
        while (job := await self._frontier.job(self._job)) is not None:
            await self._wait_for_room()
            pending = job.counters.pending
            if pending <= high_water // 2:
                self._mark = high_water
            if pending < mark and not self._paused():
                return
            if self._paused():
                full_since = loop.time()
            elif pending < widest and loop.time() - full_since >= _HEARD and await self._has_idle_workers():
                self._mark = min(2 * self._mark, widest)
                if self._mark > pending:
                    event("feeding_goes_on", job=self._job, pending=pending, mark=self._mark)
                    return
            if not told:
                told = True
                event("feeding_waits", job=self._job, fed=self._position, pending=pending)
                self._on_wait(self._position, pending)
            mark = self._mark // 2
            await asyncio.sleep(_LOOK_AGAIN)

    async def _has_idle_workers(self) -> bool:
        now, workers = await self._frontier.now(), await self._frontier.workers()
        heard = [status_of(record) for record in workers if not is_silent(record, now)]
        ours = [status for status in heard if status.serves(self._job)]
        if any(reason.rule in THROTTLES for status in ours for reason in status.pressure):
            return False  # slots that backpressure took away do not lack pages
        return sum(status.used for status in ours) * 2 < sum(status.slots for status in ours)

    async def _wait_for_room(self) -> None:
        while full := too_full(await self._frontier.room(), self._settings):
            if not self._waits_for_room:
                raise full
            await asyncio.sleep(_LOOK_AGAIN)


def too_full(room: Room, settings: Settings) -> StoreFull | None:
    """The error if a store is too full to take new tasks; those in it need room to be finished."""
    if room.share <= settings.store_high_water:
        return None
    return StoreFull(
        f"the store has {room.share:.0%} of the memory it may use, and takes nothing new above"
        f" {settings.store_high_water:.0%} (store_high_water): raise its maxmemory, or make room with"
        f" {command('store --prune')}, then run the same command again"
    )


# -- what was fed lately, in case the store goes back

# Seconds. A power cut costs a store two at most, a failover as much as its replica lags behind. If one of several
# shards has gone back, the position is a minute old. Add to that the time that the store is away.
LASTS = 120.0
_MOST = 50_000  # tasks


class _Batch(Struct, frozen=True):
    at: float  # monotonic
    position: int  # of the source, after it
    tasks: Sequence[Task]


class RecentlyFed:
    """The latest batches of one source, after a position. `anew`: the source was read from its beginning, whatever
    position the store had."""

    def __init__(self, position: int, *, anew: bool) -> None:
        self._anew = anew
        self._reaches = position  # the position before the oldest batch
        self._batches: deque[_Batch] = deque()
        self._size = 0
        self._has_all = True  # nothing was forgotten yet

    def __repr__(self) -> str:
        return f"<RecentlyFed: {self._size} tasks beyond {self._reaches}>"

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, tasks: Sequence[Task], position: int, now: float) -> None:
        self._batches.append(_Batch(now, position, tasks))
        self._size += len(tasks)
        self.forget(now)

    def forget(self, now: float) -> None:
        """Drops batches that are too old, or too many."""
        batches = self._batches
        while batches and (batches[0].at < now - LASTS or (self._size > _MOST and len(batches) > 1)):
            oldest = batches.popleft()
            self._size -= len(oldest.tasks)
            self._reaches, self._has_all = oldest.position, False

    def since(self, fed: int) -> list[Task] | None:
        """The tasks to add again to a store that knows the source up to `fed`; None: that is too long ago. For a source
        that is read anew, `fed` may be an old position: then all tasks are added again."""
        if fed < self._reaches or (self._anew and fed > self._position and not self._has_all):
            return None
        return [task for batch in self._batches if self._anew or batch.position > fed for task in batch.tasks]

    @property
    def _position(self) -> int:
        return self._batches[-1].position if self._batches else self._reaches
