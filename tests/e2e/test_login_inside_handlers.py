"""Requests inside a handler notice that their session has ended: their page waits for the next login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import shoal
from shoal import FetchFailed, Page, Spider
from shoal.testing.shop import ACCOUNTS, Shop, ShopSpec

USER, PASSWORD = next(iter(ACCOUNTS.items()))


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def members(shop: Shop, links: str = "li.product a") -> Spider:
    spider = Spider("members", start=f"{shop.url}/list", rate=0, retry_base=0.01)

    @spider.login("form#login")
    async def login(session: shoal.LoginSession) -> None:
        page = await session.fetch(f"{shop.url}/login")
        await session.submit_form(page, "form#login", {"user": USER, "password": PASSWORD})

    @spider.handler
    def listing(page: Page):
        yield from page.follow_all(links, "product")

    return spider


def read_rows() -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in Path("rows.jsonl").read_bytes().splitlines()]


# The shop shows its login in place of products with an even number, and leads there from the others.
@pytest.mark.parametrize(("wall", "odd"), [("login wall", 0), ("login redirect", 1)])
async def test_no_login_page_is_taken_for_a_page_that_a_handler_asked_for(wall: str, odd: int) -> None:
    async with Shop(ShopSpec(18, session_pages=7, sold_out=0)) as shop:
        listed = [number for number in shop.catalogue.listed() if number % 2 == odd]
        wanted = [shop.catalogue.product(number) for number in listed]
        spider = members(shop, ", ".join(f"li[data-sku={product.sku}] a" for product in wanted))

        @spider.handler
        async def product(page: Page):
            tables = [await page.fetch(url) for url in page.links(".variants a")]
            skus = [sku for table in tables for sku in table.attrs("tr[data-sku]", "data-sku")]
            yield {"sku": page.text(".sku"), "variants": skus}

        results = await shoal.crawl(spider, max_attempts=2)
        expected = {product.sku: [variant.sku for variant in product.variants] for product in wanted}
        assert {row["sku"]: row["variants"] for row in results} == expected
        log = shop.log()
        assert log.count()[wall] > 0
        assert log.logins_at_once() == 1
        assert all(login.good and not login.alive for login in log.logins)


async def test_no_login_page_is_kept_as_a_file() -> None:
    spec = ShopSpec(40, file_bytes=3_000, session_pages=7, sold_out=0, private_files=True)
    async with Shop(spec) as shop:
        # Those that show the login in their place: a session ends at one of them in every run.
        listed = [number for number in shop.catalogue.listed()[:20] if number % 2 == 0]
        wanted = [shop.catalogue.product(number) for number in listed]
        spider = members(shop, ", ".join(f"li[data-sku={product.sku}] a" for product in wanted))

        @spider.handler(files=["files"])
        def product(page: Page):
            yield {"sku": page.text(".sku"), "files": page.links("li.file a")}

        results = await shoal.crawl(spider, max_attempts=2, depth=1, output="rows.jsonl")
        rows = read_rows()
        found = {row["sku"]: [file["sha256"] for file in row["files"]] for row in rows}
        assert found == {product.sku: [file.sha256 for file in product.files] for product in wanted}
        assert results.view.job.counters.dead == 0
        assert shop.log().count()["login wall"] > 0


async def test_a_page_that_always_looks_logged_out_is_given_up() -> None:
    async with Shop(ShopSpec(2, sold_out=0)) as shop:
        spider = members(shop)
        assert spider.logs_in is not None
        spider.logs_in = replace(spider.logs_in, logged_out=lambda page: "for-members" in page.url)
        kinds: list[str] = []

        @spider.handler
        async def product(page: Page):
            try:
                await page.fetch("/list?for-members=1")
            except FetchFailed as failed:
                kinds.append(failed.kind)
                raise

        results = await shoal.crawl(spider, max_attempts=2)
        assert (results.view.job.counters.done, results.view.job.counters.dead) == (1, 2)
        assert set(kinds) <= {"logged_out", "session_wait", "login_failed"}
        assert kinds.count("logged_out") <= 20
