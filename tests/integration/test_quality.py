"""A shop whose markup breaks, against a real server: it is told and named, and its old rows stay."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal import Page, Request, Results, Spider
from shoal.frontier import open_frontier
from shoal.inspect.freshness import in_words
from shoal.inspect.quality import accept_quality, look_at_quality
from shoal.model import Settlement
from shoal.model.counts import HELD
from shoal.sink.ownership import FileClaim
from shoal.testing.changing_site import ChangingSite, Content, later

PAGES = 12


@pytest.fixture
async def site() -> AsyncIterator[ChangingSite]:
    products = {f"/p{number}": Content(f"{10 + number}.99") for number in range(PAGES)}
    pages = {"/": Content(links=list(products)), **products}
    async with ChangingSite(pages).serving() as site:
        yield site


class Table:
    """A sink that replaces rows by their keys, as a database does."""

    journal = None
    writes_first = True

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}

    async def open(self, asked: FileClaim | None = None) -> None: ...

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        for row in (row for settlement in batch for row in settlement.rows):
            self.rows[row.ident] = json.loads(row.data)["price"]
        return batch

    async def close(self) -> None: ...


class Shop:
    def __init__(self, site: ChangingSite, folder: Path, revisit: str = "1h") -> None:
        self.site, self.store, self.file = site, folder / "store.db", folder / "rows.jsonl"
        spider = self.spider = Spider("shop", start=site.url + "/")

        @spider.handler(revisit=revisit)
        def listing(page: Page) -> Iterator[Request]:
            yield from page.follow_all("a", "product")

        @spider.handler(key="name", revisit=revisit)
        def product(page: Page) -> Iterator[dict[str, Any]]:
            yield {"name": page.text("h1"), "price": page.text(".price") or None}

    def set_all(self, price: Any) -> None:
        for number in range(PAGES):
            self.site.set(f"/p{number}", price(number))

    async def visit(self, output: Any = None, **settings: Any) -> Results:
        results = await shoal.crawl(
            self.spider,
            store=self.store,
            output=output or self.file,
            **{"robots": False, "rate": 0, "once": True, **settings},
        )
        later(self.store, hours=1.01)
        return results

    @property
    def prices(self) -> dict[str, str]:
        """Of each product, by the latest row."""
        rows = map(json.loads, self.file.read_text().splitlines())
        return {row["name"]: row["price"] for row in rows}

    async def alarms(self) -> list[tuple[str, str, str]]:
        async with open_frontier(str(self.store)) as frontier:
            found = [host async for host in look_at_quality(frontier)]
        return [(host.host, one.handler, one.field) for host in found for one in host.alarms]

    async def accept(self) -> None:
        async with open_frontier(str(self.store)) as frontier:
            await accept_quality(frontier, self.host)

    @property
    def host(self) -> str:
        return self.site.url.removeprefix("http://")


async def test_old_rows_stay_until_it_is_mended_or_accepted(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path)
    await shop.visit()
    good = shop.prices
    assert (len(good), await shop.alarms()) == (PAGES, [])
    shop.set_all(lambda number: "")
    results = await shop.visit()
    assert await shop.alarms() == [(shop.host, "product", "price")]
    assert results.view.quality.alarms[0].startswith(f"{shop.host}: field price of handler product is ")
    assert (shop.prices, results.view.job.counts[HELD]) == (good, PAGES)
    fresh = results.view.freshness
    assert fresh is not None
    assert (fresh.held, fresh.failing) == (PAGES, 0)
    said = in_words(fresh, results.view.now)
    assert "12 pages are held back, shoal quality" in said
    assert "failed" not in said
    shop.set_all(lambda number: f"{11 + number}.99")
    await shop.visit()
    assert await shop.alarms() == []
    shop.set_all(lambda number: "")
    await shop.visit()
    assert await shop.alarms()
    await shop.accept()
    await shop.visit()
    assert set(shop.prices.values()) == {None}


async def test_old_rows_stay_for_a_week_at_most(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path)
    await shop.visit()
    good = shop.prices
    shop.set_all(lambda number: "")
    for _ in range(4):
        await shop.visit()
    assert shop.prices == good
    later(shop.store, hours=7 * 24)
    await shop.visit()
    assert set(shop.prices.values()) == {None}
    assert await shop.alarms() == [(shop.host, "product", "price")], "it is still told"


async def test_prices_without_their_decimal_point_are_told_and_written(
    site: ChangingSite, tmp_path: Path
) -> None:
    shop = Shop(site, tmp_path)
    await shop.visit()
    shop.set_all(lambda number: f"{10 + number}99")
    for _ in range(2):
        results = await shop.visit()
        assert await shop.alarms() == [(shop.host, "product", "price")]
        assert results.view.quality.alarms[0].startswith(f"{shop.host}: field price of handler product is ")
    assert shop.prices["/p3"] == "1399"
    shop.set_all(lambda number: f"{11 + number}.99")
    await shop.visit()
    assert (await shop.alarms(), shop.prices["/p3"]) == ([], "14.99")


async def test_numbers_that_stay_as_they_are_for_a_week_are_normal(
    site: ChangingSite, tmp_path: Path
) -> None:
    shop = Shop(site, tmp_path)
    await shop.visit()
    for more in range(3):
        shop.set_all(lambda number: f"{1000 + 100 * number + more}")  # noqa: B023
        await shop.visit()
        assert await shop.alarms()
    later(shop.store, hours=7 * 24)
    shop.set_all(lambda number: f"{1010 + 100 * number}")
    await shop.visit()
    assert await shop.alarms() == []


async def test_pages_that_are_as_they_were_end_an_alarm(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path)
    await shop.visit()
    good = shop.prices
    shop.set_all(lambda number: "")
    await shop.visit()
    for number in range(PAGES):
        site.set(f"/p{number}", f"{10 + number}.99")
    await shop.visit()
    assert (await shop.alarms(), shop.prices) == ([], good)


async def test_one_page_alone_is_written_after_two_more_looks(site: ChangingSite, tmp_path: Path) -> None:
    shop = Shop(site, tmp_path)
    await shop.visit()
    site.set("/p3", "")
    for held in ("13.99", "13.99", None):
        await shop.visit()
        assert shop.prices["/p3"] == held
    assert await shop.alarms() == []


async def test_runs_into_a_table_that_has_rows(site: ChangingSite, tmp_path: Path) -> None:
    shop, table = Shop(site, tmp_path, revisit="never"), Table()
    await shop.visit(table, job="monday")
    good = dict(table.rows)
    shop.set_all(lambda number: "")
    site.set("/p0", "9.99")
    results = await shop.visit(table, job="tuesday")
    assert await shop.alarms() == [(shop.host, "product", "price")]
    assert table.rows == {**good, "/p0": "9.99"}
    assert results.view.job.counters.rejected == PAGES - 1


@pytest.mark.parametrize("quality", ["warn", "off"])
async def test_nothing_is_held_unless_it_is_wanted(site: ChangingSite, tmp_path: Path, quality: str) -> None:
    shop = Shop(site, tmp_path)
    await shop.visit(quality=quality)
    shop.set_all(lambda number: "")
    await shop.visit(quality=quality)
    assert set(shop.prices.values()) == {None}
    assert bool(await shop.alarms()) == (quality == "warn")


# -- what is there is written


async def test_numbers_that_begin_at_0_and_rise_are_all_written(tmp_path: Path) -> None:
    products = {f"/p{number}": Content("0") for number in range(30)}
    async with ChangingSite({"/": Content(links=list(products)), **products}).serving() as site:
        shop = Shop(site, tmp_path)
        outputs = [shop.file, f"changes={tmp_path}/changes.jsonl"]
        await shop.visit(outputs)
        for price in range(1, 5):
            for path in products:
                site.set(path, str(price))
            results = await shop.visit(outputs)
            assert set(shop.prices.values()) == {str(price)}
        assert len((tmp_path / "changes.jsonl").read_text().splitlines()) == 4 * 30
        assert (await shop.alarms(), results.view.job.counts.get(HELD)) == ([], None)


_RNG = random.Random(7)
_RISING = {
    "from cents": lambda number, visit: f"{0.01 * (number + 1) * 3**visit:.2f}",
    "tenfold each time": lambda number, visit: f"{0.5 * 10**visit}",
    "stock levels": lambda number, visit: str(int(10 ** _RNG.uniform(0, 4))),
    "views": lambda number, visit: str(visit**4 * (number + 1) ** 2),
    "timestamps": lambda number, visit: str(1_700_000_000 + 3600 * visit + number),
    "ids": lambda number, visit: str(_RNG.randrange(10**9)),
    "large currency": lambda number, visit: f"{(number + 1) * (95_000 + 4_000 * visit):,} \u20ab",
    "a sale": lambda number, visit: f"{(number + 1) * (10 if visit % 2 else 100)}.99",
    "it loses its decimal point": lambda number, visit: f"{number + 10}{'' if visit else '.'}99",
}


@pytest.mark.parametrize("price", _RISING.values(), ids=_RISING.keys())
async def test_numbers_are_written_whatever_they_are(site: ChangingSite, tmp_path: Path, price: Any) -> None:
    shop = Shop(site, tmp_path)
    for visit in range(4):
        shown = [price(number, visit) for number in range(PAGES)]
        shop.set_all(shown.__getitem__)
        results = await shop.visit()
        assert [shop.prices[f"/p{number}"] for number in range(PAGES)] == shown
    assert results.view.job.counts.get(HELD) is None
