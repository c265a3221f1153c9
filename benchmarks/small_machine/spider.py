"""The spider of the crawl: a row for every page, and every link followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal import Page, Spider


def make_spider(start: Sequence[str]) -> Spider:
    spider = Spider("small-machine", start=list(start))

    @spider.handler
    def page_row(page: Page) -> Iterator[object]:
        yield {"url": page.url, "title": page.text("h1"), "via": page.response.via}
        yield from page.follow_all("a")

    return spider


def small_machine() -> Spider:
    """For `shoal crawl spider.py:small_machine`: the start URLs are in a file where it is started."""
    return make_spider(Path("starts.txt").read_text().split())
