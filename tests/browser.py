"""What tests of the browser lane share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Error

from integration.raw_server import page
from shoal.clock import SystemClock
from shoal.fetch.browser.chromium import Chromium
from shoal.fetch.browser.executable import available, why_not
from shoal.fetch.browser.gate import Door
from shoal.fetch.browser.transport import BrowserTransport
from shoal.fetch.guard import Guard
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Response
from shoal.settings import Settings
from shoal.spider.rendering import Rendered, Rendering

ALLOWED = ["127.0.0.0/29"]  # 127.0.0.1 … 127.0.0.7
FORBIDDEN = "127.0.0.20"


@asynccontextmanager
async def browser(**settings: Any) -> AsyncIterator[BrowserTransport]:
    given = Settings(**{"total_timeout": 60.0, "browser_wait": "load", **settings})
    if not available(given):
        pytest.skip(why_not(given))  # under CI that is a failure
    transport = BrowserTransport(given, Guard(ALLOWED), SystemClock())
    try:
        yield transport
    finally:
        await transport.close()


class _Borrowed(Chromium):
    """Ends with the crawl that uses it, but its browser does not."""

    def __init__(self, real: Chromium) -> None:
        super().__init__(real._playwright, real._browser, real.processes)
        self._opened: list[BrowserContext] = []

    async def context(self, door: Door) -> BrowserContext:
        self._opened.append(await super().context(door))
        return self._opened[-1]

    async def _close(self) -> None:
        for context in self._opened:
            with suppress(Error):  # closed already
                await context.close()


@asynccontextmanager
async def kept_browser() -> AsyncIterator[None]:
    """The crawls and transports of this event loop use one browser: to start it takes more than most of their pages."""
    home, start, started = asyncio.get_running_loop(), Chromium.start, dict[tuple[Path, str], Chromium]()

    async def borrow(path: Path, user_agent: str) -> Chromium:
        if asyncio.get_running_loop() is not home:
            return await start(path, user_agent)
        real = started.get((path, user_agent))
        if real is None or not real.alive:
            real = started[path, user_agent] = await start(path, user_agent)
        return _Borrowed(real)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chromium, "start", borrow)
        yield
    for real in started.values():
        await real.close()


def html(text: str, status: str = "200 OK", **headers: str) -> bytes:
    return page(text.encode(), status, Content_Type="text/html", **headers)


async def shown(transport: BrowserTransport, url: str, wait: str = "", **fields: Any) -> Rendered:
    """A page whose tab is open."""
    outcome = await transport.fetch(FetchRequest(url, rendering=Rendering(wait), **fields))
    assert isinstance(outcome, Rendered), outcome
    assert outcome.tab is not None
    return outcome


async def text_of(transport: BrowserTransport, url: str, wait: str = "", **fields: Any) -> str:
    """A page's document; its tab is closed."""
    answer = await shown(transport, url, wait, **fields)
    await answer.close()
    return answer.body.decode()


async def plain(transport: BrowserTransport, url: str, **fields: Any) -> Response:
    """An answer that is no page in a tab."""
    outcome = await transport.fetch(FetchRequest(url, rendering=Rendering(), **fields))
    assert isinstance(outcome, Response), outcome
    assert not isinstance(outcome, Rendered)
    return outcome


async def failure(transport: BrowserTransport, url: str, wait: str = "", **fields: Any) -> Failure:
    outcome = await transport.fetch(FetchRequest(url, rendering=Rendering(wait), **fields))
    assert isinstance(outcome, Failure), outcome
    assert outcome.detail
    assert "\n" not in outcome.detail
    return outcome


async def until(met: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
