"""Writes rows to sinks that are not files of the frontier. A page is settled only after its rows are written.

Each job has its own writer: a database that is away holds back the pages of its own job only. While a batch is being
written, the next one is collected, so a slow database gets larger batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from shoal.engine.served import EngineJob
from shoal.errors import SinkError
from shoal.model import Lease, Settlement


class Delivery:
    def __init__(
        self,
        delivered: Callable[[EngineJob, Sequence[Settlement]], None],
        failed: Callable[[EngineJob, SinkError, Sequence[Settlement]], None],
    ) -> None:
        self._delivered = delivered
        self._failed = failed
        self._waiting: dict[EngineJob, list[Settlement]] = {}
        self._written: dict[EngineJob, list[Settlement]] = {}  # being written
        self._writers: dict[EngineJob, asyncio.Task[None]] = {}
        self._since: dict[EngineJob, float] = {}

    def __repr__(self) -> str:
        return f"<Delivery: {sum(map(self.held, self._writers))} pages on their way>"

    def __bool__(self) -> bool:
        return bool(self._writers)

    @property
    def since(self) -> float | None:
        """When the oldest batch was handed to its sink (the loop's time)."""
        return min(self._since.values(), default=None)

    def waits(self, now: float, long: float) -> dict[EngineJob, float]:
        """The jobs whose rows have waited longer than `long` seconds, and for how long."""
        return {job: now - since for job, since in self._since.items() if now - since > long}

    def held(self, job: EngineJob) -> int:
        """How many of a job's pages wait for their rows."""
        return len(self._waiting.get(job, ())) + len(self._written.get(job, ()))

    def leases(self) -> Sequence[Lease]:
        """The leases of all pages whose rows are not written yet."""
        under_way = [*self._written.values(), *self._waiting.values()]
        return [settlement.lease for batch in under_way for settlement in batch]

    def hand(self, job: EngineJob, settlement: Settlement) -> None:
        self._waiting.setdefault(job, []).append(settlement)
        if job not in self._writers:
            self._since[job] = asyncio.get_running_loop().time()
            self._writers[job] = asyncio.create_task(self._write(job))

    async def _write(self, job: EngineJob) -> None:
        try:
            while batch := self._waiting.pop(job, None):
                self._since[job] = asyncio.get_running_loop().time()
                self._written[job] = batch
                settled = await job.sink.write(batch)
                del self._written[job]
                self._delivered(job, settled)
        except SinkError as error:
            self._failed(job, error, [*self._written.pop(job), *self._waiting.pop(job, ())])
        finally:
            self._since.pop(job, None)
            self._writers.pop(job, None)

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
