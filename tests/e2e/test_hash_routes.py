"""Pages that only their fragment tells apart, for crawls that ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import shoal
from integration.raw_server import page, serve
from shoal import Page, Request, Spider
from shoal.fetch.browser.executable import available, why_not
from shoal.settings import Settings

APP = b"""<!doctype html><title>app</title><p>empty</p><a href="#/cart">x</a><a href="#!help">x</a><a href="#top">x</a>
<script>document.querySelector("p").textContent = "route " + location.hash</script>"""


def row(page: Page) -> Iterator[dict[str, str] | Request]:
    yield {"url": page.url.partition("/app")[2], "text": page.text("p")}
    yield from page.follow_all()


async def app(head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(page(APP, Content_Type="text/html"))


async def crawl(start: str, lane: str = "normal", **settings: object) -> list[dict[str, str]]:
    spider = Spider("app", start, rate=0, robots=False, **settings)
    spider.add_handler(row, lane=lane)
    async with asyncio.timeout(60):
        results = await shoal.crawl(spider)
    return sorted(results.items, key=lambda item: item["url"])


async def test_over_plain_http_the_fragment_is_not_sent() -> None:
    async with serve(app) as server:
        assert await crawl(server.url("/app")) == [{"url": "", "text": "empty"}]
        assert server.paths == ["/app"]
        rows = await crawl(server.url("/app#/start"), hash_routes=True)
        assert [item["url"] for item in rows] == ["", "#!help", "#/cart", "#/start"]
        assert server.paths == ["/app"] * 5


async def test_a_browser_opens_each() -> None:
    if not available(Settings()):
        pytest.skip(why_not(Settings()))
    async with serve(app) as server:
        rows = await crawl(server.url("/app"), "browser", hash_routes=True, allow_network=["127.0.0.0/8"])
    assert rows == [
        {"url": "", "text": "route"},
        {"url": "#!help", "text": "route #!help"},
        {"url": "#/cart", "text": "route #/cart"},
    ]
