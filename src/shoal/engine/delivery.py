"""Writes rows that do not go to a file of the frontier. A page is settled only after its rows are written.

Each job has its own writer: an output that is away holds back the pages of its own job only. While a batch is being
written, the next one is collected, so a slow output gets larger batches. There are two kinds of outputs:

  - A database is written by its sink. The pages are settled in the next round of the engine.
  - A journal that is reached by the network (`remote`), such as an object store, is written within the settlement. That
    may take seconds, so it is no part of a round. A batch is an object there, so rows wait a moment for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from shoal.engine.served import EngineJob
from shoal.errors import SinkError
from shoal.model import ARCHIVE, Lease, Settlement

_LARGE = 4 << 20  # bytes of rows that wait for no others
_WAITING = 4  # pages a slot whose rows may be on their way over the network

Settle = Callable[[EngineJob, Sequence[Settlement]], Awaitable[None]]


def is_remote(job: EngineJob) -> bool:
    return getattr(job.sink.journal, "remote", False)


def backlog_of(job: EngineJob) -> int:
    """Bytes of rows that are settled, and wait to be uploaded."""
    tend: Callable[[], int] | None = getattr(job.sink.journal, "tend", None)
    return tend() if tend is not None else 0


async def tidy(job: EngineJob) -> None:
    """Lets a journal remove what it does not need, when all that was written is committed."""
    tidy: Callable[[], None] | None = getattr(job.sink.journal, "tidy", None)
    if tidy is not None:
        await asyncio.to_thread(tidy)


class Delivery:
    def __init__(
        self,
        delivered: Callable[[EngineJob, Sequence[Settlement]], None],
        failed: Callable[[EngineJob, SinkError, Sequence[Settlement]], None],
        settle: Settle,
    ) -> None:
        self._delivered = delivered
        self._failed = failed
        self._settle = settle
        self._waiting: dict[EngineJob, list[Settlement]] = {}
        self._written: dict[EngineJob, list[Settlement]] = {}  # being written
        self._writers: dict[EngineJob, asyncio.Task[None]] = {}
        self._since: dict[EngineJob, float] = {}
        self._sizes: dict[EngineJob, int] = {}  # bytes of the rows that wait
        self._hurry: dict[EngineJob, asyncio.Event] = {}  # set: what waits is written now

    def __repr__(self) -> str:
        return f"<Delivery: {sum(map(self.held, self._writers))} pages on their way>"

    def __bool__(self) -> bool:
        return bool(self._writers)

    @property
    def since(self) -> float | None:
        """When the oldest batch was handed to its output (the loop's time)."""
        return min(self._since.values(), default=None)

    def waits(self, now: float, long: float) -> dict[EngineJob, float]:
        """The jobs whose rows have waited longer than `long` seconds, and for how long."""
        return {job: now - since for job, since in self._since.items() if now - since > long}

    def held(self, job: EngineJob) -> int:
        """How many of a job's pages wait for their rows."""
        return len(self._waiting.get(job, ())) + len(self._written.get(job, ()))

    def has_room(self, job: EngineJob, slots: int) -> bool:
        """Whether more pages may be claimed for the job. Rows that wait for others need not hold up the fetching."""
        return self.held(job) < (slots * _WAITING if is_remote(job) else slots)

    def leases(self) -> Sequence[Lease]:
        """The leases of all pages whose rows are not written yet."""
        under_way = [*self._written.values(), *self._waiting.values()]
        return [settlement.lease for batch in under_way for settlement in batch]

    def takes(self, job: EngineJob, settlement: Settlement) -> bool:
        """Whether the page is settled by way of this, and not in a round."""
        rows = settlement.rows or any(row.table != ARCHIVE for row in settlement.archived)
        return bool(rows) and (job.sink.writes_first or is_remote(job))

    def hand(self, job: EngineJob, settlement: Settlement) -> None:
        self._waiting.setdefault(job, []).append(settlement)
        size = self._sizes.get(job, 0) + sum(len(row.data) for row in settlement.rows)
        self._sizes[job] = size
        hurry = self._hurry.setdefault(job, asyncio.Event())
        if size >= _LARGE:
            hurry.set()
        if job not in self._writers:
            self._writers[job] = asyncio.create_task(self._write(job))

    def hurry(self) -> None:
        """No page is being fetched: nobody is worth waiting for."""
        for one in self._hurry.values():
            one.set()

    async def _write(self, job: EngineJob) -> None:
        try:
            while self._waiting.get(job):
                if is_remote(job):
                    await self._collect(job)
                batch = self._waiting.pop(job)
                del self._sizes[job]
                self._since[job] = asyncio.get_running_loop().time()
                self._written[job] = batch
                settled = await job.sink.write(batch) if job.sink.writes_first else batch
                if is_remote(job):
                    await self._settle(job, settled)
                    del self._written[job]
                else:
                    del self._written[job]
                    self._delivered(job, settled)
                del self._since[job]
        except SinkError as error:
            self._failed(job, error, [*self._written.pop(job), *self._waiting.pop(job, ())])
        finally:
            self._since.pop(job, None)
            self._sizes.pop(job, None)
            self._hurry.pop(job, None)
            self._writers.pop(job, None)

    async def _collect(self, job: EngineJob) -> None:
        try:
            async with asyncio.timeout(job.settings.upload_delay):
                await self._hurry[job].wait()
        except TimeoutError:
            pass
        self._hurry[job].clear()

    async def stop(self) -> Sequence[Lease]:
        """Cancels all writers and returns the leases of the pages that were not finished. If their rows were written
        after all, they are replaced when the pages are fetched again."""
        writers = list(self._writers.values())
        for writer in writers:
            writer.cancel()
        if writers:
            await asyncio.wait(writers)
        left = self.leases()
        self._written.clear()
        self._waiting.clear()
        return left
