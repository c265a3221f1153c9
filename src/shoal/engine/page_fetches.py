"""What a page sends its requests with: `page.fetch` and `page.download`, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from shoal.admit.referrer import Referrer
from shoal.errors import SpiderError
from shoal.limits import PAGE_FETCHES
from shoal.model import Lease, Row
from shoal.model.request import Request
from shoal.spider.handlers import handler_waits
from shoal.spider.inner import File
from shoal.spider.page import Page


class PageFetches:
    """The requests of one page, one after another."""

    def __init__(
        self, fetcher: PageFetcher, lease: Lease, handler: str, downloads: Downloader | None = None
    ) -> None:
        self._fetcher = fetcher
        self._downloads = downloads
        self._lease = lease
        self._handler = handler
        self.referrer: Referrer | None = None  # the page, for requests that tell where they come from
        self._turn = asyncio.Lock()
        self._sent = 0
        self.records: list[Row] = []  # of the answers, for the archive
        self._ended = False

    def end(self) -> None:
        """Called when the handler has ended: what it left running sends nothing more in the name of this page."""
        self._ended = True
        self.referrer = None  # it holds the page, which holds this: memory until the garbage collector runs

    async def fetch(self, request: Request) -> Page:
        async with self._one_by_one():
            return await self._fetcher.fetch(request, lease=self._lease, handler=self._handler, inner=self)

    async def download(self, request: Request, to: str, name: str) -> File:
        assert self._downloads is not None
        async with self._one_by_one():
            return await self._downloads.download(
                request, lease=self._lease, to=to, name=name, referrer=self.referrer
            )

    @asynccontextmanager
    async def _one_by_one(self) -> AsyncIterator[None]:
        self._sent += 1
        if self._sent > PAGE_FETCHES:
            raise SpiderError(
                f"one page fetched more than {PAGE_FETCHES:,} pages and files itself: yield requests instead"
            )
        with handler_waits():
            async with self._turn:
                if self._ended:
                    raise SpiderError("the handler of this page has ended: await page.fetch(…) inside it")
                yield


class PageFetcher(Protocol):
    async def fetch(
        self, request: Request, *, lease: Lease, handler: str = "", inner: PageFetches | None = None
    ) -> Page:
        """The page that the request asks for. Raises FetchFailed."""
        ...


class Downloader(Protocol):
    async def download(
        self, request: Request, *, lease: Lease, to: str, name: str, referrer: Referrer | None
    ) -> File: ...
