"""Rejected items from code, and what hooks see of them when they are replayed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import shoal
from shoal import Page, Spider
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.limits import REJECTED_ITEMS
from shoal.model import REJECTED
from shoal.runtime.results import Results


@dataclass
class Product:
    sku: str
    price: float


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text="<h1>shop</h1>", content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


def make_spider(site: str, items: list[Any], **options: Any) -> Spider:
    spider = Spider("s", start=site, rate=0, robots=False)

    @spider.handler(**{"item": Product, "key": "sku", **options})
    def page(page: Page) -> Any:
        yield from items
        yield page.follow("/found", other)

    @spider.handler
    def other(page: Page) -> Any:
        yield {"other": page.url}

    return spider


async def crawl(spider: Spider, store: Path) -> Results:
    return await shoal.crawl(spider, store=str(store / "store.db"))


async def replay(store: Path) -> int:
    async with open_frontier(str(store / "store.db")) as frontier:
        return await frontier.replay(DeadFilter(kind=REJECTED))


async def test_from_code(site: str) -> None:
    bad = [{"sku": "b", "price": "?"}, {"price": 1}, {"sku": object(), "price": 1}, Product("", 2.0)]
    results = await shoal.crawl(make_spider(site, [{"sku": "a", "price": "1"}, *bad]))
    assert list(results) == [{"sku": "a", "price": 1.0}, {"other": f"{site}found"}]
    counters = results.view.job.counters
    assert (counters.rejected, counters.dead, counters.done) == (4, 0, 2)
    assert results.view.report.rejected == 4
    assert {one.reason.partition(" (")[0] for one in results.rejected} == {
        "Expected `float`, got `str`",
        "Object missing required field `sku`",
        "it is not JSON: field 'sku' is of type object",
        "its key field 'sku' is empty",
    }
    assert [one.whole for one in results.rejected].count(False) == 1
    assert {one.url for one in results.rejected} == {site}
    assert {one.host for one in results.rejected} == {site.removeprefix("http://").rstrip("/")}


async def test_more_rejected_items_than_can_be_kept_bury_their_page(site: str, tmp_path: Path) -> None:
    results = await crawl(make_spider(site, [{"sku": "a", "price": "?"}] * (REJECTED_ITEMS + 1)), tmp_path)
    assert (results.view.job.counters.rejected, results.view.job.counters.dead) == (0, 1)
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert letter.kind == "junk"
    assert (
        "yielded 10,001 items that are rejected, such as: Expected `float`" in letter.task.history[-1].detail
    )


async def test_an_item_that_cannot_be_replayed_stays_rejected(site: str, tmp_path: Path) -> None:
    spider = make_spider(site, [{"sku": object(), "price": 1}])
    await crawl(spider, tmp_path)
    for _ in range(2):
        assert await replay(tmp_path) == 1
        [one] = (await crawl(spider, tmp_path)).rejected
        assert one.reason.startswith(
            "it was not kept whole, so it cannot be replayed; before that: it is not JSON"
        )
        assert one.reason.count("not kept whole") == 1


async def test_replayed_items_wait_for_no_host(site: str, tmp_path: Path) -> None:
    """Nor do they get the limits of the settings when the job is resumed."""
    spider = make_spider(site, [{"sku": str(n), "price": "?"} for n in range(5)])
    await crawl(spider, tmp_path)
    assert await replay(tmp_path) == 5
    spider = make_spider(site, [], item="")
    spider.settings["rate"] = 0.02  # one in 50 seconds
    async with asyncio.timeout(60):
        results = await crawl(spider, tmp_path)
    assert len(results) == 5


async def test_hooks_see_a_replayed_item_as_it_was_yielded(site: str, tmp_path: Path) -> None:
    """Not as they left it: a hook that changes it in place would do so twice. A mended hook makes a row of it."""
    seen: list[tuple[Any, str, str]] = []

    def hooked(strip: str) -> Spider:
        spider = make_spider(site, [{"sku": "a", "price": "12 €"}])

        @spider.on_item(handler="page")
        def clean(item: dict[str, Any], page: Page) -> None:
            seen.append((item["price"], page.url, page.handler))
            item["price"] = item["price"].strip(strip)

        return spider

    results = await crawl(hooked("$"), tmp_path)
    assert results.rejected[0].item == {"sku": "a", "price": "12 €"}
    assert await replay(tmp_path) == 1
    results = await crawl(hooked(" €"), tmp_path)
    assert list(results) == [{"sku": "a", "price": 12.0}]
    assert results.rejected == []
    assert seen == [("12 €", site, "page")] * 2


async def test_of_an_item_that_a_hook_has_split_only_the_rejected_piece_is_kept(
    site: str, tmp_path: Path
) -> None:
    calls: list[Any] = []

    def split(item: dict[str, Any], page: Page) -> list[dict[str, Any]]:
        calls.append(dict(item))
        return [{"sku": sku, "price": price} for sku, price in item["offers"]]

    def spider_of(schema: object) -> Spider:
        spider = make_spider(site, [{"offers": [("a", 1), ("b", "x"), ("c", 3)]}], item=schema, key=None)
        spider.on_item(handler="page")(split)
        return spider

    @dataclass
    class Offer:
        sku: str
        price: float | str

    results = await crawl(spider_of(Product), tmp_path)
    assert [row["sku"] for row in results if "sku" in row] == ["a", "c"]
    assert [one.item for one in results.rejected] == [{"sku": "b", "price": "x"}]
    await replay(tmp_path)
    results = await crawl(spider_of(Offer), tmp_path)
    assert list(results) == [{"sku": "b", "price": "x"}], "the others are rows already"
    assert len(calls) == 1


async def test_a_hook_may_fetch_for_a_replayed_item(site: str, tmp_path: Path) -> None:
    await crawl(make_spider(site, [{"sku": "a", "price": "?"}]), tmp_path)
    await replay(tmp_path)
    spider = make_spider(site, [])

    @spider.on_item(handler="page")
    async def enrich(item: dict[str, Any], page: Page) -> None:
        assert (page.url, page.status, page.body) == (site, 0, b"")
        rates = await page.fetch("/rates")
        item["price"] = len(rates.body)

    results = await crawl(spider, tmp_path)
    assert list(results) == [{"sku": "a", "price": 13.0}]


async def test_a_hook_that_makes_too_many_of_a_replayed_item_buries_it(site: str, tmp_path: Path) -> None:
    await crawl(make_spider(site, [{"sku": "a", "price": "?"}]), tmp_path)
    await replay(tmp_path)
    spider = make_spider(site, [])

    @spider.on_item(handler="page")
    def multiply(item: Any, page: Page) -> list[Any]:
        return [item] * (REJECTED_ITEMS + 1)

    assert (await crawl(spider, tmp_path)).view.job.counters.dead == 1
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert (letter.kind, letter.task.body) == ("junk", b'{"sku":"a","price":"?"}'), "the item is not lost"


@pytest.mark.parametrize(
    ("said", "kind", "dropped"),
    [
        (lambda: shoal.Drop("old"), None, 1),
        (lambda: RuntimeError("broken"), "hook", 0),
    ],
)
async def test_a_hook_may_drop_a_replayed_item_or_fail(
    site: str, tmp_path: Path, said: Callable[[], Exception], kind: str | None, dropped: int
) -> None:
    await crawl(make_spider(site, [{"sku": "a", "price": "?"}]), tmp_path)
    await replay(tmp_path)
    spider = make_spider(site, [])

    @spider.on_item(handler="page")
    def decide(item: Any, page: Page) -> None:
        raise said()

    job = (await crawl(spider, tmp_path)).view.job
    assert job.counts.get("dropped: old", 0) == dropped
    assert (job.counters.rejected, job.counters.dead) == (0, 1 if kind else 0)
    assert (job.counters.done, job.counters.admitted) == (2, 3 if kind else 2)
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        assert [letter.kind for letter in await frontier.dead(DeadFilter())] == ([kind] if kind else [])
