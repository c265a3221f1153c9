"""Feeding a job with its start URLs: streamed, in batches, and only while the queue is below its high water."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from shoal.admit import Admission
from shoal.admit.sending import meant_by
from shoal.admit.sizes import OversizeError, stored_size
from shoal.engine import guardian
from shoal.engine.recently_fed import Recent
from shoal.engine.tally import Tally
from shoal.errors import ShoalError, SpiderError, StoreError, StoreFull
from shoal.events import event
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import OWN_START, Cursor, Job, Room, Source
from shoal.hosts.stored_settings import StandingCopy
from shoal.limits import START_LINE, URL_SHOWN
from shoal.model import Refused, Request, Task
from shoal.policy.lanes import no_such_lane
from shoal.settings import Settings
from shoal.spider.places import StartPlace
from shoal.spider.spider import Spider
from shoal.text import command, shown_url

_BATCH = 5_000
_LINGER = 0.2  # seconds a slow source's URLs wait for company
_LOOK_AGAIN = 0.5
_CONFIRMED = 2.0  # seconds after which a store keeps what it was given, unless a replica lags far behind
_STANDING = 2.0  # seconds after which the store's settings for hosts are read again
_REFUSALS_TOLD = 20


class _WentBack(ShoalError):
    """The store has forgotten more than is remembered here."""


class Feeder:
    """Reads a spider's start and adds it to the job, as one of the job's sources. How far it got is committed with what
    it added, so a feeder that is killed goes on at the same place; a source that is a function is read again, and
    deduplicated. If the store goes back, it is given again what it has forgotten."""

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
        self._standing = StandingCopy(frontier)
        self._batch: list[Task] = []
        self._position = 0
        self._made_at = 0.0  # when the job was made
        self._adding = asyncio.Lock()
        self._failure: ShoalError | None = None
        self._at = StartPlace()
        self._refusals = 0
        self._judged = 0  # so many were looked at; what is read again is not counted again
        self._epoch = ""  # of the store, when it was told the position
        self._recent = Recent(0, anew=True)
        self._last = False  # everything was given
        self._asked = 0.0  # when the store was asked whether it has gone back (the loop's time)

    async def feed(self, *, stays: bool = False) -> None:
        """`stays`: until it is cancelled, should the store go back after all is fed."""
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
        self._recent, self._last = Recent(skip, anew=anew), False
        # Counted here and not by the batch, which a slow source's regular flushes would keep short for ever.
        stride, taken = min(_BATCH, self._settings.high_water), 0
        await self._wait_for_room()
        await self._standing.refresh(asyncio.get_running_loop().time(), older_than=0.0)
        flushing = asyncio.create_task(self._flush_regularly())
        try:
            async for position, request, typed in self._spider.starts(skip, self._at):
                self._take(position, request, typed=typed or self._settings.trust_start)
                taken += 1
                if taken % stride == 0:
                    await self._flush()
                    await self._below_high_water()
            self._last = True
            await self._flush()
            await self._confirm()
            while stays and self._epoch:  # what is forgotten is given again by `_flush_regularly`
                await asyncio.sleep(_LOOK_AGAIN)
                self._raise_failure()
        except SpiderError:
            await self._flush()  # what it gave before is kept
            raise
        finally:
            flushing.cancel()

    def _take(self, position: int, request: Request, *, typed: bool) -> None:
        self._raise_failure()
        try:
            if request.lane is not None and request.lane not in self._lanes:
                raise SpiderError(no_such_lane(request.lane, self._lanes))
            self._spider.handler_named(request.handler)
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
        """Counts every one, and tells the first few: whoever wrote them finds them by their line."""
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
        """The job, and the epoch that it is of."""
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
                # Taken together with its position, which goes on with every await.
                batch, self._batch = self._batch, []
                await self._add(batch)
            except ShoalError as error:
                self._failure = error
                raise

    async def _add(self, batch: list[Task]) -> None:
        cursor = Cursor(self._source, self._position, self._last)  # they go on meanwhile
        if self._epoch:  # else it never goes back
            self._recent.keep(batch, self._position, asyncio.get_running_loop().time())
        while True:
            added = await self._frontier.add(self._job, batch, cursor, epoch=self._epoch)
            if not added.outdated:
                return
            batch = await self._forgotten()

    async def _forgotten(self) -> list[Task]:
        """What the store has to be given again, now that it has gone back."""
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
        """A process that was stopped for a while may wake up to another job of that name, in which it has no place."""
        job = await self._frontier.job(self._job)
        if job is not None and job.created_at != self._made_at:
            self._failure = StoreError(f"job {self._job} was dropped meanwhile; its start is not fed on")
            raise self._failure

    def _raise_failure(self) -> None:
        """After a batch that may be lost, another would commit a position beyond it."""
        if self._failure is not None:
            raise self._failure

    async def _flush_regularly(self) -> None:
        while self._failure is None:
            await asyncio.sleep(_LINGER)
            if self._batch or await self._has_gone_back():
                try:
                    await self._flush()
                except ShoalError:
                    return  # raised by whoever feeds

    async def _has_gone_back(self) -> bool:
        """Whether the store has forgotten something, as far as anybody in this process has heard. While nobody else may
        speak with it, it is asked."""
        loop = asyncio.get_running_loop()
        self._recent.forget(loop.time())
        if self._recent and loop.time() >= self._asked + _LOOK_AGAIN:
            self._asked = loop.time()
            with suppress(ShoalError):
                await self._frontier.job(self._job)
        return self._frontier.epoch != self._epoch

    async def _confirm(self) -> None:
        """Stays until the store will not forget the last of it: once this process is gone, nobody knows what it was."""
        while self._epoch:
            if not await self._frontier.durable(_CONFIRMED):
                await asyncio.sleep(_CONFIRMED)
            self._raise_failure()
            self._asked = 0.0
            if not await self._has_gone_back():
                return
            await self._flush()

    async def _below_high_water(self) -> None:
        """Waits while the queue is full, or the crawl has other worries; feeding goes on at half the mark, not at
        every page that leaves."""
        mark, told = self._settings.high_water, False
        while (job := await self._frontier.job(self._job)) is not None:
            await self._wait_for_room()
            if job.counters.pending < mark and not self._paused():
                return
            if not told:
                told = True
                event("feeding_waits", job=self._job, fed=self._position, pending=job.counters.pending)
                self._on_wait(self._position, job.counters.pending)
            mark = self._settings.high_water // 2
            await asyncio.sleep(_LOOK_AGAIN)

    async def _wait_for_room(self) -> None:
        while full := too_full(await self._frontier.room(), self._settings):
            if not self._waits_for_room:
                raise full
            await asyncio.sleep(_LOOK_AGAIN)


def too_full(room: Room, settings: Settings) -> StoreFull | None:
    """Why nothing new is brought to a store; what is in it must find room to be finished."""
    if room.share <= settings.store_high_water:
        return None
    return StoreFull(
        f"the store has {room.share:.0%} of the memory it may use, and takes nothing new above"
        f" {settings.store_high_water:.0%} (store_high_water): raise its maxmemory, or make room with"
        f" {command('store --prune')}, then run the same command again"
    )
