"""Pages in a browser: what a request asks for, and the result."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from shoal.model import Response


class Rendering(Struct, frozen=True):
    """Asks for a page in a browser, and says when it counts as complete."""

    wait: str = ""  # "load", "quiet", or a CSS selector that must appear; "": the setting


class TabLost(ConnectionError):
    """The tab or its browser is gone: the page may be tried again."""


class TabTimeout(TimeoutError):
    """An element or a state that was waited for did not appear."""


class Tab(Protocol):
    """A page that is open in a browser. Its owner closes it. The methods raise TabLost, TabTimeout, and ValueError
    for a wrong selector or script."""

    @property
    def url(self) -> str: ...

    async def html(self) -> str:
        """The document as it is now."""
        ...

    async def click(self, selector: str) -> None: ...

    async def fill(self, selector: str, text: str) -> None: ...

    async def press(self, key: str) -> None: ...

    async def scroll(self, times: int = 1) -> None:
        """Scrolls to the end, `times` times: pages that load more grow."""
        ...

    async def evaluate(self, script: str) -> Any:
        """The result of a JavaScript expression or function, as JSON."""
        ...

    async def wait_for(self, condition: str) -> None:
        """Waits for "load", "quiet", or until a CSS selector matches."""
        ...

    async def screenshot(self, *, full: bool = False) -> bytes:
        """A PNG of what can be seen, or of the whole page."""
        ...

    async def close(self) -> None:
        """May be called more than once."""
        ...


class Rendered(Response, frozen=True):
    """A page that a browser has opened; the body is the document after its scripts have run. The receiver closes
    `tab`."""

    tab: Tab | None = None

    async def close(self) -> None:
        if self.tab is not None:
            await self.tab.close()
