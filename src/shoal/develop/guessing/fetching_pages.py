"""Pages for a guess: through the cache, robots.txt and the guard, one after another, no faster than the rate allows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from shoal.develop.page_source import find_page
from shoal.errors import PageMissing, UrlError
from shoal.settings import Settings
from shoal.spider.page import Page

_REQUESTS = 2  # for a page: itself, and robots.txt


class SitePages:
    """`typed`: what a person wrote; those pages must be there."""

    def __init__(
        self, typed: Sequence[str], settings: Settings, cache: Path | None, *, offline: bool
    ) -> None:
        self._typed = list(typed)
        self._settings, self._cache, self._offline = settings, cache, offline
        self._pause = 0.0
        self.missing: dict[str, str] = {}  # URL → why

    async def fetch(self, url: str) -> Page | None:
        """None: there is no such page. Raises PageMissing for one that a person wrote."""
        await asyncio.sleep(self._pause)
        self._pause = 0.0
        try:
            found = await find_page(
                url,
                spider=None,
                settings=self._settings,
                cache=self._cache,
                offline=self._offline,
                typed=self._typed,
            )
        except (PageMissing, UrlError) as error:
            if url in self._typed:
                raise
            self.missing[url] = str(error)
            return None
        if found.where == "live" and self._settings.rate:
            self._pause = _REQUESTS / self._settings.rate
        if found.kind != "ok":
            if url in self._typed:
                raise PageMissing(url, f"HTTP {found.response.status}", kind=found.kind)
            self.missing[url] = f"HTTP {found.response.status}"
            return None
        return Page(found.task, found.response, "", found.at)

    def missing_text(self) -> str:
        """How many pages could not be fetched, for a message."""
        count = len([url for url in self.missing if not url.endswith(("/robots.txt", "/sitemap.xml"))])
        return f" ({count} {'page' if count == 1 else 'pages'} could not be fetched)" if count else ""
