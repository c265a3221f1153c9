"""Whose limits count at a host: those of the jobs that have work there.

Several jobs may crawl a host, and the strictest of what they allow holds. A job that has ended, that nobody works on,
or that has no page left there must not hold the others up.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.frontier.protocol import Frontier
from shoal.hosts.state import HostState
from shoal.jobs.worker_status import status_of

_LOOK_AGAIN = 5.0  # seconds for which it is known who works
# A word counts for so long in any case, while its job runs: its worker may not have been heard of yet, or have the last
# pages of the host in hand.
_FRESH = 60.0


class OtherJobs:
    """The jobs that crawl the same hosts as ours."""

    def __init__(self, frontier: Frontier, job: str) -> None:
        self._frontier = frontier
        self._job = job
        self._running: set[str] = set()
        self._worked_on: set[str] = set()
        self._known_at: float | None = None
        self._looked: dict[str, float] = {}  # hosts, and when it was looked who has work there

    async def silent(self, host: str, state: HostState, now: float) -> set[str]:
        """Jobs that have said what they allow on the host, and whose word counts no more."""
        others = state.asks.keys() - {self._job}
        if not others:
            return set()
        await self._look(now)
        silent = {job for job in others if job not in self._running}
        old = {job for job in others - silent if now - state.asks[job].at >= _FRESH}
        silent |= old - self._worked_on
        if (old := old - silent) and now - self._looked.get(host, 0.0) >= _FRESH:
            self._forget(now)
            self._looked[host] = now
            silent |= await self._without_work(host, old)
        return silent

    async def _look(self, now: float) -> None:
        if self._known_at is not None and now - self._known_at < _LOOK_AGAIN:
            return
        self._known_at = now
        self._running = {job.spec.name for job in await self._frontier.jobs("running")}
        statuses = [status_of(worker) for worker in await self._frontier.workers()]
        self._worked_on = {job for job in self._running if any(status.serves(job) for status in statuses)}

    async def _without_work(self, host: str, jobs: Iterable[str]) -> set[str]:
        queues = await self._frontier.host_queues(host)
        return set(jobs) - {queue.job for queue in queues if queue.pending or queue.delayed}

    def _forget(self, now: float) -> None:
        while self._looked and now - next(iter(self._looked.values())) >= _FRESH:
            del self._looked[next(iter(self._looked))]
