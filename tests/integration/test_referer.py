"""The Referer that a server sees, in whole crawls."""

from __future__ import annotations

import gc
import re

import pytest

import shoal
from integration.raw_server import always, page, serve
from shoal import Page, Spider


@pytest.mark.parametrize(
    ("settings", "answer", "link", "form", "own"),
    [
        ({}, {}, "", "/start?a=1", "https://elsewhere.example/"),
        ({"referer": "none"}, {}, "", "", "https://elsewhere.example/"),
        ({"referer": "origin"}, {}, "/", "/", "https://elsewhere.example/"),
        (
            {"referer": "strict-origin-when-cross-origin"},
            {},
            "/start?a=1",
            "/start?a=1",
            "https://elsewhere.example/",
        ),
        ({}, {"Referrer_Policy": "no-referrer"}, "", "", "https://elsewhere.example/"),
    ],
    ids=["default", "none", "origin", "browser", "by the page"],
)
async def test_what_a_server_sees(
    settings: dict[str, object], answer: dict[str, str], link: str, form: str, own: str
) -> None:
    body = b"<a href=/link></a><form method=post action=/form><input name=a></form>"
    async with serve(always(page(body, Content_Type="text/html", **answer))) as server:
        spider = Spider("referers", start=server.url("/start?a=1#top"), robots=False, rate=0, **settings)

        @spider.handler
        def start(page: Page):  # type: ignore[no-untyped-def]
            yield from page.follow_all("a", rest)
            yield page.submit_form(handler=rest)
            yield page.follow("/own", rest, headers={"referer": own})

        @spider.handler
        def rest(page: Page) -> None: ...

        await shoal.crawl(spider)
        seen = {}
        for head in server.hits:
            found = re.search(rb"(?mi)^referer: (.*)\r$", head)
            seen[head.split()[1].decode()] = found[1].decode() if found else ""
        here = server.url("")
    assert seen == {
        "/start?a=1": "",
        "/link": f"{here}{link}" if link else "",
        "/form": f"{here}{form}" if form else "",
        "/own": own,
    }


def pages_alive() -> int:
    return sum(isinstance(one, Page) for one in gc.get_objects())


@pytest.mark.parametrize("setting", ["forms", "origin"])
async def test_a_page_is_freed_once_it_is_handled(setting: str) -> None:
    """Its markup takes much more memory than its links, and its settlement may have to wait."""
    alive: list[int] = []
    body = b"<a href=/2></a><a href=/3></a><a href=/4></a>"
    async with serve(always(page(body, Content_Type="text/html"))) as server:
        spider = Spider(
            "freed", start=server.url("/1"), robots=False, rate=0, per_host=1, concurrency=1, referer=setting
        )

        @spider.handler
        def pages(page: Page):  # type: ignore[no-untyped-def]
            page.css("a")  # it is parsed
            alive.append(pages_alive() - before)
            yield from page.follow_all("a", pages)

        gc.collect()
        before = pages_alive()  # of other tests
        gc.disable()  # a page in a circle of references would wait for it
        try:
            await shoal.crawl(spider)
        finally:
            gc.enable()
    assert alive == [1] * 4
