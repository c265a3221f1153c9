"""The running jobs of a store, looked at once for all who ask in this process.

A store tells when something happens to a job (`frontier/news.py`). So nobody asks for the jobs over and over: they are
read again when there is news, and now and then in case some got lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job

_FRESH = 5.0  # seconds for which what was seen is told again, if there is no news


class Lookout:
    def __init__(self, frontier: Frontier, rng: random.Random | None = None) -> None:
        self._frontier = frontier
        self._rng = rng or random.Random()
        self._running: Sequence[Job] = ()
        self._seen = -1  # the news that there was before the last look …
        self._epoch = ""  # … and of which store
        self._fresh_until = 0.0
        self._looking = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Lookout: {len(self._running)} jobs run>"

    async def running(self) -> Sequence[Job]:
        """As they were a few seconds ago, but with all that was told since; so counters may be that old."""
        async with self._looking:
            news, epoch, now = (
                self._frontier.news.count,
                self._frontier.epoch,
                asyncio.get_running_loop().time(),
            )
            if (news, epoch) != (self._seen, self._epoch) or now >= self._fresh_until:
                self._running = await self._frontier.jobs("running")
                # A fleet that was told at the same time need not ask at the same time for ever.
                self._fresh_until = now + self._rng.uniform(0.8, 1.2) * _FRESH
                self._seen, self._epoch = news, epoch
            return self._running

    async def change(self, seconds: float) -> None:
        """Returns when there is news, at the latest after so many seconds."""
        await self._frontier.news.after(self._seen, seconds)
