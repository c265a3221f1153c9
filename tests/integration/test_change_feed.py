"""What has changed on pages that are visited again, and where that is written."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
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
            for link in page.css("a"):
                yield page.follow(link, "reviews" if "review" in link.text() else "product")

        @spider.handler(key="name", revisit="1h")
        def product(page: Page) -> Iterator[dict[str, str]]:
            yield {"name": page.text("h1"), "price": page.text(".price")}

        @spider.handler(revisit="1h", item="review")
        def reviews(page: Page) -> Iterator[dict[str, str]]:
            for one in page.css("li"):
                yield {"text": one.text()}

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


async def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def test_postgresql(site: ChangingSite, tmp_path: Path, postgres: str) -> None:
    """Rows are replaced, also those without a key; unchanged ones are checked; the feed is a table."""
    site.pages["/"].links = ["/a", "/b", "/review"]
    site.pages["/review"] = Content(more="<ul><li>good</li><li>bad</li><li>so so</li></ul>")
    mark = "&" if "?" in postgres else "?"
    shop = Shop(site, tmp_path, f"{postgres}{mark}history=1", f"changes={postgres}")
    await shop.visit()
    site.set("/a", "12")
    site.pages["/review"].more = "<ul><li>new</li><li>good</li><li>so so</li></ul>"
    site.set("/review", "1")
    await shop.visit()
    price = "SELECT key, item->>'price' FROM product ORDER BY key"
    assert await ask(postgres, price) == [("/a", "12"), ("/b", "20")]
    texts = await ask(postgres, "SELECT item->>'text' FROM review ORDER BY key")
    assert texts == [("new",), ("good",), ("so so",)]
    assert [new for (new,) in await ask(postgres, "SELECT new->>'price' FROM product_changes")] == ["12"]
    told = "SELECT item->>'change', item->>'key', item->>'old' FROM changes ORDER BY 1, 2"
    assert await ask(postgres, told) == [
        ("appeared", None, None),
        ("changed", "/a", "10"),
        ("vanished", None, '{"text": "bad"}'),
    ]
    times = "SELECT checked_at - fetched_at > interval '30 minutes' FROM {} ORDER BY key"
    assert await ask(postgres, times.format("product")) == [(False,), (True,)], (
        "/b was not fetched, but checked"
    )
    await shop.visit()
    assert set(await ask(postgres, times.format("product"))) == {(True,)}
    assert set(await ask(postgres, times.format("review"))) == {(True,)}
    assert await ask(postgres, price) == [("/a", "12"), ("/b", "20")]
    ran = run_shoal("changes", "shop", "--store", str(shop.store), "--json", "--field", "price")
    assert [one["new"] for one in json.loads(ran)["changes"]] == ["12"]


def run_shoal(*words: str, code: int = 0) -> str:
    """What it prints; if it is to fail, what it complains of."""
    ran = subprocess.run([sys.executable, "-m", "shoal", *words], capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stderr if code else ran.stdout


@pytest.mark.parametrize("name", ["changes.csv", "changes.sqlite", "changes.parquet"])
async def test_shoal_changes_reads_every_format(site: ChangingSite, tmp_path: Path, name: str) -> None:
    shop = Shop(site, tmp_path, "DIR/rows.jsonl", f"changes=DIR/{name}")
    await shop.visit()
    site.set("/a", "12")
    site.pages["/"].links = ["/a", "/b", "/c"]
    site.pages["/c"] = Content("30")
    await shop.visit()
    said = run_shoal("changes", "shop", "--store", str(shop.store))
    lines = [re.split(r"  +", line.strip()) for line in said.splitlines()[1:-1]]
    assert sorted(line[1:] for line in lines) == [
        ["/a", "price", "10", "12", "▲ +20.0%"],
        ["/c", "+ appeared", "30"],
    ]


async def test_a_job_without_such_an_output(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path, "DIR/rows.jsonl")
    await shop.visit()
    site.set("/a", "12")
    await shop.visit()
    said = run_shoal("changes", "shop", "--store", str(shop.store), code=2)
    assert "crawl with -o changes=changes.jsonl" in said
    assert said.count("\n") == 1
    now = tmp_path / "now.jsonl"
    run_shoal("export", "shop", "--store", str(shop.store), "--latest", "--key", "name", "-o", str(now))
    assert [one["price"] for one in shop.lines("now.jsonl")] == ["20", "12"]


async def test_sqlite(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path, "DIR/rows.sqlite")
    await shop.visit()
    for price in ("12", "13"):
        site.set("/a", price)
        await shop.visit()
    db = sqlite3.connect(tmp_path / "rows.sqlite")
    rows = db.execute("SELECT name, price, _checked_at IS NOT NULL FROM product ORDER BY name").fetchall()
    assert rows == [("/a", "13", 1), ("/b", "20", 1)]
    noted = db.execute("SELECT key, old, new FROM product_changes ORDER BY at").fetchall()
    assert noted == [("/a", '{"price":"10"}', '{"price":"12"}'), ("/a", '{"price":"12"}', '{"price":"13"}')]
    db.close()
