"""What can be used in `shoal shell`: the page and short ways to look into it, to get others, and to try handlers."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from shoal import __version__
from shoal.develop.elements import Elements
from shoal.develop.page_source import Found, as_stored, find_page
from shoal.develop.prompt_loop import PromptLoop
from shoal.develop.trying import Tried, TriedRequest, run_handler
from shoal.errors import PageMissing, SpiderError, UrlError, UsageError
from shoal.html.page_links import join
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.spider.default import summary_spider
from shoal.spider.inner import FetchFailed, File
from shoal.spider.page import Node, Page
from shoal.spider.spider import Spider
from shoal.text import humanize

T = TypeVar("T")

_RELATIVE = ("/", "?", "#", "./", "../")  # what a URL relative to the page begins with


class Sources(Struct, frozen=True):
    """Where pages come from."""

    settings: Settings
    cache: Path | None
    offline: bool = False
    browser: bool = False


class Shell:
    """`names` are those that the interpreter knows. `page` is the one that was fetched last."""

    def __init__(
        self,
        sources: Sources,
        loop: PromptLoop,
        spider: Spider | None,
        load: Callable[[], Spider] | None,
        draw: Callable[[Tried], str],
    ) -> None:
        """`load` loads the spider again. `draw` shows what became of a handler."""
        self._sources = sources
        self._load = load
        self._loop = loop
        self._draw = draw
        self._inner = _Inner(self)
        self._open = AsyncExitStack()  # what keeps the page open in a browser
        self._found: Found | None = None  # the page that was fetched last
        self.spider = spider
        self._own: dict[str, Any] = {
            "css": self.css,
            "xpath": self.xpath,
            "fetch": self.fetch,
            "follow": self.follow,
            "view": self.view,
        }
        self.names: dict[str, Any] = {"page": None, **self._own}
        if spider is not None:
            self._own["reload"] = self.reload
            self._add_spider(spider)

    def banner(self) -> str:
        """What there is, for whoever begins."""
        lines = [
            ("css(selector)  xpath(expression)", "elements of the page"),
            ("fetch(url)  follow(link)", "another page; `page` is then that one"),
            ("view()", "the page as it was fetched, in a browser"),
        ]
        if self.spider is not None:
            lines += [(f"{name}()", "this handler on the page") for name in self._own["handlers"]]
            lines += [("reload()", "the spider's file again, after an edit")]
        width = max(len(call) for call, _ in lines) + 2
        shown = "\n".join(f"  {call:{width}}{about}" for call, about in lines)
        head = f"shoal {__version__}, Python {platform.python_version()}: `await` works, Ctrl-D leaves"
        return f"{head}\n{shown}\n{self._about_page()}"

    def _about_page(self) -> str:
        found = self._found
        if found is None:
            return 'There is no page yet: fetch("https://…") gets one.'
        ago = humanize.duration(max(0.0, time.time() - found.at))
        again = f"fetched {ago} ago; fetch(page.url, refresh=True) fetches it again"
        told = {
            "live": "fetched now",
            "cache": f"from the cache, {again}",
            "archive": f"from the archive, {again}",
            "file": "from a file",
        }
        return f"page is {self.page!r},\n  {told[found.where]}"

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)

    # -- the page

    @property
    def page(self) -> Page:
        page = self.names.get("page")
        if not isinstance(page, Page):
            raise UsageError('there is no page yet: fetch("https://…") gets one')
        return page

    def css(self, selector: str) -> Elements:
        """The elements of the page that match a CSS selector."""
        return Elements(self.page.css(selector))

    def xpath(self, expression: str) -> Elements:
        """What an XPath expression finds in the page."""
        return Elements(self.page.xpath(expression))

    def view(self, page: Page | None = None) -> Path:
        """Opens the page as it was fetched in a browser; its scripts do not run."""
        return (page or self.page).view()

    # -- other pages

    def fetch(
        self,
        target: str | Request | TriedRequest | Node,
        *,
        refresh: bool = False,
        browser: bool | None = None,
    ) -> Any:
        """Gets a page: a URL, a request (also one of a handler's `.requests`), an element with a link, or a saved file.
        `page` is then that one.

        It comes from the cache if that has it, unless refresh=True. browser=True opens it in a browser. `await` may be
        written, and need not be."""
        return self.now_or_awaited(self._fetch(self._request(target), refresh, browser))

    def follow(self, link: str | Node, *, refresh: bool = False, browser: bool | None = None) -> Any:
        """Gets the page that a link leads to: an element, the selector of one, or a URL relative to the page."""
        return self.now_or_awaited(self._fetch(self._link(link), refresh, browser))

    async def get(self, target: str | Request, *, refresh: bool = False) -> Page:
        """Gets a page and makes it the current one."""
        return await self._fetch(target, refresh, browser=None)

    def now_or_awaited(self, coroutine: Coroutine[Any, Any, object]) -> Any:
        """Waits for it; but where an event loop runs, as in a line with `await`, the caller does."""
        return coroutine if asyncio._get_running_loop() is not None else self.run(coroutine)

    @property
    def typed(self) -> list[str]:
        """The URL of the page: its host may be private, so links of the page to it may be followed."""
        return [self._found.response.url] if self._found is not None else []

    async def _fetch(self, target: str | Request, refresh: bool, browser: bool | None) -> Page:
        sources = self._sources
        async with AsyncExitStack() as stack:
            found = await find_page(
                target,
                spider=self.spider,
                settings=sources.settings,
                cache=sources.cache,
                offline=sources.offline,
                refresh=refresh,
                browser=sources.browser if browser is None else browser,
                typed=self.typed,
                stays_open=stack,
            )
            await self.close()
            self._open = stack.pop_all()
        page = self.page_of(found)
        self._found = found
        self.names["page"] = page
        return page

    async def close(self) -> None:
        """Closes the browser in which the page is open."""
        await self._open.aclose()

    def page_of(self, found: Found) -> Page:
        handler = found.task.handler
        if self.spider is not None:
            handler = self.spider.handler_named(handler).name
        return Page(found.task, found.response, handler, found.at, inner=self._inner)

    def _request(self, target: str | Request | TriedRequest | Node) -> str | Request:
        if isinstance(target, TriedRequest):
            target = replace(target.request, url=target.url, base=None)
        if isinstance(target, Request):
            url = join(target.base or "", target.url) if target.base else target.url
            return as_stored(replace(target, url=url or target.url))
        if isinstance(target, str):
            return (
                self._absolute(target)
                if target.startswith(_RELATIVE) and not Path(target).is_file()
                else target
            )
        return self._link(target)

    def _link(self, link: str | Node) -> str:
        if isinstance(link, str):
            try:
                found = self.page.first(link)
            except ValueError:  # it is no selector
                found = None
            if found is None:
                return self._absolute(link)
            link = found
        return self._absolute(self.page.follow(link).url)

    def _absolute(self, url: str) -> str:
        found = join(self.page.base, url)
        if found is None:
            raise UrlError(f"{url!r} is neither a selector that matches nor a URL")
        return found

    # -- the spider

    def reload(self) -> None:
        """Loads the spider's file again, after it was edited."""
        assert self._load is not None
        self._add_spider(self._load())

    def _add_spider(self, spider: Spider) -> None:
        """Its handlers, and what else its file defines. Names of the shell's own stay what they are."""
        handlers = {name: HandlerCall(self, name, self._draw) for name in spider.handlers}
        function = spider.handler_named("").function
        defined = getattr(function, "__globals__", {})
        public = {
            name: value for name, value in defined.items() if not name.startswith("_") and name != "page"
        }
        self.spider = spider
        self._own |= {"spider": spider, "handlers": handlers}
        self.names |= {**public, **handlers, **self._own}

    async def try_handler(self, name: str, page: Page) -> Tried:
        assert self.spider is not None
        found = self._found
        if found is None or found.response is not page.response:
            found = Found(page.task, page.response, "cache" if page.cached else "live", page.fetched_at)
        sources = self._sources
        return await run_handler(
            self.spider, found, name, settings=sources.settings, cache=sources.cache, offline=sources.offline
        )


class HandlerCall:
    """A handler of the spider. Calling it runs it on the page, or on another one, as a crawl would."""

    def __init__(self, shell: Shell, name: str, draw: Callable[[Tried], str]) -> None:
        self._shell = shell
        self._draw = draw
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<handler {self.__name__}: call {self.__name__}(), or {self.__name__}(page)>"

    def __call__(self, page: Page | None = None) -> Any:
        return self._shell.now_or_awaited(self._try(page or self._shell.page))

    async def _try(self, page: Page) -> HandlerResult:
        return HandlerResult(await self._shell.try_handler(self.__name__, page), self._draw)


class HandlerResult:
    """What a handler made of a page. Shown as tables; the values are in its fields."""

    def __init__(self, tried: Tried, draw: Callable[[Tried], str]) -> None:
        self.tried = tried
        self._draw = draw

    def __repr__(self) -> str:
        return self._draw(self.tried)

    def __iter__(self) -> Iterator[object]:
        """What it yielded: items, then requests."""
        return iter([*self.items, *(one.request for one in self.requests)])

    def __len__(self) -> int:
        return len(self.items) + len(self.requests)

    @property
    def items(self) -> list[object]:
        return self.tried.items

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The items as they would be written."""
        return [fields for _, fields in self.tried.rows]

    @property
    def requests(self) -> list[TriedRequest]:
        return self.tried.requests


class _Inner:
    """`await page.fetch(…)` in the shell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def fetch(self, request: Request) -> Page:
        shell, sources = self._shell, self._shell._sources
        url = join(request.base, request.url) if request.base else request.url
        request = replace(request, url=url or request.url)
        spider = shell.spider or summary_spider("shell", [request.url])
        try:
            found = await find_page(
                request,
                spider=spider,
                settings=sources.settings,
                cache=sources.cache,
                offline=sources.offline,
                typed=shell.typed,
            )
        except PageMissing as error:
            raise FetchFailed(request.url, error.kind, error.detail) from None
        except UrlError as error:
            raise FetchFailed(request.url, "policy", str(error)) from None
        return shell.page_of(found)

    async def download(self, request: Request, to: str, name: str) -> File:
        raise SpiderError(
            "page.download works in a crawl only; in the shell, page.fetch(…) gets what is there"
        )
