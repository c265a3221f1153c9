"""Crawls with a browser lane: a real Chromium, beside plain pages, killed in the middle, and missing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from benchmarks.browser import browser_pids

import shoal
from browser import kept_browser
from integration.raw_server import by_path, page, serve
from shoal import Page, Request, Spider
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.testing import ChaoticWeb, HostProfile
from which_browser import FULL, low_priority

in_one_loop = pytest.mark.asyncio(loop_scope="module")  # with one browser

DEADLINE = 180
SETTINGS: dict[str, Any] = {"rate": 0, "robots": False, "per_host": 4, "retry_base": 0.05}


@pytest_asyncio.fixture(loop_scope="module", scope="module", autouse=True)
async def one_browser() -> AsyncIterator[None]:
    async with kept_browser():
        yield


FORM = b"""<!doctype html><title>Form</title><body><h1>Sizes</h1><button id=more>more</button><ul></ul><input name=q>
<script>
let sizes = 0
more.onclick = () => { document.querySelector('ul').innerHTML += `<li class=size>${++sizes}</li>` }
document.querySelector('input').onchange = (event) => { document.title = event.target.value }
</script>"""


def html(body: bytes) -> bytes:
    return page(body, Content_Type="text/html; charset=utf-8")


async def crawl(spider: Spider, **options: Any) -> shoal.Results:
    async with asyncio.timeout(DEADLINE):
        return await shoal.crawl(spider, **options)


# -- what a handler can do


@in_one_loop
@pytest.mark.parametrize("browser", sorted({"", FULL}))
async def test_a_handler_works_on_the_open_page(browser: str) -> None:
    async with serve(by_path({}, missing=html(FORM))) as server:
        spider = Spider("form", server.url("/"), browser_path=browser, **SETTINGS)

        @spider.handler(lane="browser", wait_for="h1")
        async def form(page: Page) -> AsyncIterator[dict[str, object]]:
            before = len(page.css(".size"))
            await page.click("#more")
            await page.click("#more")
            await page.fill("input", "lamp")
            await page.press("Tab")
            picture = await page.screenshot()
            yield {
                "before": before,
                "after": [node.text() for node in page.css(".size")],
                "title": page.text("title"),
                "sum": await page.evaluate("1 + 1"),
                "png": picture[:4] == b"\x89PNG",
                "in_browser": page.in_browser,
            }

        [row] = await crawl(spider)
    expected = {"before": 0, "after": ["1", "2"], "title": "lamp", "sum": 2, "png": True, "in_browser": True}
    assert row == expected


@in_one_loop
async def test_what_fails_on_the_open_page_names_the_selector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.fetch.browser.tab._PATIENCE", 0.3)
    async with serve(by_path({}, missing=html(FORM))) as server:
        spider = Spider("form", server.url("/"), **SETTINGS)

        @spider.handler(lane="browser")
        async def form(page: Page) -> None:
            await page.click("#there-is-no-such-thing")

        await crawl(spider, store=tmp_path / "store.db")
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert letter.kind == "handler"
    assert "#there-is-no-such-thing" in letter.task.history[-1].detail
    assert "Call log" not in letter.task.history[-1].detail


async def test_actions_on_a_plain_page_say_what_is_missing(tmp_path: Path) -> None:
    async with serve(by_path({}, missing=html(FORM))) as server:
        spider = Spider("form", server.url("/"), **SETTINGS)

        @spider.handler
        async def form(page: Page) -> None:
            assert not page.in_browser
            await page.click("#more")

        await crawl(spider, store=tmp_path / "store.db")
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert "page.click() needs a browser" in letter.task.history[-1].detail
    assert 'lane="browser"' in letter.task.history[-1].detail


# -- beside plain pages


def mixed_spider(web: ChaoticWeb, plain: int, scripted: int, **settings: object) -> Spider:
    start = [Request(web.url("scripted", f"/p/{n}"), "rendered", lane="browser") for n in range(scripted)]
    start += [Request(web.url("plain", f"/p/{n}"), "plain") for n in range(plain)]
    spider = Spider("mixed", start, **{**SETTINGS, **settings})

    @spider.handler(key="url")
    def plain_page(page: Page) -> Iterator[dict[str, object]]:
        yield {"url": page.url, "title": page.text("h1"), "lane": page.task.lane}

    spider.add_handler(plain_page, name="plain", key="url")
    spider.add_handler(plain_page, name="rendered", key="url", lane="browser", wait_for="h1")
    return spider


@in_one_loop
async def test_plain_pages_do_not_wait_for_the_browser() -> None:
    hosts = {"plain": HostProfile(pages=200), "scripted": HostProfile("scripted", pages=8, shells=1.0)}
    async with ChaoticWeb(hosts) as web:
        with low_priority():
            results = await crawl(
                mixed_spider(web, 200, 8), browser_tabs=2, user_agent="own/1"
            )  # and an own browser
        last_plain = max(hit.ended for hit in web.hits() if hit.host == "plain")
        rendered = sorted(hit.ended for hit in web.hits() if hit.host == "scripted")
    assert len(results) == 208
    assert all(row["title"] for row in results)
    assert sum(row["lane"] == "browser" for row in results) == 8
    assert last_plain < rendered[len(rendered) // 2], "all slots but the lane's were theirs"


@in_one_loop
async def test_a_browser_that_dies_under_a_handler_costs_a_retry() -> None:
    async with serve(by_path({}, missing=html(FORM))) as server:
        spider = Spider("form", server.url("/"), **SETTINGS)
        attempts: list[int] = []

        @spider.handler(lane="browser")
        async def form(page: Page) -> AsyncIterator[dict[str, object]]:
            attempts.append(page.task.attempt)
            if len(attempts) == 1:
                for pid in browser_pids():  # other tests may have left some open
                    with suppress(ProcessLookupError):  # it ended with its parent
                        os.kill(pid, signal.SIGKILL)
            await page.click("#more")
            yield {"sizes": len(page.css(".size"))}

        results = await crawl(spider)
    assert attempts == [1, 2]
    assert list(results) == [{"sizes": 1}]
    assert results.view.report.errors == {"browser_crash": 1}


# -- without a browser


def test_a_crawl_that_needs_a_browser_says_so_at_once(
    cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code = 'from shoal import Spider\nspider = Spider("s", start="http://127.0.0.1:9/")\n'
    code += '@spider.handler(lane="browser")\ndef product(page): ...\n'
    (tmp_path / "shop.py").write_text(code)
    status, _, err = cli("crawl", "shop.py", "-s", "browser_path=/no/such/browser")
    assert status == 2
    assert "handler 'product' is in the browser lane" in err
    assert "/no/such/browser" in err
    assert "Traceback" not in err


async def test_a_request_for_the_browser_without_one_is_kept_as_a_dead_letter(tmp_path: Path) -> None:
    async with serve(by_path({}, missing=html(FORM))) as server:
        spider = Spider("form", server.url("/"), **SETTINGS)

        @spider.handler
        def listing(page: Page) -> Iterator[object]:
            yield {"url": page.url}
            yield page.follow("/other", lane="browser")

        store = tmp_path / "store.db"
        results = await crawl(spider, store=store, browser_path="/no/such/browser")
    assert len(results) == 1
    async with open_frontier(str(store)) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert letter.kind == "no_browser"


# -- one page


@pytest.fixture
def scripted_page() -> Iterator[str]:
    """The address of a page whose scripts make it, served by a process of its own."""
    from shoal.testing import WebProcess

    with WebProcess({"scripted": HostProfile("scripted", pages=2, shells=1.0)}) as web:
        yield web.url("scripted", "/p/1")


def test_fetch_in_a_browser(
    cli: Callable[..., tuple[int, str, str]], tmp_path: Path, scripted_page: str
) -> None:
    status, plain, _ = cli("fetch", scripted_page, "--json")
    assert status == 0
    assert '"links": 0' in plain.replace('"links":0', '"links": 0')
    status, rendered, err = cli("fetch", scripted_page, "--json", "--screenshot", "page.png")
    assert status == 0, err
    assert '"links": 0' not in rendered.replace('"links":0', '"links": 0')
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
