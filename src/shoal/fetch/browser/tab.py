"""An open tab, as a handler uses it. Every error message is one line that names the call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shoal.fetch.browser.page_network import PageTraffic
from shoal.spider.rendering import TabLost, TabTimeout

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

_PATIENCE = 10.0  # seconds for an element to appear, at most
_GROWTH = 3.0  # seconds for a page to grow after it was scrolled
_MOST_TEXT = 120  # characters of a script that a message shows
_TRIES = 20
# Runs in an isolated world, where the page's scripts have changed nothing.
_DOCUMENT = """(cap => {
  const root = Document.prototype.querySelector.call(document, ":root");
  const type = Object.getOwnPropertyDescriptor(Document.prototype, "doctype").get.call(document);
  const html = (type ? new XMLSerializer().serializeToString(type) : "") + (root ? root.outerHTML : "");
  return html.length > cap ? html.length : html;
})(%d)"""


class OpenTab:
    """Implements `rendering.Tab`."""

    def __init__(
        self,
        page: Page,
        session: CDPSession,
        traffic: PageTraffic,
        *,
        found_at: str,
        cap: int,
        handler_timeout: float,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.why_closed = "the browser or its tab is gone"
        self.frame = ""  # the main one, known once the page has been asked for
        self._page = page
        self._found_at = found_at
        self._session = session
        self._traffic = traffic
        self._cap = cap
        self._patience = min(_PATIENCE, handler_timeout / 2)
        self._close = close

    def __repr__(self) -> str:
        return f"<OpenTab {self.url}>"

    @property
    def url(self) -> str:
        """The page's URL; the one it was opened at, if a script shows about: or blob:."""
        now = self._page.url
        return now if now.startswith(("http://", "https://")) else self._found_at

    async def html(self) -> str:
        with self._plain_errors("the document"):
            return await self._document()

    async def click(self, selector: str) -> None:
        with self._plain_errors(f"click({selector!r})"):
            await self._page.locator(f"css={selector}").first.click(timeout=self._patience * 1000)

    async def fill(self, selector: str, text: str) -> None:
        with self._plain_errors(f"fill({selector!r}, …)"):
            await self._page.locator(f"css={selector}").first.fill(text, timeout=self._patience * 1000)

    async def press(self, key: str) -> None:
        with self._plain_errors(f"press({key!r})"):
            await self._page.keyboard.press(key)

    async def scroll(self, times: int = 1) -> None:
        with self._plain_errors("scroll()"):
            for _ in range(times):
                await self._page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
                await self.quiet(_GROWTH)

    async def evaluate(self, script: str) -> Any:
        with self._plain_errors(f"evaluate({script[:_MOST_TEXT]!r})"):
            return await self._page.evaluate(script)

    async def wait_for(self, condition: str) -> None:
        with self._plain_errors(f"wait_for({condition!r})"):
            if condition == "load":
                await self._page.wait_for_load_state("load", timeout=self._patience * 1000)
            elif condition == "quiet":
                await self.quiet(self._patience)
            else:
                await self.appears(condition, self._patience)

    async def screenshot(self, *, full: bool = False) -> bytes:
        with self._plain_errors("screenshot()"):
            return await self._page.screenshot(full_page=full, timeout=self._patience * 1000)

    async def close(self) -> None:
        await self._close()

    # -- for the transport too

    async def quiet(self, patience: float) -> None:
        """Waits until the page has loaded and is quiet, for at most `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                await self._page.wait_for_load_state("load", timeout=0)
                await self._traffic.silence()
        except TimeoutError:
            pass

    async def appears(self, selector: str, patience: float = 0) -> None:
        """`patience`: 0 has no end."""
        where = self._page.locator(f"css={selector}").first
        await where.wait_for(state="attached", timeout=patience * 1000)

    async def _document(self) -> str:
        from playwright.async_api import Error

        for _ in range(_TRIES):
            try:
                text = await self._read()
                break
            except Error as error:
                if is_gone(error) or "context" not in str(error):
                    raise
            # One document was just replaced by another.
            await self._page.wait_for_load_state("domcontentloaded", timeout=self._patience * 1000)
        else:
            raise TabTimeout("the page never stops loading other documents")
        if isinstance(text, str):
            return text
        raise ValueError(f"the document has more than {self._cap} bytes; raise max_body to take it")

    async def _read(self) -> str | int | float:
        world = await self._session.send("Page.createIsolatedWorld", {"frameId": self.frame})
        answer = await self._session.send(
            "Runtime.evaluate",
            {
                "contextId": world["executionContextId"],
                "expression": _DOCUMENT % self._cap,
                "returnByValue": True,
            },
        )
        text: str | int | float = answer["result"].get("value", "")
        return text

    @contextmanager
    def _plain_errors(self, what: str) -> Iterator[None]:
        """Turns playwright's errors into short ones of our own."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TookTooLong

        try:
            yield
        except TookTooLong as error:
            raise TabTimeout(f"{what}: {self._why_late(error)} within {self._patience:g} s") from None
        except Error as error:
            if is_gone(error) or self._page.is_closed():
                raise TabLost(f"{what}: {self.why_closed}") from None
            raise ValueError(f"{what}: {plain(error)}") from None

    def _why_late(self, error: Exception) -> str:
        text = str(error)
        if "locator resolved to" in text:
            return "an element matches, but could not be used"
        return "no element matches" if "waiting for locator" in text else "not done"


def is_gone(error: Exception) -> bool:
    """Whether an error of playwright means that tab, context or browser are gone."""
    text = str(error)
    gone = ("has been closed", "crashed", "Connection closed", "Browser closed", "Target closed", "detached")
    return any(word in text for word in gone)


def plain(error: Exception) -> str:
    """The first line, without the name of playwright's function."""
    line = str(error).strip().partition("\n")[0]
    caller, _, rest = line.partition(": ")
    return (rest if rest and "." in caller and " " not in caller else line)[:300]
