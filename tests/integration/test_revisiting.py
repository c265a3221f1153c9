"""Pages that are visited again, against a real server: what is sent, what counts as a change, what is written."""

from __future__ import annotations

import json
import runpy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import shoal
from shoal import Page, Request, Results, Spider
from shoal.model.counts import CHANGED, GONE, MISSED, UNCHANGED, VISITS
from shoal.testing.changing_site import Asked, ChangingSite, Content, later


@pytest.fixture
async def site() -> AsyncIterator[ChangingSite]:
    pages = {
        "/": Content(links=["/a", "/b"]),
        "/a": Content("10"),
        "/b": Content("20"),
    }
    async with ChangingSite(pages).serving() as site:
        yield site


class Shop:
    """A spider on the site, and its store."""

    def __init__(self, site: ChangingSite, folder: Path, **settings: Any) -> None:
        self.store, self.rows_file = folder / "store.db", folder / "rows.jsonl"
        self.site = site
        self.settings = {"robots": False, "rate": 0, "once": True, "retry_base": 0.01, **settings}
        self.handled: list[str] = []
        spider = self.spider = Spider("shop", start=site.url + "/")

        @spider.handler(revisit="1h")
        def listing(page: Page) -> Iterator[Request]:
            self.handled.append(page.text("h1"))
            yield from page.follow_all("a", "product")

        @spider.handler(key="name", revisit="1h")
        def product(page: Page) -> Iterator[dict[str, str]]:
            self.handled.append(page.text("h1"))
            yield {"name": page.text("h1"), "price": page.text(".price")}

    async def visit(self, **settings: Any) -> list[Asked]:
        """Crawls what is due; returns what the server was asked for. Afterwards an hour has passed."""
        self.handled.clear()
        self.results: Results = await shoal.crawl(
            self.spider, store=self.store, output=self.rows_file, **{**self.settings, **settings}
        )
        later(self.store, hours=1.01)
        return self.site.take()

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.results.view.job.counts)

    @property
    def rows(self) -> list[str]:
        rows = map(json.loads, self.rows_file.read_text().splitlines())
        return [f"{row['name']} {row['price']}" for row in rows]


@pytest.fixture
def shop(site: ChangingSite, tmp_path: Path) -> Shop:
    return Shop(site, tmp_path)


async def test_an_unchanged_page_costs_a_request_without_a_body(shop: Shop) -> None:
    first = await shop.visit()
    assert [(one.path, one.conditional, one.status) for one in first] == [
        *(("/", False, 200), ("/a", False, 200), ("/b", False, 200))
    ]
    second = await shop.visit()
    assert [(one.path, one.conditional, one.status, one.size) for one in second] == [
        *(("/", True, 304, 0), ("/a", True, 304, 0), ("/b", True, 304, 0))
    ]
    assert shop.handled == []
    assert sorted(shop.rows) == ["/a 10", "/b 20"]
    assert (shop.counts[VISITS], shop.counts[UNCHANGED]) == (6, 3)


async def test_a_changed_page_is_written_again_and_the_others_are_not(shop: Shop) -> None:
    await shop.visit()
    shop.site.set("/a", "11")
    await shop.visit()
    assert shop.handled == ["/a"]
    assert shop.rows[2:] == ["/a 11"]
    shop.site.set("/a", "10")
    await shop.visit()
    assert shop.rows[2:] == ["/a 11", "/a 10"], "it was 10 before, but not last time"
    assert shop.counts[CHANGED] == 2


async def test_a_changed_advertisement_is_no_change(shop: Shop) -> None:
    await shop.visit()
    shop.site.pages["/a"].noise = "Buy now!"
    await shop.visit()
    assert shop.handled == ["/a"], "another body, so it is looked at"
    assert (shop.counts[UNCHANGED], shop.counts.get(CHANGED, 0), len(shop.rows)) == (3, 0, 2)


async def test_the_same_body_without_validators_is_not_handled_again(shop: Shop) -> None:
    shop.site.versions = "none"
    await shop.visit()
    second = await shop.visit()
    assert {(one.conditional, one.status) for one in second} == {(False, 200)}
    assert (shop.handled, shop.counts[UNCHANGED]) == ([], 3)


