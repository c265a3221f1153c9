"""`page.fetch` and `page.download` of a handler that is tried. Pages come from the cache or the site; files do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from shoal.admit.referrer import Referrer
from shoal.develop.page_source import find_page
from shoal.engine.page_fetches import PageFetches
from shoal.errors import PageMissing, UrlError
from shoal.html.page_links import join
from shoal.model import Lease
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.spider.inner import FetchFailed, File
from shoal.spider.page import Page
from shoal.spider.spider import Spider


class InnerPages:
    def __init__(
        self, spider: Spider, settings: Settings, cache: Path | None, offline: bool, typed: Sequence[str]
    ) -> None:
        """`typed`: URLs that a person wrote: their hosts may be private."""
        self._spider = spider
        self._settings = settings
        self._cache = cache
        self._offline = offline
        self._typed = typed
        self.fetched: list[tuple[str, str]] = []  # URL, and where the page was found

    async def fetch(
        self, request: Request, *, lease: Lease, handler: str = "", inner: PageFetches | None = None
    ) -> Page:
        url = join(request.base or lease.task.url, request.url) or request.url
        try:
            found = await find_page(
                replace(request, url=url),
                spider=self._spider,
                settings=self._settings,
                cache=self._cache,
                offline=self._offline,
                typed=self._typed,
            )
        except PageMissing as error:
            raise FetchFailed(url, error.kind, error.detail) from None
        except UrlError as error:
            raise FetchFailed(url, "policy", str(error)) from None
        self.fetched.append((found.response.url, found.where))
        task = replace(found.task, handler=handler)
        page = Page(task, found.response, handler, found.at + found.response.elapsed, inner=inner)
        if found.kind != "ok":
            status = found.response.status
            raise FetchFailed(url, found.kind, f"HTTP {status}", status=status, page=page)
        return page

    async def download(
        self, request: Request, *, lease: Lease, to: str, name: str, referrer: Referrer | None
    ) -> File:
        """Says what the file would be called, and downloads nothing."""
        url = join(request.base or lease.task.url, request.url) or request.url
        self.fetched.append((url, "not downloaded"))
        named = name or url.partition("?")[0].rstrip("/").rpartition("/")[2]
        path = Path(self._settings.files or "files") / (to or named)
        return File(url=url, path=str(path), name=named, sha256="", size=0, type="")
