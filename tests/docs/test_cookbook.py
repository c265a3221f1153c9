"""Every recipe of the cookbook runs, against the shop, and yields what the shop sells."""

from __future__ import annotations

import hashlib
import re
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import shoal
from shoal.testing.proxy_server import ProxyServer
from shoal.testing.shop import ACCOUNTS, Shop, ShopSpec
from shoal.testing.shop.catalogue import Catalogue

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"
RECIPES: dict[str, str] = dict(
    re.findall(
        r"^## (.+?)$(?:(?!^## ).)*?^```python\n(.*?)^```$",
        COOKBOOK.read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
PRODUCTS = 30


@pytest.fixture(autouse=True)
def accounts_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_USER", "member-1")
    monkeypatch.setenv("SHOP_PASSWORD", ACCOUNTS["member-1"])
    monkeypatch.setenv("SHOP_ACCOUNTS", " ".join(f"{name}:{password}" for name, password in ACCOUNTS.items()))


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    name = request.param
    spec = ShopSpec(
        PRODUCTS,
        file_bytes=2_000,
        session_pages=25,
        signed_api=name == "Signed requests",
        sold_out=2 if name in ("Retry on content", "Rejected items") else 0,
        members_only=name in ("Login", "Several accounts"),
    )
    async with Shop(spec) as shop:
        yield shop


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProxyServer]:
    async with ProxyServer() as proxy:
        monkeypatch.setenv("SHOP_PROXY", proxy.url)
        yield proxy


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    module = types.ModuleType("shoal_recipe")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    yield module
    del sys.modules[module.__name__]


class Cooked(Struct):
    """What a recipe gave, and what there was to get."""

    rows: list[dict[str, Any]]
    counts: Mapping[str, int]
    rejected: Sequence[Any]
    shop: Shop
    proxy: ProxyServer

    @property
    def catalogue(self) -> Catalogue:
        return self.shop.catalogue


def check_login(cooked: Cooked) -> None:
    listed = map(cooked.catalogue.product, cooked.catalogue.listed())
    found = sorted((row["sku"], row["price"]) for row in cooked.rows)
    assert found == [(product.sku, product.price) for product in listed]
    log = cooked.shop.log()
    assert log.logins_at_once() == 1
    assert all(login.good and not login.alive for login in log.logins)


def check_accounts(cooked: Cooked) -> None:
    check_login(cooked)
    assert (
        {row["as"] for row in cooked.rows}
        == {login.account for login in cooked.shop.log().logins}
        == set(ACCOUNTS)
    )


def check_stock(cooked: Cooked) -> None:
    catalogue = cooked.catalogue
    expected = [{"sku": p.sku, "stock": catalogue.stock(p.number)} for p in catalogue.all_products()]
    rows = [{"sku": row["sku"], "stock": row["stock"]} for row in cooked.rows if "stock" in row]
    assert sorted(rows, key=lambda row: row["sku"]) == expected


def check_signed(cooked: Cooked) -> None:
    check_stock(cooked)
    assert cooked.shop.log().count()["unsigned"] == 0


def check_sale(cooked: Cooked) -> None:
    expected = [cooked.catalogue.product(number).name for number in cooked.catalogue.clearance()]
    assert [row["name"] for row in cooked.rows] == expected


def check_files(cooked: Cooked) -> None:
    listed = [cooked.catalogue.product(number) for number in cooked.catalogue.listed()]
    found = {
        row["sku"]: [(file["size"], file["sha256"], file["type"]) for file in row["files"]]
        for row in cooked.rows
    }
    assert found == {p.sku: [(f.size, f.sha256, f.media_type) for f in p.files] for p in listed}
    for file in [file for row in cooked.rows for file in row["files"]]:
        assert hashlib.sha256(Path(file["path"]).read_bytes()).hexdigest() == file["sha256"]


def check_patience(cooked: Cooked) -> None:
    listed = [cooked.catalogue.product(number) for number in cooked.catalogue.listed()]
    expected = [{"sku": product.sku, "price": product.price} for product in listed]
    assert sorted(cooked.rows, key=lambda row: row["sku"]) == expected
    assert cooked.shop.log().count()["sold out"] == 2


def check_variants(cooked: Cooked) -> None:
    listed = map(cooked.catalogue.product, cooked.catalogue.listed())
    found = {row["sku"]: row["variants"] for row in cooked.rows}
    assert found == {product.sku: [variant.sku for variant in product.variants] for product in listed}


def check_enrichment(cooked: Cooked) -> None:
    catalogue = cooked.catalogue
    found = {row["sku"]: (row["name"], row["stock"]) for row in cooked.rows}
    listed = [catalogue.product(number) for number in catalogue.listed()]
    assert found == {product.sku: (product.name, catalogue.stock(product.number)) for product in listed}


def check_kinds(cooked: Cooked) -> None:
    check_stock(cooked)
    listed = {(f"/product/{n}", cooked.catalogue.product(n).name) for n in cooked.catalogue.listed()}
    products = [(row["path"], row["name"]) for row in cooked.rows if row["kind"] == "product"]
    assert (len(products), set(products)) == (len(listed), listed)


def check_proxy(cooked: Cooked) -> None:
    via = {row["url"].removeprefix(cooked.shop.url): row["via"] for row in cooked.rows}
    assert via == {"/list?page=1": "", "/list?page=2": cooked.proxy.address}
    assert [head.split()[1].endswith(b"/list?page=2") for head in cooked.proxy.heads] == [True]


def check_counters(cooked: Cooked) -> None:
    assert cooked.counts == {"products": len(cooked.catalogue.listed()), "pages that are not full": 1}


def check_rejected(cooked: Cooked) -> None:
    listed = [cooked.catalogue.product(number) for number in cooked.catalogue.listed()]
    expected = [(p.sku, float(p.price)) for p in listed if not cooked.catalogue.sells_out(p.number)]
    assert sorted((row["sku"], row["price"]) for row in cooked.rows) == expected
    [one] = cooked.rejected
    assert one.item == {"sku": "", "name": cooked.catalogue.product(7).name, "price": ""}
    assert one.reason == "Expected `float`, got `str` (field price)"


CHECKS: dict[str, Callable[[Cooked], None]] = {
    "Login": check_login,
    "Several accounts": check_accounts,
    "An API with a cursor": check_stock,
    "Signed requests": check_signed,
    "A search form": check_sale,
    "Files": check_files,
    "Retry on content": check_patience,
    "Variants from two pages": check_variants,
    "Enrichment": check_enrichment,
    "Several item types": check_kinds,
    "A proxy for one request": check_proxy,
    "Counters": check_counters,
    "Rejected items": check_rejected,
}


def test_every_recipe_is_checked() -> None:
    assert list(RECIPES) == list(CHECKS)
    assert len(re.findall(r"^## ", COOKBOOK.read_text("utf-8"), re.MULTILINE)) == len(RECIPES)


@pytest.mark.parametrize(
    ("shop", "recipe"), [(name, name) for name in RECIPES], indirect=["shop"], ids=list(RECIPES)
)
async def test_recipe(shop: Shop, recipe: str, proxy: ProxyServer, module: types.ModuleType) -> None:
    code = RECIPES[recipe].replace("https://shop.example", shop.url)
    exec(compile(code, str(COOKBOOK), "exec"), module.__dict__)
    results = await shoal.crawl(module.__dict__["spider"], rate=0, retry_base=0.01)
    job = results.view.job
    CHECKS[recipe](Cooked(list(results), job.counts, results.rejected, shop, proxy))
    assert job.counters.dead == 0