async def test_a_date_is_sent_back_too(shop: Shop) -> None:
    shop.site.versions = "date"
    await shop.visit()
    assert {(one.conditional, one.status) for one in await shop.visit()} == {(True, 304)}


async def test_a_new_page_is_found_and_followed(shop: Shop) -> None:
    await shop.visit()
    shop.site.pages["/"].links = ["/a", "/b", "/c"]
    shop.site.pages["/c"] = Content("30")
    assert "/c" in [one.path for one in await shop.visit()]
    assert shop.rows[2:] == ["/c 30"]
    shop.site.set("/c", "31")
    await shop.visit()
    assert shop.rows[3:] == ["/c 31"]


async def test_a_page_that_is_gone_twice_is_not_visited_any_more(shop: Shop) -> None:
    await shop.visit()
    shop.site.pages["/a"].status = 410
    await shop.visit()
    assert shop.counts.get(GONE, 0) == 0
    await shop.visit()
    assert shop.counts[GONE] == 1
    assert [one.path for one in await shop.visit()] == ["/", "/b"]
    assert shop.results.view.job.counters.done == 1
    assert shop.results.view.job.counters.dead == 0


async def test_a_page_that_comes_back_is_not_gone(shop: Shop) -> None:
    await shop.visit()
    shop.site.pages["/a"].status = 404
    await shop.visit()
    shop.site.pages["/a"].status = 200
    await shop.visit()
    shop.site.pages["/a"].status = 404
    await shop.visit()
    shop.site.pages["/a"].status = 200
    assert "/a" in [one.path for one in await shop.visit()]


async def test_a_failed_visit_is_made_up_for(shop: Shop) -> None:
    await shop.visit()
    shop.site.pages["/a"].status = 500
    await shop.visit(max_attempts=2)
    job = shop.results.view.job
    assert (job.counters.dead, job.counters.waiting, shop.counts[MISSED]) == (0, 3, 1)
    shop.site.pages["/a"].status = 200
    shop.site.set("/a", "12")
    await shop.visit()
    assert shop.rows[2:] == ["/a 12"]


async def test_a_page_that_never_came_is_a_dead_letter(shop: Shop) -> None:
    shop.site.pages["/a"].status = 403
    await shop.visit()
    assert shop.results.view.job.counters.dead == 1


async def test_a_permanent_redirect_moves_the_page(shop: Shop) -> None:
    await shop.visit()
    shop.site.pages["/a"] = Content(status=301, location="/new")
    shop.site.pages["/new"] = Content("10")
    await shop.visit()
    assert [one.path for one in await shop.visit()] == ["/", "/b", "/new"]


async def test_a_temporary_redirect_is_asked_for_again(shop: Shop) -> None:
    shop.site.pages["/a"] = Content(status=302, location="/monday")
    shop.site.pages |= {"/monday": Content("10"), "/tuesday": Content("11")}
    await shop.visit()
    assert [one.path for one in await shop.visit()] == ["/", "/a", "/b", "/monday"]
    shop.site.pages["/a"].location = "/tuesday"
    assert [one.path for one in await shop.visit()] == ["/", "/a", "/b", "/tuesday"]
    assert shop.rows[2:] == ["/tuesday 11"]
    # To a page with a task of its own.
    shop.site.pages["/a"].location = "/b"
    assert [one.path for one in await shop.visit()] == ["/", "/a", "/b", "/b"]
    shop.site.pages["/a"].location = "/monday"
    assert [one.path for one in await shop.visit()] == ["/", "/a", "/b", "/monday"]
    assert shop.results.view.job.counters.merged == 0


async def test_a_request_may_say_never(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path)

    @shop.spider.handler(revisit="1h")
    def terms(page: Page) -> None:
        shop.handled.append(page.text("h1"))

    site.pages["/terms"] = Content()
    shop.spider.start = [Request(site.url + "/terms", terms, revisit="never"), site.url + "/a"]
    await shop.visit()
    assert [one.path for one in await shop.visit()] == ["/a"]


async def test_a_page_that_names_no_pace_is_visited_once(site: ChangingSite, tmp_path: Path) -> None:
    spider = Spider("once", start=[site.url + "/a", Request(site.url + "/b", revisit="1h")])

    @spider.handler
    def page(page: Page) -> Iterator[dict[str, str]]:
        yield {"price": page.text(".price")}

    for _ in range(2):
        results = await shoal.crawl(spider, store=tmp_path / "s.db", robots=False, rate=0, once=True)
        later(tmp_path / "s.db", hours=1.01)
    assert [one.path for one in site.take()] == ["/a", "/b", "/b"]
    assert (results.view.job.counters.done, results.view.job.counters.waiting) == (1, 1)


