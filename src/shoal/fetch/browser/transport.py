"""A transport that opens pages in a browser, which it starts when it is first needed.

A page becomes `Rendered`, with its tab open. A redirect, or a document that is not a page, is a plain Response; an
error is a Failure of the same kinds as without a browser.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from multidict import CIMultiDict

from shoal.clock import Clock
from shoal.fetch.browser.chromium import LaunchError
from shoal.fetch.browser.contexts import Context, Contexts
from shoal.fetch.browser.gate import Gate
from shoal.fetch.browser.navigation import Navigation
from shoal.fetch.browser.page_network import rendered
from shoal.fetch.browser.rotation import Browsers
from shoal.fetch.browser.tab import OpenTab, is_gone, plain
from shoal.fetch.deadline import check_lease
from shoal.fetch.guard import Guard
from shoal.fetch.resolver import Resolver
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome
from shoal.settings import Settings
from shoal.spider import debugging
from shoal.spider.rendering import Rendered, TabTimeout

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page


_OPENING = 30.0  # seconds for an empty tab, or the browser hangs
_METHODS = ("GET", "POST")
_NOT_OURS = (
    "User-Agent",
    "Host",
    "Content-Length",
    "Connection",
    "Proxy-Authorization",
)  # Chromium sets them


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
        self._open: set[OpenPage] = set()
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
        await self._browsers.close()  # first: with it everything else ends, even if it hangs
        while self._tasks or self._open:
            await asyncio.gather(*self._tasks, *(page.end() for page in self._open), return_exceptions=True)
        await self._contexts.close()
        await self._gate.close()

    async def _fetch(self, request: FetchRequest) -> Outcome:
        await self._slots.acquire()
        # Goes on if we are cancelled, so that no tab is left half open.
        opening = self._spawn(self._opened(request))
        try:
            page: OpenPage | Failure = await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._spawn(_end_when_open(opening))
            raise
        if isinstance(page, Failure):
            return page
        try:
            check_lease(asyncio.get_running_loop().time())
            outcome = await page.load()
        except BaseException:
            self._spawn(page.end())
            raise
        if not isinstance(outcome, Rendered):
            await page.end()
        return outcome

    async def _opened(self, request: FetchRequest) -> OpenPage | Failure:
        """An empty tab; the caller must end it."""
        from playwright.async_api import Error

        page: OpenPage | None = None
        try:
            page = await self._open_page(request)
            await page.prepare()
            return page
        except LaunchError as error:
            failure = Failure("browser_crash", str(error))
        except TimeoutError:
            failure = CRASHED
        except Exception as error:
            is_lost = isinstance(error, Error) and is_gone(error)
            failure = CRASHED if is_lost else Failure("unexpected", f"{type(error).__name__}: {plain(error)}")
        if page is None:
            self._slots.release()
        else:
            await page.end()
        return failure

    async def _open_page(self, request: FetchRequest) -> OpenPage:
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

    async def _tab(self, context: Context, request: FetchRequest) -> OpenPage:
        await context.prepare(request)
        tab = await context.handle.new_page()
        session = await context.handle.new_cdp_session(tab)
        own = CIMultiDict(request.headers or {})
        if agent := own.get("User-Agent"):
            await session.send("Emulation.setUserAgentOverride", {"userAgent": agent})
        headers = CIMultiDict(self._settings.headers)
        headers.update(own)
        for name in _NOT_OURS:
            headers.popall(name, None)
        page = OpenPage(request, self._settings, context, tab, session, headers, self._release)
        self._open.add(page)
        return page

    async def _release(self, page: OpenPage) -> None:
        self._open.discard(page)
        await self._contexts.leave(page.context)
        self._browsers.give_back(page.context.chromium)
        self._slots.release()

    def _spawn(self, doing: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _end_when_open(opening: asyncio.Task[OpenPage | Failure]) -> None:
    page = await opening
    if isinstance(page, OpenPage):
        with suppress(Exception):
            await page.end()


def _refusal(request: FetchRequest) -> Failure | None:
    if not request.url.startswith(("http://", "https://")):
        return Failure("invalid_url", "not a URL that can be opened")
    if request.method not in _METHODS:
        detail = f"a browser opens pages by GET or POST, not by {request.method}: ask for it in another lane"
        return Failure("invalid_request", detail)
    return None


# -- one page


_PATIENCE = 8.0  # seconds for a page to fall silent
_CLOSING = 5.0

CRASHED = Failure("browser_crash", "the browser or its tab died with the page open")


class OpenPage:
    """One page in a browser, from the empty tab to its end. `release` is awaited once, when the tab is closed."""

    def __init__(
        self,
        request: FetchRequest,
        settings: Settings,
        context: Context,
        page: Page,
        session: CDPSession,
        headers: Mapping[str, str],
        release: Callable[[OpenPage], Awaitable[None]],
    ) -> None:
        self._request = request
        self.context = context
        self._page = page
        self._release = release
        self._total = settings.total_timeout if request.total_timeout is None else request.total_timeout
        self._wait = (request.rendering.wait if request.rendering else "") or settings.browser_wait
        self._missing = ""  # the selector that is waited for
        self._navigation = Navigation(session, context.door, request, headers, settings)
        self._tab = OpenTab(
            page,
            session,
            self._navigation.traffic,
            found_at=request.url,
            cap=self._navigation.cap,
            handler_timeout=settings.handler_timeout,
            close=self.end,
        )
        self._loop = asyncio.get_running_loop()
        self._paused = debugging.paused()
        self._last_call = self._loop.call_later(self._total + settings.handler_timeout, self._expire)
        self._ending: asyncio.Task[None] | None = None
        page.on("crash", lambda _: self._navigation.end(CRASHED))
        page.on("close", lambda _: self._navigation.end(CRASHED))
        page.on("popup", self._refuse)

    async def prepare(self) -> None:
        await self._navigation.start()

    async def load(self) -> Outcome:
        """Opens the page: a Rendered whose tab stays open, or another outcome."""
        started = self._loop.time()
        going = self._loop.create_task(self._go(started))
        verdict = self._navigation.verdict
        try:
            async with asyncio.timeout(self._total):
                await asyncio.wait({going, verdict}, return_when=asyncio.FIRST_COMPLETED)
                return verdict.result() if verdict.done() else await going
        except TimeoutError:
            return self._too_late()
        finally:
            going.cancel()
            await asyncio.wait({going})

    async def end(self) -> None:
        """Closes the tab. May be called more than once."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())
        await asyncio.shield(self._ending)

    # -- opening

    async def _go(self, started: float) -> Outcome:
        from playwright.async_api import Error

        try:
            await self._navigate()
            self._tab.frame = self._navigation.frame
            if (failure := await self._complete(started)) is not None:
                return failure
            html = await self._tab.html()
        except Error as error:
            return CRASHED if is_gone(error) else self._navigation.failure(str(error))
        except ConnectionError:
            return CRASHED
        except TabTimeout as error:
            return Failure("browser_wait", str(error), status=self._navigation.status)
        except ValueError as error:
            return Failure("too_large", str(error), status=self._navigation.status)
        return await self._rendered(html, started)

    async def _navigate(self) -> None:
        from playwright.async_api import Error

        self._navigation.begin()
        try:
            await self._page.goto(self._request.url, wait_until="commit", timeout=0)
        except Error as error:
            if "interrupted by another navigation" not in str(error):  # a script of the page was quicker
                raise
        await self._page.wait_for_load_state("domcontentloaded", timeout=0)

    async def _complete(self, started: float) -> Failure | None:
        """Waits until the page counts as complete. An error page only has to become quiet."""
        if self._wait == "load":
            await self._page.wait_for_load_state("load", timeout=0)
        elif self._wait == "quiet" or self._navigation.status >= 400:
            rest = started + self._total - self._loop.time()
            await self._tab.quiet(min(_PATIENCE, rest / 2))
        else:
            return await self._appears()
        return None

    async def _appears(self) -> Failure | None:
        from playwright.async_api import Error

        self._missing = self._wait
        try:
            await self._tab.appears(self._wait)
        except Error as error:
            if is_gone(error):
                raise
            return Failure("invalid_request", f"wait for {self._wait!r}: {plain(error)}")
        self._missing = ""
        return None

    def _too_late(self) -> Failure:
        status, within = self._navigation.status or None, f"within {self._total:g} s"
        if self._missing:
            return Failure("browser_wait", f"nothing matched {self._missing!r} {within}", status=status)
        return Failure("timeout", f"not complete {within}", status=status)

    async def _rendered(self, html: str, started: float) -> Outcome:
        navigation = self._navigation
        body = html.encode("utf-8", "replace")
        if len(body) > navigation.cap:
            detail = f"the document has more than {navigation.cap} bytes; raise max_body to take it"
            return Failure("too_large", detail, status=navigation.status)
        with suppress(Exception):
            await self.context.save()
        navigation.let_go()
        return Rendered(
            url=self._tab.url,
            status=navigation.status,
            headers=rendered(navigation.headers),
            body=body,
            elapsed=self._loop.time() - started,
            first_byte=navigation.first_byte,
            wire_bytes=navigation.traffic.received,
            tab=self._tab,
        )

    # -- ending

    async def _end(self) -> None:
        self._last_call.cancel()
        chromium = self.context.chromium
        try:
            if chromium.alive:
                async with asyncio.timeout(_CLOSING):
                    with suppress(Exception):
                        await self.context.save()
                    await self._page.close()
        except Exception:
            if chromium.alive:
                chromium.kill()  # a tab that cannot be closed would stay open
        finally:
            await self._navigation.close()  # last: it would release requests that it blocks
            await self._release(self)

    def _expire(self) -> None:
        paused, self._paused = self._paused, debugging.paused()
        if self._paused > paused:  # a person was in a debugger
            self._last_call = self._loop.call_later(self._paused - paused, self._expire)
            return
        self._tab.why_closed = "it was open for longer than total_timeout and handler_timeout allow"
        self._ending = self._ending or self._loop.create_task(self._end())

    def _refuse(self, popup: Page) -> None:
        self._navigation.do(popup.close())
