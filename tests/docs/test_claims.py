"""Sentences of the documents about how a crawl behaves, tried out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import shoal
from shoal.errors import HandlerMissing
from shoal.frontier import open_frontier
from shoal.testing import ChaoticWeb, HostProfile


@pytest.fixture
async def web() -> AsyncIterator[ChaoticWeb]:
    async with ChaoticWeb(
        {"here": HostProfile("fast", pages=6, links=3), "there": HostProfile("fast", pages=2)}
    ) as web:
        yield web


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_anywhere_is_exempt_even_if_the_link_was_refused_before(web: ChaoticWeb) -> None:
    """spiders.md: `anywhere=True` is exempt from the limits on hosts."""
    elsewhere = web.url("there", "/p/1")
    spider = shoal.Spider("test", start=web.url("here"), allow_network=["127.0.0.0/8"])
    seen: list[str] = []

    @spider.handler
    def page(page: shoal.Page):
        seen.append(page.url)
        yield {"url": page.url}
        if page.url != elsewhere:
            yield from page.follow_all("a")
            yield page.follow(elsewhere, anywhere=len(seen) > 1)

    results = await shoal.crawl(spider, rate=0, per_host=1)
    assert {row["url"] for row in results} == web.pages_of("here") | {elsewhere}


async def test_a_larger_page_budget_lets_a_finished_job_go_on(web: ChaoticWeb) -> None:
    """failure.md: settings may differ from the last run."""
    spider = shoal.Spider("test", start=web.url("here"), rate=0)

    @spider.handler
    def page(page: shoal.Page):
        yield {"url": page.url}
        yield from page.follow_all("a")

    for budget, rows in ((2, 2), (4, 4), (0, 6)):
        results = await shoal.crawl(spider, store="a.db", output="rows.jsonl", max_pages=budget)
        assert results.view.job.counters.items == rows


async def test_pages_of_a_renamed_handler_wait_for_it(web: ChaoticWeb) -> None:
    """spiders.md: a job whose tasks name a handler which no longer exists is paused."""

    def spider_with(name: str) -> shoal.Spider:
        spider = shoal.Spider("test", start=web.url("here"), rate=0)
        spider.add_handler(lambda page: page.follow("/p/1", name), name="first")
        spider.add_handler(lambda page: {"url": page.url}, name=name)
        return spider

    await shoal.crawl(spider_with("old"), store="a.db", max_pages=1)
    with pytest.raises(HandlerMissing, match=r"pages wait for handler 'old'.*it has first, new"):
        await shoal.crawl(spider_with("new"), store="a.db")
    async with open_frontier("a.db") as frontier:
        [job] = await frontier.jobs()
        assert (job.counters.pending, job.counters.dead) == (1, 0)
    results = await shoal.crawl(spider_with("old"), store="a.db")
    assert [row["url"] for row in results] == [web.url("here", "/p/1")]
