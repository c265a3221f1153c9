"""Sites whose pages need scripts: all is found, and few pages are opened in a browser in vain, by the server's log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

import shoal
from shoal import Page, Spider
from shoal.fetch.browser.executable import available
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, Hit, HostProfile

pytestmark = pytest.mark.skipif(not available(Settings()), reason="no browser")

DEADLINE = 240
SETTINGS: dict[str, Any] = {"rate": 0, "per_host": 4, "browser_wait": "h1"}


def spider_of(web: ChaoticWeb, **settings: object) -> Spider:
    spider = Spider("scripted", web.url("site"), **{**SETTINGS, **settings})

    @spider.handler(key="url")
    def page(page: Page) -> Any:
        yield {"url": page.url, "title": page.text("title"), "topic": page.text("h1")}
        yield from page.follow_all("nav a")

    return spider


async def crawl(spider: Spider) -> shoal.Results:
    async with asyncio.timeout(DEADLINE):
        return await shoal.crawl(spider)


def visits(web: ChaoticWeb) -> list[Hit]:
    """Pages that a browser opened, not what their scripts fetched."""
    return [hit for hit in web.hits_of("site") if hit.in_browser and "/data/" not in hit.path]


def titles(web: ChaoticWeb) -> dict[str, str]:
    """What is to be found, as the plain form of each page says it."""
    site = web.site_of("site")
    found = {}
    for number in range(site.pages):
        html = site.html(number).decode()
        found[web.url("site", site.path(number))] = html.partition("<title>")[2].partition("</title>")[0]
    return found


async def test_a_third_of_the_pages_are_shells(record_property: Callable[[str, object], None]) -> None:
    """Apart from the others. Shells among them are in tests/unit/test_escalation_crawl.py."""
    async with ChaoticWeb({"site": HostProfile("scripted", pages=45, shells_at="/app/")}, seed=8) as web:
        results = await crawl(spider_of(web))
        assert {row["url"]: row["title"] for row in results} == titles(web), "all data, and nothing empty"
        opened, shells = {web.url("site", hit.path) for hit in visits(web)}, web.shells_of("site")
        plain = [web.url("site", hit.path) for hit in web.hits_of("site") if not hit.in_browser]
    twice = shells & set(plain)
    record_property("opened, fetched twice", [len(opened), len(twice)])
    assert opened == shells
    assert len(twice) < 0.8 * len(shells), "after a few, the others are not asked for in vain"


def event_of(record: logging.LogRecord) -> str:
    return str(getattr(record, "event", ""))


async def test_a_site_that_needs_scripts_no_more_is_fetched_plainly_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    profile = HostProfile("scripted", pages=150, shells=1.0, plain_after=14)
    caplog.set_level("INFO", "shoal")
    async with ChaoticWeb({"site": profile}, seed=5) as web:
        results = await crawl(spider_of(web))
        assert {row["url"]: row["title"] for row in results} == titles(web)
        opened = visits(web)
        pages = [hit for hit in web.hits_of("site") if "/p/" in hit.path]
    told = {
        event: record.created for record in caplog.records if "escalation_" in (event := event_of(record))
    }
    assert list(told) == ["escalation_learned", "escalation_given_back"]
    assert len(opened) < 100
    given_back = told["escalation_given_back"] + time.monotonic() - time.time()
    late = [hit for hit in pages if hit.in_browser and hit.started > given_back]
    # A tab for each, and as many that were claimed while those were open.
    assert len(late) <= 2 * Settings().browser_tabs, "those that were about to be opened, and no others"
