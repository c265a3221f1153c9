"""Pages by a browser, behind the protocol of every transport.

    BrowserTransport(settings, guard, clock)

A page is answered as `Rendered`, with its tab open. A redirect, or a document that is no page, is a plain Response;
what went wrong is a Failure, in the same words as without a browser. The browser is started when it is first needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from msgspec.structs import replace
from multidict import CIMultiDict

from shoal.clock import Clock
from shoal.fetch.browser.chromium import LaunchError
from shoal.fetch.browser.contexts import Context, Contexts
from shoal.fetch.browser.gate import Gate
from shoal.fetch.browser.rotation import Browsers
from shoal.fetch.browser.tab import is_gone, plain
from shoal.fetch.browser.visit import CRASHED, Showing
from shoal.fetch.deadline import check_lease
from shoal.fetch.guard import Guard
from shoal.fetch.resolver import Resolver
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome
from shoal.settings import Settings
from shoal.spider.rendering import Rendered

_OPENING = 30.0  # seconds for an empty tab, or the browser hangs
_METHODS = ("GET", "POST")
_NOT_OURS = ("User-Agent", "Host", "Content-Length", "Connection", "Proxy-Authorization")  # to say by header


class BrowserTransport:
    """Must be made inside a running loop, and closed in it."""

    def __init__(
        self, settings: Settings, guard: Guard, clock: Clock, resolver: Resolver | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._gate = Gate(guard, settings, resolver)
        self._browsers = Browsers(settings)
        self._contexts = Contexts(self._gate, settings)
        self._slots = asyncio.Semaphore(settings.browser_tabs)
        self._open: set[Showing] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<BrowserTransport: {len(self._open)} open, {self._browsers}>"

    async def fetch(self, request: FetchRequest) -> Outcome:
        started = self._clock.monotonic()
        outcome = _refusal(request) or await self._fetch(request)
        if isinstance(outcome, Failure):
            return replace(outcome, elapsed=self._clock.monotonic() - started)
        return outcome

    async def close(self) -> None:
        """Closes every tab, and leaves no process behind."""
        await self._browsers.close()  # first: with it all the rest ends, even if it hangs
        while self._tasks or self._open:
            await asyncio.gather(
                *self._tasks, *(showing.end() for showing in self._open), return_exceptions=True
            )
        await self._contexts.close()
        await self._gate.close()

    async def _fetch(self, request: FetchRequest) -> Outcome:
        await self._slots.acquire()
        # Goes on if we are cancelled, so that no half a tab is left open.
        opening = self._spawn(self._opened(request))
        try:
            showing: Showing | Failure = await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._spawn(_end_when_open(opening))
            raise
        if isinstance(showing, Failure):
            return showing
        try:
            check_lease()
            outcome = await showing.load()
        except BaseException:
            self._spawn(showing.end())
            raise
        if not isinstance(outcome, Rendered):
            await showing.end()
        return outcome

    async def _opened(self, request: FetchRequest) -> Showing | Failure:
        """An empty tab; whoever has it must end it."""
        from playwright.async_api import Error

        showing: Showing | None = None
        try:
            showing = await self._show(request)
            await showing.prepare()
            return showing
        except LaunchError as error:
            failure = Failure("browser_crash", str(error))
        except TimeoutError:
            failure = CRASHED
        except Exception as error:
            is_lost = isinstance(error, Error) and is_gone(error)
            failure = CRASHED if is_lost else Failure("unexpected", f"{type(error).__name__}: {plain(error)}")
        if showing is None:
            self._slots.release()
        else:
            await showing.end()
        return failure

    async def _show(self, request: FetchRequest) -> Showing:
        chromium = await self._browsers.take()
        context: Context | None = None
        try:
            async with asyncio.timeout(_OPENING):
                context = await self._contexts.enter(chromium, request)
                return await self._tab(context, request)
        except BaseException as error:
            if isinstance(error, TimeoutError):
                chromium.kill()
            if context is not None:
                await self._contexts.leave(context)
            self._browsers.give_back(chromium)
            raise

    async def _tab(self, context: Context, request: FetchRequest) -> Showing:
        await context.prepare(request)
        page = await context.handle.new_page()
        session = await context.handle.new_cdp_session(page)
        own = CIMultiDict(request.headers or {})
        if agent := own.get("User-Agent"):
            await session.send("Emulation.setUserAgentOverride", {"userAgent": agent})
        headers = CIMultiDict(self._settings.headers)
        headers.update(own)
        for name in _NOT_OURS:
            headers.popall(name, None)
        showing = Showing(request, self._settings, context, page, session, headers, self._release)
        self._open.add(showing)
        return showing

    async def _release(self, showing: Showing) -> None:
        self._open.discard(showing)
        await self._contexts.leave(showing.context)
        self._browsers.give_back(showing.context.chromium)
        self._slots.release()

    def _spawn(self, doing: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _end_when_open(opening: asyncio.Task[Showing | Failure]) -> None:
    showing = await opening
    if isinstance(showing, Showing):
        with suppress(Exception):
            await showing.end()


def _refusal(request: FetchRequest) -> Failure | None:
    if not request.url.startswith(("http://", "https://")):
        return Failure("invalid_url", "not a URL that can be opened")
    if request.method not in _METHODS:
        detail = f"a browser opens pages by GET or POST, not by {request.method}: ask for it in another lane"
        return Failure("invalid_request", detail)
    return None
