"""News of jobs: one was opened, fed to its end, changed its state or was dropped. News is counted, so that a caller can
wait for more than it knows."""

from __future__ import annotations

import asyncio

_POLL = 0.7  # seconds


class News:
    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def __repr__(self) -> str:
        return f"<News: {self.count}>"

    def tell(self) -> None:
        self.count += 1
        self._more.set()
        self._more = asyncio.Event()

    async def after(self, count: int, seconds: float) -> None:
        """Returns when the count is another one, at the latest after `seconds`."""
        if self.count != count:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._more.wait()
        except TimeoutError:
            pass


class UnheardNews(News):
    """For a home that does not hear of other processes: it polls, so there may be news at any time."""

    async def after(self, count: int, seconds: float) -> None:
        await super().after(count, min(seconds, _POLL))
        if self.count == count:
            self.tell()