async def test_with_max_pages_nothing_is_visited_again(shop: Shop) -> None:
    await shop.visit(max_pages=2)
    assert (shop.results.view.job.state, shop.results.view.job.counters.done) == ("finished", 2)


async def test_a_server_that_says_304_though_pages_change_is_noticed(
    site: ChangingSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Sampled at every third visit here, at one of 32 in real life."""
    site.versions = "lies"
    shop = Shop(site, tmp_path)
    await shop.visit()
    for number in range(3):
        site.set("/a", f"1{number}")
        site.set("/b", f"2{number}")
        monkeypatch.setattr("shoal.engine.validators._SAMPLED", float(number == 2))
        await shop.visit()
    assert sorted(shop.rows[2:]) == ["/a 12", "/b 22"], "what the server hid before was lost"
    assert "pages have changed that the host says are the same" in caplog.text
    monkeypatch.undo()
    site.set("/a", "99")
    assert {one.conditional for one in await shop.visit()} == {False}
    assert shop.rows[-1] == "/a 99"


async def test_an_etag_for_each_request_is_noticed(
    site: ChangingSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site.versions = "each request"
    shop = Shop(site, tmp_path)
    visits = [await shop.visit() for _ in range(6)]
    assert {one.conditional for one in visits[1]} == {True}
    assert {one.conditional for one in visits[-1]} == {False}
    assert "ETag of its own" in caplog.text
    assert (shop.handled, len(shop.rows)) == ([], 2)


async def test_pages_are_read_again_when_the_spider_has_changed(site: ChangingSite, tmp_path: Path) -> None:
    """Though the server says that they are as they were: the handler wants something else from them."""
    file = tmp_path / "changed_shop.py"
    text = (
        "from shoal import Spider\n"
        f"spider = Spider('shop', start='{site.url}/a')\n"
        "@spider.handler(key='name', revisit='1h')\n"
        "def product(page):\n"
        "    yield {'name': page.text('h1')}\n"
    )

    async def visit(text: str) -> list[bool]:
        file.write_text(text)
        spider = runpy.run_path(str(file))["spider"]
        await shoal.crawl(
            spider, store=tmp_path / "s.db", output=tmp_path / "rows.jsonl", robots=False, rate=0, once=True
        )
        later(tmp_path / "s.db", hours=1.01)
        return [one.conditional for one in site.take()]

    assert [await visit(text), await visit(text)] == [[False], [True]]
    assert await visit(text.replace("}", ", 'price': page.text('.price')}")) == [False]
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert rows == [{"name": "/a"}, {"name": "/a", "price": "10"}]


async def test_a_server_of_others_understands_what_is_sent_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiohttp's own file server decides by itself what is unchanged: by ETag and Last-Modified."""
    monkeypatch.setattr(
        "shoal.engine.validators._SAMPLED", 0.0
    )  # now and then a page is fetched whole, to see whether they hold
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "a.html").write_text("<h1>a</h1>")
    answers: list[tuple[int, int]] = []

    async def noted(request: web.Request, response: web.StreamResponse) -> None:
        answers.append((response.status, len(request.headers.getall("If-None-Match", []))))

    app = web.Application()
    app.on_response_prepare.append(noted)
    app.router.add_static("/", folder)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        spider = Spider("files", start=f"http://127.0.0.1:{runner.addresses[0][1]}/a.html", revisit="1h")

        @spider.handler
        def page(page: Page) -> Iterator[dict[str, str]]:
            yield {"title": page.text("h1")}

        for text in ("<h1>a</h1>", "<h1>a</h1>", "<h1>other</h1>"):
            if (folder / "a.html").read_text() != text:
                (folder / "a.html").write_text(text)
            results = await shoal.crawl(spider, store=tmp_path / "s.db", robots=False, rate=0, once=True)
            later(tmp_path / "s.db", hours=1.01)
    finally:
        await runner.cleanup()
    assert answers == [(200, 0), (304, 1), (200, 1)]
    assert [row["title"] for row in results] == ["other"]
