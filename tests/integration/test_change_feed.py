"""What has changed on pages that are visited again, and where that is written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal import Page, Request, Spider
from shoal.errors import SpiderError
from shoal.testing.changing_site import ChangingSite, Content, later


@pytest.fixture
async def site() -> AsyncIterator[ChangingSite]:
    pages = {"/": Content(links=["/a", "/b"]), "/a": Content("10"), "/b": Content("20")}
    async with ChangingSite(pages).serving() as site:
        yield site


class Shop:
    def __init__(self, site: ChangingSite, folder: Path, *outputs: str, **settings: Any) -> None:
        self.folder, self.store = folder, folder / "store.db"
        self.outputs = [text.replace("DIR", str(folder)) for text in outputs]
        self.settings = {"robots": False, "rate": 0, "once": True, "retry_base": 0.01, **settings}
        spider = self.spider = Spider("shop", start=site.url + "/")

        @spider.handler(revisit="1h")
        def listing(page: Page) -> Iterator[Request]:
            yield from page.follow_all("a", "product")

        @spider.handler(key="name", revisit="1h")
        def product(page: Page) -> Iterator[dict[str, str]]:
            yield {"name": page.text("h1"), "price": page.text(".price")}

    async def visit(self) -> None:
        """Crawls what is due. Afterwards an hour has passed."""
        self.results = await shoal.crawl(self.spider, store=self.store, output=self.outputs, **self.settings)
        later(self.store, hours=1.01)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """None as long as nothing was written: the job has not ended."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_changes_are_written_to_the_output_that_names_them(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path, "DIR/rows.jsonl", "changes=DIR/changes.jsonl", "DIR/{item}.csv")
    await shop.visit()
    assert shop.lines("changes.jsonl") == [], "the first crawl is no news"
    site.set("/a", "12")
    site.pages["/"].links = ["/a", "/b", "/c"]
    site.pages["/c"] = Content("30")
    await shop.visit()
    site.pages["/b"].status = 404
    await shop.visit()
    await shop.visit()
    told = [
        (one["change"], one["key"], one["field"], one["old"], one["new"])
        for one in shop.lines("changes.jsonl")
    ]
    assert sorted(told, key=str) == [
        ("appeared", "/c", None, None, {"name": "/c", "price": "30"}),
        ("changed", "/a", "price", "10", "12"),
        ("vanished", "/b", None, {"name": "/b", "price": "20"}, None),
    ]
    assert [one["price"] for one in shop.lines("rows.jsonl")] == ["10", "20", "12", "30"]
    assert shop.results.view.job.counters.items == 4, "changes are no items"
    assert shop.lines("changes.csv") == []


async def test_without_such_an_output_they_are_written_nowhere(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path, "DIR/rows.jsonl")
    await shop.visit()
    site.set("/a", "12")
    await shop.visit()
    assert [one["price"] for one in shop.lines("rows.jsonl")] == ["10", "20", "12"]


async def test_only_changes(site: ChangingSite, tmp_path: Path) -> None:
    """Items go to a file of their own, as ever, and changes do not go there."""
    shop = Shop(site, tmp_path, "changes=DIR/changes.jsonl")
    await shop.visit()
    site.set("/a", "12")
    await shop.visit()
    assert [one["field"] for one in shop.lines("changes.jsonl")] == ["price"]
    assert [one["price"] for one in shop.lines("shop.jsonl")] == ["10", "20", "12"]


async def test_ignored_fields(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path, "DIR/rows.jsonl", "changes=DIR/changes.jsonl", changes_ignore=["price"])
    await shop.visit()
    site.set("/a", "12")
    await shop.visit()
    assert len(shop.lines("rows.jsonl")) == 2
    assert shop.lines("changes.jsonl") == []


def test_the_name_is_taken() -> None:
    spider = Spider("shop")

    def product(page: Page) -> None: ...

    with pytest.raises(
        SpiderError, match=r"handler 'product': items of the kind 'changes' are those that tell"
    ):
        spider.handler(item="changes")(product)
    with pytest.raises(SpiderError, match="another name"):
        spider.handler(name="changes")(product)
