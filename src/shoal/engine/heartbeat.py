"""The heartbeat of one process: renews its leases, and reports how it is doing."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Collection

from msgspec.structs import replace

from shoal import __version__
from shoal.engine.tally import RateWindow
from shoal.engine.vitals import Machine
from shoal.frontier import known_layout
from shoal.frontier.protocol import Queue
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.settings import Settings

# Seconds; more often than leases need it, so that viewers are up to date. An idle worker has nothing new to report.
_TELL_EVERY, _TELL_SELDOM = 2.0, 5.0


class Heartbeat:
    def __init__(
        self,
        frontier: Queue,
        name: str,
        settings: Settings,
        status: Callable[[], WorkerStatus],
        tokens: Callable[[], Collection[int]],
        on_renewed: Callable[[float], None],
    ) -> None:
        """`on_renewed` is called after a renewal, with the time at which the store was asked."""
        self._frontier = frontier
        self._name = name
        self._lease = settings.lease
        self._status = status
        self._tokens = tokens  # of the leases that are worked on
        self._on_renewed = on_renewed
        self._machine = Machine(settings.memory_limit)
        self._node = socket.gethostname()
        self._done: Counter[str] = Counter()
        self.told = b""  # the last status
        self._rates: dict[str, RateWindow] = {}

    def done(self, job: str) -> None:
        """One page of the job is done."""
        self._done[job] += 1

    async def run(self) -> None:
        """Runs until it is cancelled, or the store fails."""
        told: WorkerStatus | None = None
        renewed = float("-inf")
        while True:
            status = self._full_status()
            now = asyncio.get_running_loop().time()
            idle = told is not None and not told.at_work and not status.at_work
            due = min(_TELL_SELDOM if idle else _TELL_EVERY, self._lease / 3)
            if now - renewed >= due or told is None or _news(status) != _news(told):
                told, renewed = status, now
                self.told = encode_status(status)
                await self._frontier.extend(self._name, self._lease, self.told, self._tokens())
                self._on_renewed(now)
            left = renewed + due - asyncio.get_running_loop().time()
            await asyncio.sleep(max(due / 10, min(1.0, left)))

    def _full_status(self) -> WorkerStatus:
        return replace(
            self._status(),
            version=__version__,
            layout=known_layout(),
            pid=os.getpid(),
            node=self._node,
            rates=self._measure(),
            memory=self._machine.read().memory,
        )

    def _measure(self) -> dict[str, float]:
        now = asyncio.get_running_loop().time()
        rates = {job: self._rates.setdefault(job, RateWindow()).add(now, n) for job, n in self._done.items()}
        return {job: round(rate, 2) for job, rate in rates.items() if rate}


def _news(status: WorkerStatus) -> object:
    """The part of the status that other processes need at once."""
    return status.pressure, status.jobs
