"""What an engine needs of the jobs it serves: their pages, their sinks, and whether there may be more work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shoal.errors import HandlerMissing, SessionKeyError, SinkError
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.model import Lease, Settlement
from shoal.policy.lanes import Lane, served
from shoal.settings import Settings
from shoal.sink import Sink


class Pages(Protocol):
    """Turns leases into settlements; see `pipeline.py`."""

    async def process(self, lease: Lease) -> Settlement | None: ...

    def complete(self, settlement: Settlement) -> Settlement:
        """The settlement to settle now. If `forget` was called since it was made, it includes links that were skipped
        as known."""
        ...

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        """Called after the commit. Not accepted: the lease was lost, and nothing of the settlement counts."""
        ...

    async def forget(self) -> None:
        """The store may have gone back: what was read from it may be wrong."""
        ...

    def sync(self, frontier_time: float) -> None: ...

    async def flush(self) -> None:
        """Writes what was learnt about hosts and changes their valves."""
        ...

    async def write_back(self, *, everything: bool = False) -> None:
        """Writes the rest, if it is due, or everything."""
        ...


class EngineJob(Protocol):
    """One job, as the engine sees it. Compared by identity: a job may be opened again while pages of the former one are
    in flight."""

    @property
    def name(self) -> str: ...

    @property
    def made_at(self) -> float:
        """When the job was made, which tells it from another job of the same name. 0: not known."""
        ...

    @property
    def settings(self) -> Settings: ...

    @property
    def pages(self) -> Pages: ...

    @property
    def sink(self) -> Sink: ...


class EngineJobs(Protocol):
    def current(self) -> Sequence[EngineJob]:
        """The jobs to claim for."""
        ...

    def everyone(self) -> Sequence[EngineJob]:
        """Also the jobs that only finish the pages in flight."""
        ...

    def lanes(self) -> Mapping[str, Lane]:
        """The lanes to claim from; the same object until they change."""
        ...

    async def over(self) -> bool:
        """Whether no more work will come. Called when nothing is in flight."""
        ...

    async def records(self) -> Sequence[Job]:
        """The records of the current jobs; they may be some seconds old."""
        ...

    def set_aside(self, job: EngineJob, error: SinkError | HandlerMissing | SessionKeyError) -> bool:
        """Stops a job whose rows cannot be written, or whose pages cannot be fetched or handled. Whether the engine can
        go on."""
        ...


class OneJob:
    """The one job of `shoal crawl`. The engine ends with it."""

    def __init__(self, frontier: Frontier, job: EngineJob, settings: Settings) -> None:
        self._frontier = frontier
        self._all = (job,)
        self._lanes = served(settings)
        self._once = settings.once  # ends when nothing is due
        self.trouble: HandlerMissing | None = None  # why nothing more is claimed

    def current(self) -> Sequence[EngineJob]:
        return self._all if self.trouble is None else ()

    def everyone(self) -> Sequence[EngineJob]:
        return self._all

    def lanes(self) -> Mapping[str, Lane]:
        return self._lanes

    async def over(self) -> bool:
        """Whether the job is marked as finished; marks it if nothing is left. What others add before that is crawled by
        this process. A job of the same name that was made since is another job."""
        mine = self._all[0]
        if self.trouble is not None:
            return True
        while (job := await self._frontier.job(mine.name)) is not None and job.state == "running":
            if mine.made_at not in (0.0, job.created_at):
                return True
            if not job.exhausted:
                return self._once and job.idle
            if await self._frontier.finish(mine.name):
                return True  # otherwise another process has finished it, or added to it
        return True

    async def records(self) -> Sequence[Job]:
        job = await self._frontier.job(self._all[0].name)
        return [job] if job is not None else []

    def set_aside(self, job: EngineJob, error: SinkError | HandlerMissing | SessionKeyError) -> bool:
        """If only a handler is missing, the pages in flight can still be finished."""
        if isinstance(error, HandlerMissing):
            self.trouble = self.trouble or error
            return True
        return False
