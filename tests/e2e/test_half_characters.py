"""Bytes that are no text, in headers and in what handlers say: they cost a page at most, and never the crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from integration.raw_server import by_path, page, serve
from shoal import Page, Spider
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import DeadFilter

ODD = b"\r\nX-Odd: \xff\xfe\r\nSet-Cookie: a=\xff\r\n"
ANSWERS = {
    "/fine": page(),
    "/missing": page(b"", "404 Not Found"),
    "/raises": page(),
    "/yields": page(),
    "/moved": page(b"", "302 Found", Location="/there"),
    "/there": page(b"", "404 Not Found"),
}


def read(page: Page) -> Iterator[dict[str, str]]:
    if page.url.endswith("/raises"):
        raise KeyError("half \ud800")
    yield {"url": page.url, "more": "\ud800" if page.url.endswith("/yields") else ""}


@pytest.mark.parametrize("http2", [False, True])
async def test_a_crawl_goes_on(tmp_path: Path, http2: bool) -> None:
    store = tmp_path / "store.db"
    answers = {path: answer.replace(b"\r\n", ODD, 1) for path, answer in ANSWERS.items()}
    async with serve(by_path(answers)) as server, asyncio.timeout(30):
        start = [server.url(path) for path in ANSWERS if path != "/there"]
        spider = Spider("odd", start, rate=0, robots=False, http2=http2)
        spider.add_handler(read)
        results = await shoal.crawl(spider, store=store)
        assert [row["url"] for row in results.items] == [server.url("/fine")]
        assert [item.url for item in results.rejected] == [server.url("/yields")]
    async with SqliteFrontier(store) as frontier:
        kinds = sorted(letter.kind for letter in await frontier.dead(DeadFilter()))
    assert kinds == ["handler", "http_404", "http_404"]
