"""Spiders as TOML from the command line: two sites with one template, killed and resumed; check, try, extract."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import shoal
from shoal.testing.shop import ShopProcess, ShopSpec

Cli = Callable[..., tuple[int, str, str]]

SPEC = ShopSpec(40, members_only=False, sold_out=0, latency=0.03)
SHOPS = """
rate = 0

[template.shop.handler.listing]
follow.product = "li.product a"
next = ".next a"

[template.shop.handler.product]
key = ["site", "sku"]
[template.shop.handler.product.fields]
site = {{ page = "site" }}
sku = {{ css = ".sku", required = true }}
price = {{ css = ".price", type = "price", required = true }}

[site.north]
use = "shop"
start = "{0}/list"

[site.south]
use = "shop"
start = "{1}/list"
per_host = 1
handler.product.fields.name = "h1"
"""


@pytest.fixture(scope="module")
def shops() -> Iterator[tuple[ShopProcess, ShopProcess]]:
    with ShopProcess(SPEC) as north, ShopProcess(SPEC) as south:
        yield north, south


@pytest.fixture
def file(shops: tuple[ShopProcess, ShopProcess], cli: Cli) -> Path:
    path = Path("shops.toml")
    path.write_text(SHOPS.format(shops[0].url, shops[1].url))
    return path


def rows_in(path: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in Path(path).read_bytes().splitlines()]


def whole_lines(path: str) -> int:
    """While a crawl writes, or after it was killed, the last line may be there in part."""
    return Path(path).read_bytes().count(b"\n")


def test_two_sites_with_one_template_killed_and_resumed(
    file: Path, cli: Cli, shops: tuple[ShopProcess, ShopProcess]
) -> None:
    command = [sys.executable, "-m", "shoal", "crawl", "shops.toml", "-o", "rows.jsonl", "-q"]
    env = {**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1]), "SHOAL_GUARDIAN": "off"}
    # Slow, so that it is still there when it is to be killed.
    crawl = subprocess.Popen([*command, "--rate", "5"], env=env, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (Path("rows.jsonl").exists() and whole_lines("rows.jsonl") > 5):
        assert crawl.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(crawl.pid, signal.SIGKILL)
    crawl.wait()
    before = whole_lines("rows.jsonl")
    assert cli("crawl", "shops.toml", "-o", "rows.jsonl", "-q")[0] == 0
    rows = rows_in("rows.jsonl")
    assert before < len(rows)
    listed = shops[0].catalogue.listed()
    wanted = {shops[0].catalogue.product(number).sku: shops[0].catalogue.product(number) for number in listed}
    for site in ("north", "south"):
        own = [row for row in rows if row["site"] == site]
        assert sorted((row["sku"], row["price"]) for row in own) == sorted(
            (sku, product.price) for sku, product in wanted.items()
        )
        assert [row.get("name") for row in own] == [
            wanted[row["sku"]].name if site == "south" else None for row in own
        ]


def test_check_and_try_on_a_page(file: Path, cli: Cli, shops: tuple[ShopProcess, ShopProcess]) -> None:
    code, out, err = cli("check", "shops.toml", "--page", f"{shops[1].url}/product/3")
    assert (code, err) == (0, "")
    assert "2 sites (north, south): 4 handlers, 7 fields" in out
    assert "P-0003" in out
    assert "Shelf 3" in out  # the field that only this site has
    code, out, _ = cli(
        "try", "shops.toml:north", f"{shops[0].url}/product/3", "--handler", "product", "--json"
    )
    assert code == 0
    assert '"sku": "P-0003"' in out


def test_what_is_wrong_in_a_file_is_told_with_its_place(file: Path, cli: Cli) -> None:
    file.write_text(
        file.read_text().replace('css = ".sku"', 'cs = ".sku"').replace('next = ".next a"', "next = 5")
    )
    code, out, _ = cli("check", "shops.toml", "--json")
    assert code == 1
    found = [one for one in msgspec.json.decode(out) if one["state"] == "wrong"]
    assert [(one["where"], one["found"]) for one in found] == [
        ("shops.toml:6:1", "template.shop.handler.listing.next: 5 is not allowed; it must be a text that is not empty "
         "or a table (css, xpath, json, url, include, exclude, carry, lane, priority)"),
        ("shops.toml:12:9", 'template.shop.handler.product.fields.sku: unknown key "cs"; did you mean "css"?'),
    ]  # fmt: skip
    code, _, err = cli("crawl", "shops.toml")
    assert code == 2
    assert err.startswith("shoal: shops.toml:6:1: ")
    assert err.endswith("(and 1 more: shoal check shops.toml)\n")


def test_rejected_items_say_which_field_was_missing(file: Path, cli: Cli) -> None:
    file.write_text(file.read_text().replace('".price"', '".prize"'))
    assert cli("crawl", "shops.toml:north", "-q", "--max-pages", "3")[0] == 0
    code, out, _ = cli("rejected", "list", "shops.north")
    assert code == 0
    assert 'price: nothing was found by css ".prize"' in out


def test_pages_of_an_archive_are_read_again(file: Path, cli: Cli) -> None:
    assert cli("crawl", "shops.toml", "-q", "--archive", "kept", "--max-pages", "12")[0] == 0
    file.write_text(file.read_text().replace("sku = { css", 'title = "title"\nsku = { css'))
    assert cli("extract", "shops.toml", "--from", "kept", "-o", "again.jsonl", "-q")[0] == 0
    rows = rows_in("again.jsonl")
    assert rows
    assert all(row["title"].endswith("| The shop") for row in rows)
