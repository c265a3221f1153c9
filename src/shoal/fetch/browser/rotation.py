"""Starts the browser, and replaces it after a number of pages, above an amount of memory, or when it has died.

The new browser starts first; the old one ends when its last tab is closed. There are never more than two. A browser
that grows far beyond its limit is killed, and its pages are tried again in the next one. A browser that is idle for a
while ends: a worker may run for weeks and see few pages that need it.
"""

from __future__ import annotations

import asyncio

from multidict import CIMultiDict

from shoal.events import event
from shoal.fetch.browser.chromium import Chromium, LaunchError
from shoal.fetch.browser.executable import find_chromium, why_not
from shoal.settings import Settings

_LOOK = 2.0  # seconds between looks at the memory: 20 ms each on an idle machine, 50 ms on a busy one
_FAR = 1.5  # times browser_memory
_IDLE = 120.0  # seconds without a tab


class Browsers:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._user_agent = CIMultiDict(settings.headers).get("User-Agent", settings.user_agent)
        self._current: Chromium | None = None
        self._former: Chromium | None = None
        self._started: set[Chromium] = set()  # also dead ones, until they are cleaned up
        self._lock = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._is_closed = False
        self._used_at = 0.0  # the loop's time

    def __repr__(self) -> str:
        return f"<Browsers: {self._current or 'none'}{', one ending' if self._former else ''}>"

    async def take(self) -> Chromium:
        """A browser for one page. Raises LaunchError. Call `give_back` when the page's tab is closed."""
        async with self._lock:  # all wait for the same start
            if self._is_closed:
                raise LaunchError("the crawl is ending")
            if self._is_due():
                await self._replace()
            current = self._current
            assert current is not None
            current.pages += 1
            current.tabs += 1
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        return current

    def give_back(self, chromium: Chromium) -> None:
        self._used_at = asyncio.get_running_loop().time()
        chromium.tabs -= 1
        if chromium is self._former and not chromium.tabs:
            self._end_former()

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        self._is_closed = True
        async with self._lock:
            if self._started:
                await asyncio.wait([chromium.close() for chromium in self._started])
            self._current = self._former = None

    # -- replacing

    def _is_due(self) -> bool:
        if self._current is None or not self._current.alive:
            return True
        has_room = self._former is None or not self._former.alive
        return has_room and bool(self._why_worn(self._current))

    def _why_worn(self, chromium: Chromium) -> str:
        settings = self._settings
        if chromium.pages >= settings.browser_pages:
            return f"{chromium.pages} pages"
        if settings.browser_memory and chromium.memory > settings.browser_memory:
            return f"{chromium.memory >> 20} MB"
        return ""

    async def _replace(self) -> None:
        path = find_chromium(self._settings)
        if path is None:
            raise LaunchError(why_not(self._settings))
        try:
            fresh = await Chromium.start(path, self._user_agent)
        except LaunchError as error:
            event("browser_lost", pid=0, reason=str(error))
            raise
        fresh.on_lost = lambda: event("browser_lost", pid=fresh.pid, reason="it ended by itself")
        event("browser_started", pid=fresh.pid, path=str(path))
        self._started = {fresh, *(chromium for chromium in self._started if not chromium.ended)}
        former, self._current = self._current, fresh
        if former is None or not former.alive:
            return
        event("browser_recycled", pid=former.pid, reason=self._why_worn(former), pages=former.pages)
        self._former = former
        if not former.tabs:
            self._end_former()

    def _end_former(self) -> None:
        assert self._former is not None
        former, self._former = self._former, None
        former.close()

    # -- time and memory

    async def _end_idle(self) -> None:
        if asyncio.get_running_loop().time() - self._used_at < _IDLE:
            return
        async with self._lock:
            if self._current is not None and not self._current.tabs:
                idle, self._current = self._current, None
                event("browser_recycled", pid=idle.pid, reason="not used for a while", pages=idle.pages)
                await asyncio.wait([idle.close()])

    async def _watch(self) -> None:
        limit = self._settings.browser_memory * _FAR
        while True:
            await asyncio.sleep(_LOOK)
            await self._end_idle()
            for chromium in (self._current, self._former):
                if chromium is not None and chromium.alive and chromium.tabs:
                    await chromium.measure()
                    if limit and chromium.memory > limit:
                        self._kill(chromium)

    def _kill(self, chromium: Chromium) -> None:
        reason = f"killed at {chromium.memory >> 20} MB, far above browser_memory"
        chromium.on_lost = lambda: event("browser_lost", pid=chromium.pid, reason=reason)
        chromium.kill()
