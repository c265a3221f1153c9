"""Browser contexts: who shares cookies, storage and a way to the network.

Every session has a context of its own, by which jars stay apart; pages without a session share one for each proxy,
which is replaced from time to time. A context has a door of the gate to itself. Idle contexts are kept for the next
page, the least recently used of them closed when there are too many.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import CookieJar
from yarl import URL

from shoal.fetch.browser.chromium import Chromium
from shoal.fetch.browser.cookies import SharedCookies, add, cookies_from
from shoal.fetch.browser.gate import Door, Gate
from shoal.fetch.transport import FetchRequest
from shoal.settings import Settings

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

_PAGES = 50  # in a context that strangers share
_KEPT = 12  # contexts at once, besides those with open pages

# Sockets cannot be stopped on their way, as other requests can.
_NO_SOCKETS = "delete globalThis.WebSocket; delete globalThis.WebSocketStream"

Key = tuple[int, CookieJar | None, str]  # browser, session, proxy


class Context:
    def __init__(
        self, key: Key, chromium: Chromium, handle: BrowserContext, door: Door, jar: CookieJar | None
    ) -> None:
        self.key = key
        self.chromium = chromium
        self.handle = handle
        self.door = door
        self.pages = 0  # opened so far
        self.tabs = 0  # open now
        self._cookies = SharedCookies(handle, jar) if jar is not None else None

    def __repr__(self) -> str:
        return f"<Context of {self.chromium.pid}: {self.tabs} tabs, {self.pages} pages, {self.door.url}>"

    async def prepare(self, request: FetchRequest) -> None:
        """Puts in the cookies that the page is to have."""
        if self._cookies is not None:
            await self._cookies.to_context()
        elif request.cookies and request.referrer_url:
            await add(self.handle, cookies_from(request.cookies, request.referrer_url))

    async def save(self) -> None:
        """Gives the session the cookies that the page has set."""
        if self._cookies is not None:
            await self._cookies.to_jar()

    async def close(self) -> None:
        if self.chromium.alive:
            with suppress(Exception):  # it dies with its browser anyway
                async with asyncio.timeout(5):
                    await self.handle.close()
        await self.door.close()


class Contexts:
    def __init__(self, gate: Gate, settings: Settings) -> None:
        self._gate = gate
        self._blocks_sockets = "websocket" in settings.browser_block
        self._pages = _PAGES if settings.cookies else 1
        self._live: dict[Key, Context] = {}  # the least recently used first
        self._leaving: set[Context] = set()  # whose place another has taken, with pages open
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Contexts: {len(self._live)}, {len(self._leaving)} leaving>"

    async def enter(self, chromium: Chromium, request: FetchRequest) -> Context:
        """The context of a page that is about to be opened. Leave it when the page is closed."""
        jar = request.jar if isinstance(request.jar, CookieJar) else None
        if jar is not None and request.cookies and request.referrer_url:
            jar.update_cookies_from_headers(request.cookies, URL(request.referrer_url, encoded=True))
        key = (chromium.pid, jar, request.proxy.name if request.proxy is not None else "")
        async with self._lock:  # two pages of a session do not open two contexts
            context = self._live.pop(key, None)
            if context is not None and self._is_worn(context):
                await self._drop(context)
                context = None
            if context is None:
                context = await self._open(key, chromium, request, jar)
            self._live[key] = context
            context.pages += 1
            context.tabs += 1
            await self._tidy()
        return context

    async def leave(self, context: Context) -> None:
        context.tabs -= 1
        if context in self._leaving and not context.tabs:
            self._leaving.discard(context)
            await context.close()

    async def close(self) -> None:
        async with self._lock:
            contexts = [*self._live.values(), *self._leaving]
            self._live.clear()
            self._leaving.clear()
        for context in contexts:
            await context.close()

    async def _open(
        self, key: Key, chromium: Chromium, request: FetchRequest, jar: CookieJar | None
    ) -> Context:
        door = await self._gate.open(request.proxy)
        try:
            handle = await chromium.context(door)
            if self._blocks_sockets:
                await handle.add_init_script(_NO_SOCKETS)
        except BaseException:
            await door.close()
            raise
        return Context(key, chromium, handle, door, jar)

    def _is_worn(self, context: Context) -> bool:
        return context.key[1] is None and context.pages >= self._pages

    async def _tidy(self) -> None:
        idle = [context for context in self._live.values() if not context.tabs]
        dead = [context for context in idle if not context.chromium.alive]
        rest = [context for context in idle if context.chromium.alive]
        for context in (*dead, *rest[: max(0, len(rest) - _KEPT)]):
            del self._live[context.key]
            await context.close()

    async def _drop(self, context: Context) -> None:
        if context.tabs:
            self._leaving.add(context)
        else:
            await context.close()
