"""What an engine asks of the jobs it serves: their pages, their sinks, and whether any work may still come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shoal.errors import HandlerMissing, SinkError
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.model import Lease, Settlement
from shoal.policy.lanes import Lane, served
from shoal.settings import Settings
from shoal.sink.protocol import Sink


class Pages(Protocol):
    """Whoever turns leases into settlements; see `pipeline.py`."""

    async def process(self, lease: Lease) -> Settlement | None: ...

    def complete(self, settlement: Settlement) -> Settlement:
        """The settlement as it is to be settled now: if `forget` came since it was made, with the links too that were
        left out as known."""
        ...

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        """Told after the commit. Not accepted: the lease was lost, and nothing of it counts."""
        ...

    async def forget(self) -> None:
        """The store may have gone back: what it said before need not be so."""
        ...

    def sync(self, frontier_time: float) -> None: ...

    async def flush(self) -> None:
        """Writes what was learnt about hosts and moves their valves."""
        ...

    async def write_back(self, *, everything: bool = False) -> None:
        """Writes the rest, when it is time, or everything."""
        ...


class EngineJob(Protocol):
    """One job, as far as an engine is concerned. Compared by identity: a job may be opened anew while pages of its
    former self are still in flight."""

    @property
    def name(self) -> str: ...

    @property
    def made_at(self) -> float:
        """When the job was made: another one of the same name is another job. 0: not known."""
        ...

    @property
    def settings(self) -> Settings: ...

    @property
    def pages(self) -> Pages: ...

    @property
    def sink(self) -> Sink: ...


class EngineJobs(Protocol):
    def current(self) -> Sequence[EngineJob]:
        """Those to claim for."""
        ...

    def everyone(self) -> Sequence[EngineJob]:
        """Those too that only finish what they have in flight."""
        ...

    def lanes(self) -> Mapping[str, Lane]:
        """The lanes to claim from; the same object until they change."""
        ...

    async def over(self) -> bool:
        """Asked when nothing is in flight: whether no work will come any more."""
        ...

    async def records(self) -> Sequence[Job]:
        """What the store says of the current ones; it may be some seconds old."""
        ...

    def set_aside(self, job: EngineJob, error: SinkError | HandlerMissing) -> bool:
        """The job's rows cannot be written, or its pages not be handled. Whether this engine can go on without it."""
        ...


class OneJob:
    """The case of `shoal crawl`: one job, and the end when it has ended."""

    def __init__(self, frontier: Frontier, job: EngineJob, settings: Settings) -> None:
        self._frontier = frontier
        self._all = (job,)
        self._lanes = served(settings)
        self.trouble: HandlerMissing | None = None  # why nothing more is claimed

    def current(self) -> Sequence[EngineJob]:
        return self._all if self.trouble is None else ()

    def everyone(self) -> Sequence[EngineJob]:
        return self._all

    def lanes(self) -> Mapping[str, Lane]:
        return self._lanes

    async def over(self) -> bool:
        """When it is marked as finished: what somebody adds before that is crawled by this process. One that was made
        anew by somebody else is another job."""
        mine = self._all[0]
        if self.trouble is not None:
            return True
        while (job := await self._frontier.job(mine.name)) is not None and job.state == "running":
            if mine.made_at not in (0.0, job.created_at):
                return True
            if not job.exhausted:
                return False
            if await self._frontier.finish(mine.name):
                return True  # else somebody was quicker: to finish it, or to add to it
        return True

    async def records(self) -> Sequence[Job]:
        job = await self._frontier.job(self._all[0].name)
        return [job] if job is not None else []

    def set_aside(self, job: EngineJob, error: SinkError | HandlerMissing) -> bool:
        """What is in flight can still be finished, if only a handler is missing."""
        if isinstance(error, HandlerMissing):
            self.trouble = self.trouble or error
            return True
        return False
