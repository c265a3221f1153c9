"""The pages of hosts that were given up. They are dead letters until the host answers.

A crawl must not last for hours because of a dead host, so the host's pages become dead letters (`host_down`) when it is
given up. While the job still runs, one of them is replayed whenever the host may be probed again. The first answer of
the host, to any page, brings all of them back.
"""

from __future__ import annotations

from typing import TypeVar

from shoal.events import event
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.model import Task

T = TypeVar("T")

KIND = "host_down"
_REMEMBERED = 10_000  # hosts that are probed again
_RECENT = 200  # hosts whose pages have just been brought back


class GivenUpPages:
    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        # By host: when it may be probed again, and the job and id of the task to probe it with.
        self._probes: dict[str, tuple[float, str, int]] = {}
        self._answered: dict[str, None] = {}  # hosts that were given up, and have answered
        # What was replayed, in case the store goes back: tasks whose probe has not ended, and hosts that were not given
        # up again.
        self._probing: dict[str, tuple[float, str, int]] = {}
        self._replayed: dict[str, None] = {}

    def bury(self, task: Task, until: float) -> None:
        """A task of a host that is given up until that time becomes a dead letter."""
        self._probing.pop(task.host, None)
        self._replayed.pop(task.host, None)
        known = self._probes.get(task.host)
        if known is None or known[0] != until:
            _remember(self._probes, task.host, (until, task.job, task.id))

    def answered(self, host: str) -> None:
        self._probes.pop(host, None)
        self._probing.pop(host, None)
        self._answered[host] = None

    def forget(self) -> None:
        """The store may have gone back: what was replayed may be dead again."""
        self._answered |= self._replayed
        self._probes |= self._probing

    async def replay(self) -> None:
        """Replays the pages of hosts that have answered, of all running jobs."""
        while self._answered:
            host, _ = self._answered.popitem()
            _remember(self._replayed, host, None, most=_RECENT)
            for job in await self._frontier.jobs("running"):
                name = job.spec.name
                if count := await self._frontier.replay(DeadFilter(name, host, KIND)):
                    event("letters_replayed", count=count, job=name, host=host, kind=KIND, by="its answer")

    async def probe(self, now: float) -> None:
        """Replays one page of every host that may be probed again, unless the job has nothing else to do."""
        for host, (at, name, id) in list(self._probes.items()):
            if at > now:
                continue
            del self._probes[host]
            job = await self._frontier.job(name)
            if job is not None and job.state == "running" and not job.exhausted:
                _remember(self._probing, host, (at, name, id))
                await self._frontier.replay(DeadFilter(ids=(id,)))


def _remember(known: dict[str, T], host: str, value: T, most: int = _REMEMBERED) -> None:
    if len(known) >= most:
        del known[next(iter(known))]
    known[host] = value
