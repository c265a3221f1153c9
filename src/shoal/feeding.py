"""Feeding a job with its start URLs: streamed, in batches, and only while the queue is below its high water."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.admit import Admission
from shoal.frontier.protocol import Frontier
from shoal.model import Refused, Request, Task
from shoal.observe.tally import Tally
from shoal.settings import Settings
from shoal.spider import Spider

_BATCH = 5_000
_LINGER = 0.2  # seconds a slow source's URLs wait for company
_LOOK_AGAIN = 0.5


class Feeder:
    """Reads a spider's start and adds it to the job. How far it got is committed with what it added, so a feeder
    that is killed goes on at the same place; a source that is a function is read again, and deduplicated."""

    def __init__(
        self,
        spider: Spider,
        frontier: Frontier,
        admission: Admission,
        settings: Settings,
        tally: Tally,
        *,
        job: str,
        on_add: Callable[[], None] = lambda: None,
    ) -> None:
        self._spider = spider
        self._frontier = frontier
        self._admission = admission
        self._settings = settings
        self._tally = tally
        self._job = job
        self._on_add = on_add
        self._batch: list[Task] = []
        self._position = 0
        self._adding = asyncio.Lock()

    async def feed(self) -> None:
        job = await self._frontier.job(self._job)
        if job is None or job.fed_all:
            return
        skip = 0 if callable(self._spider.start) else job.fed
        self._position = skip
        # Counted here and not by the batch, which a slow source's regular flushes would keep short for ever.
        stride, taken = min(_BATCH, self._settings.high_water), 0
        flushing = asyncio.create_task(self._flush_regularly())
        try:
            async for position, request in self._spider.starts(skip):
                self._take(position, request)
                taken += 1
                if taken % stride == 0:
                    await self._flush()
                    await self._below_high_water()
            await self._flush(last=True)
        finally:
            flushing.cancel()

    def _take(self, position: int, request: Request) -> None:
        self._position = position
        admitted = self._admission.admit(request)
        if isinstance(admitted, Refused):
            self._tally.refused(admitted.reason)
        else:
            self._batch.append(admitted)

    async def _flush(self, *, last: bool = False) -> None:
        async with self._adding:
            batch, self._batch = self._batch, []
            await self._frontier.add(self._job, batch, fed=self._position, fed_all=last)
            self._on_add()

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(_LINGER)
            if self._batch:
                await self._flush()

    async def _below_high_water(self) -> None:
        """Waits while the queue is full; feeding goes on at half the mark, not at every page that leaves."""
        mark = self._settings.high_water
        while (job := await self._frontier.job(self._job)) is not None and job.counters.pending >= mark:
            mark = self._settings.high_water // 2
            await asyncio.sleep(_LOOK_AGAIN)
