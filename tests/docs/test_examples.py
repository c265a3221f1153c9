"""The examples run, against sites on loopback with the same markup as the public ones they name."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks.shop import wrong_files, wrong_rows
from pyarrow import parquet

from shoal import config
from shoal.cli import run
from shoal.spider.loading import load_spider
from shoal.testing.shop import ShopProcess, ShopSpec

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TESTED = {
    "shop.py",
    "books.py",
    "quotes.py",
    "outputs.py",
    "price_monitor.py",
    "from_code.py",
    "shoal.toml",
    "shops.toml",
    "products.txt",
}


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def crawled(example: str) -> list[dict[str, Any]]:
    assert run(["crawl", str(EXAMPLES / example), "-o", "rows.jsonl", "--rate", "0", "-q"]) == 0
    return [msgspec.json.decode(line) for line in Path("rows.jsonl").read_bytes().splitlines()]


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == TESTED


def test_books(bookshop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKS_URL", bookshop)
    rows = sorted(crawled("books.py"), key=lambda row: row["url"])
    assert len(rows) == 12
    assert rows[0] == {
        "upc": "upc-0",
        "title": "Book 0",
        "price": "£0.50",
        "stars": 3,
        "in_stock": True,
        "url": f"{bookshop}catalogue/book-0/index.html",
    }


def test_quotes(quotes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOTES_URL", quotes)
    rows = crawled("quotes.py")
    said = [row for row in rows if row["kind"] == "quote"]
    assert len(said) == 4
    assert said[0] == {
        "kind": "quote",
        "text": "Said by Ada Lovelace.",
        "author": "Ada Lovelace",
        "tags": ["a", "b"],
    }
    people = sorted((row["name"], row["born"]) for row in rows if row["kind"] == "author")
    assert people == [("Ada Lovelace", "December 10, 1815"), ("Alan Turing", "June 23, 1912")]


def test_several_outputs(quotes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOTES_URL", quotes)
    assert run(["crawl", str(EXAMPLES / "outputs.py"), "--rate", "0", "-q"]) == 0
    said = parquet.read_table("quotes.parquet").to_pylist()
    assert len(said) == 4
    assert said[0] == {
        "text": "Said by Ada Lovelace.",
        "author": "Ada Lovelace",
        "tags": ["a", "b"],
        "_url": quotes,
        "_item": "quote",
    }
    people = list(csv.DictReader(Path("authors.csv").read_text().splitlines()))
    assert sorted(row["name"] for row in people) == ["Ada Lovelace", "Alan Turing"]
    assert run(["export", "outputs", "-o", "all.csv", "-q"]) == 0
    rows = list(csv.DictReader(Path("all.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert {row["_item"] for row in rows} == {"quote", "author"}


def test_price_monitor(bookshop: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there, gone = f"{bookshop}catalogue/book-7/index.html", f"{bookshop}catalogue/sold-out.html"
    products = tmp_path / "list.txt"
    products.write_text(f"# two\n{there}\n\n{gone}\n")
    monkeypatch.setenv("PRODUCTS", str(products))
    monkeypatch.setenv("SHOAL_TRUST_START", "on")  # for the shop is on this machine
    rows = sorted(crawled("price_monitor.py"), key=lambda row: row["url"])
    assert rows == [
        {"url": there, "title": "Book 7", "amount": 7.5, "available": True},
        {"url": gone, "title": "", "amount": None, "available": False},
    ]


def test_shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everything that the shop sells; nothing is taken from a login page."""
    assert len((EXAMPLES / "shop.py").read_text("utf-8").splitlines()) <= 90
    with ShopProcess(ShopSpec(40, session_pages=60)) as shop:
        monkeypatch.setenv("SHOP_URL", shop.url)
        rows = crawled("shop.py")
        log, catalogue = shop.log(), shop.catalogue
    assert wrong_rows(rows, catalogue) == wrong_files(rows, tmp_path, catalogue) == []
    assert log.logins_at_once() == 1
    assert len(log.logins) > 1
    assert log.count()["sold out"] == 4


def test_from_code(bookshop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_RATE", "0")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "from_code.py"), bookshop],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    assert all(line.startswith("   1  ") and ("Book" in line or "Shop" in line) for line in lines)


@pytest.mark.parametrize("example", ["books.py", "quotes.py", "price_monitor.py"])
def test_without_variables_they_start_at_a_public_site(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOOKS_URL", "QUOTES_URL", "PRODUCTS"):
        monkeypatch.delenv(name, raising=False)
    start = load_spider(str(EXAMPLES / example)).start
    text = start.read_text() if isinstance(start, Path) else str(start)
    assert "toscrape.com/" in text


def test_shops_as_toml(bookshop: str, tmp_path: Path) -> None:
    """Two shops of one template: in one job, and each alone."""
    with ShopProcess(ShopSpec(25, members_only=False, sold_out=0)) as lamps:
        text = (EXAMPLES / "shops.toml").read_text("utf-8").replace("https://books.toscrape.com/", bookshop)
        (tmp_path / "shops.toml").write_text(
            text.replace("http://127.0.0.1:8000", lamps.url)
            .replace("rate = 1", "rate = 0")
            .replace("rate = 5", "")
        )
        assert run(["check", "shops.toml"]) == 0
        assert run(["crawl", "shops.toml", "-o", "all.jsonl", "-q"]) == 0
        assert run(["crawl", "shops.toml:books", "-o", "books.jsonl", "-q"]) == 0
    rows = [msgspec.json.decode(line) for line in Path("all.jsonl").read_bytes().splitlines()]
    books = [row for row in rows if row["site"] == "books"]
    assert len(books) == 12
    assert min(books, key=lambda row: row["url"]) == {
        "site": "books",
        "sku": "upc-0",
        "name": "Book 0",
        "price": "0.50",
        "currency": "GBP",
        "url": f"{bookshop}catalogue/book-0/index.html",
        "stars": "three",
        "stock": 3,
    }
    sold = {row["sku"]: (row["name"], row["price"]) for row in rows if row["site"] == "lamps"}
    catalogue = [lamps.catalogue.product(number) for number in lamps.catalogue.listed()]
    assert sold == {one.sku: (one.name, one.price) for one in catalogue}
    alone = [msgspec.json.decode(line) for line in Path("books.jsonl").read_bytes().splitlines()]
    assert sorted(alone, key=str) == sorted(books, key=str)


def test_the_settings_file_is_valid() -> None:
    settings = config.load(EXAMPLES / "shoal.toml", {}, {}, {})
    assert (settings.rate, settings.per_host) == (1, 1)
    assert settings.headers == {"Accept-Language": "en"}
