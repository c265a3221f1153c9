"""One page in a browser, from the empty tab to its end, with everything that it occupies meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.fetch.browser.answers import rendered
from shoal.fetch.browser.contexts import Context
from shoal.fetch.browser.navigation import Steering
from shoal.fetch.browser.tab import OpenTab, is_gone, plain
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome
from shoal.settings import Settings
from shoal.spider.rendering import Rendered, TabTimeout

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

_PATIENCE = 8.0  # seconds for a page to fall silent
_CLOSING = 5.0

CRASHED = Failure("browser_crash", "the browser or its tab died with the page open")


class Showing:
    """`release` is awaited once, when the tab is closed."""

    def __init__(
        self,
        request: FetchRequest,
        settings: Settings,
        context: Context,
        page: Page,
        session: CDPSession,
        headers: Mapping[str, str],
        release: Callable[[Showing], Awaitable[None]],
    ) -> None:
        self._request = request
        self.context = context
        self._page = page
        self._release = release
        self._total = settings.total_timeout if request.total_timeout is None else request.total_timeout
        self._wait = (request.rendering.wait if request.rendering else "") or settings.browser_wait
        self._missing = ""  # what is waited for
        self._steering = Steering(session, context.door, request, headers, settings)
        self._tab = OpenTab(
            page,
            session,
            self._steering.wire,
            found_at=request.url,
            cap=self._steering.cap,
            handler_timeout=settings.handler_timeout,
            close=self.end,
        )
        self._loop = asyncio.get_running_loop()
        self._last_call = self._loop.call_later(self._total + settings.handler_timeout, self._expire)
        self._ending: asyncio.Task[None] | None = None
        page.on("crash", lambda _: self._steering.end(CRASHED))
        page.on("close", lambda _: self._steering.end(CRASHED))
        page.on("popup", self._refuse)

    async def prepare(self) -> None:
        await self._steering.start()

    async def load(self) -> Outcome:
        """Opens the page. What is answered with is a Rendered whose tab is this one, or ends it."""
        started = self._loop.time()
        going = self._loop.create_task(self._go(started))
        verdict = self._steering.verdict
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
            self._tab.frame = self._steering.frame
            if (failure := await self._complete(started)) is not None:
                return failure
            html = await self._tab.html()
        except Error as error:
            return CRASHED if is_gone(error) else self._steering.failure(str(error))
        except ConnectionError:
            return CRASHED
        except TabTimeout as error:
            return Failure("browser_wait", str(error), status=self._steering.status)
        except ValueError as error:
            return Failure("too_large", str(error), status=self._steering.status)
        return await self._rendered(html, started)

    async def _navigate(self) -> None:
        from playwright.async_api import Error

        self._steering.begin()
        try:
            await self._page.goto(self._request.url, wait_until="commit", timeout=0)
        except Error as error:
            if "interrupted by another navigation" not in str(error):  # a script of the page was quicker
                raise
        await self._page.wait_for_load_state("domcontentloaded", timeout=0)

    async def _complete(self, started: float) -> Failure | None:
        """Waits until the page counts as complete. Of an error page no more is asked than that it falls silent."""
        if self._wait == "load":
            await self._page.wait_for_load_state("load", timeout=0)
        elif self._wait == "quiet" or self._steering.status >= 400:
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
        status, within = self._steering.status or None, f"within {self._total:g} s"
        if self._missing:
            return Failure("browser_wait", f"nothing matched {self._missing!r} {within}", status=status)
        return Failure("timeout", f"not complete {within}", status=status)

    async def _rendered(self, html: str, started: float) -> Outcome:
        steering = self._steering
        body = html.encode("utf-8", "replace")
        if len(body) > steering.cap:
            detail = f"the document has more than {steering.cap} bytes; raise max_body to take it"
            return Failure("too_large", detail, status=steering.status)
        with suppress(Exception):
            await self.context.save()
        steering.let_go()
        return Rendered(
            url=self._tab.url,
            status=steering.status,
            headers=rendered(steering.headers),
            body=body,
            elapsed=self._loop.time() - started,
            first_byte=steering.first_byte,
            wire_bytes=steering.wire.received,
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
                chromium.kill()  # a tab that cannot be closed would stay for ever
        finally:
            await self._steering.close()  # last: a request that it holds back would be let go
            await self._release(self)

    def _expire(self) -> None:
        self._tab.why_closed = "it was open for longer than total_timeout and handler_timeout allow"
        self._ending = self._ending or self._loop.create_task(self._end())

    def _refuse(self, popup: Page) -> None:
        self._steering.do(popup.close())
