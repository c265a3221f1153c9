"""Rows that people can trust: where they are from, and the newest ones in the terminal."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastwarc import ArchiveIterator, WarcRecordType

from shoal.testing.servers import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

SITE = """
import asyncio
from aiohttp import web

async def answer(request):
    if request.path == "/robots.txt":
        return web.Response(status=404)
    if request.path == "/moved":
        return web.Response(status=302, headers={"Location": "/1"})
    return web.Response(text=f"<h1>{request.path}</h1>", content_type="text/html")

async def main():
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", SITE], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


def write_spider(folder: Path, site: str, code: str, **options: object) -> None:
    given = {"rate": 0, "robots": False, "per_host": 8, **options}
    text = f"from shoal import Spider\nSITE = {site!r}\nspider = Spider('shop', **{given!r})\n{code}"
    (folder / "shop.py").write_text(text)


def rows_in(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


KEYED = """
@spider.handler(key="sku")
def first(page):
    yield {"sku": "same"}
    yield {"sku": page.text("h1"), "_job": "mine"}
"""

OTHER = """
@spider.handler(item="review")
def other(page):
    yield {"text": page.text("h1")}
    if page.url.endswith("/1"):
        yield page.follow("/3", handler="other")
"""


def test_rows_say_where_they_are_from(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, KEYED, start=[f"{site}/{n}" for n in range(3)])
    begin = datetime.now(UTC)
    assert cli("crawl", "shop.py", "-s", "row_meta=url,fetched_at,handler,item")[0] == 0
    rows = rows_in(tmp_path / "shop.jsonl")
    assert sorted(str(row["sku"]) for row in rows) == ["/0", "/1", "/2", "same"]  # one a key, as without
    for row in rows:
        assert (row["_handler"], row["_item"]) == ("first", "first")
        assert str(row["_url"]).startswith(site)
        assert abs((datetime.fromisoformat(str(row["_fetched_at"])) - begin).total_seconds()) < 600
    assert {row["_url"] for row in rows if row["sku"] != "same"} == {f"{site}/{n}" for n in range(3)}


def test_a_redirected_page_is_where_it_ended(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, OTHER, start=f"{site}/moved", row_meta=True)
    assert cli("crawl", "shop.py")[0] == 0
    found = {
        (row["text"], row["_url"], row["_handler"], row["_item"]) for row in rows_in(tmp_path / "shop.jsonl")
    }
    assert found == {(f"/{n}", f"{site}/{n}", "other", "review") for n in (1, 3)}


def test_a_field_of_that_name_is_kept_and_told(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, KEYED, start=f"{site}/1", row_meta=["job"])
    assert cli("crawl", "shop.py")[0] == 0
    assert [row["sku"] for row in rows_in(tmp_path / "shop.jsonl")] == ["same"]
    _, out, _ = cli("rejected", "list", "shop")
    assert "its field '_job' is one that row_meta adds" in " ".join(out.split())


TYPED = """
from dataclasses import dataclass

@dataclass
class Book:
    title: str
    pages: int | None = None

@spider.handler(item=Book)
def first(page):
    yield Book(page.text("h1"))
"""


def test_they_are_columns_beside_those_of_the_schema(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, TYPED, start=f"{site}/1", row_meta=["url", "item", "record"])
    assert cli("crawl", "shop.py", "-o", "rows.csv", "--archive", "archive")[0] == 0
    with open(tmp_path / "rows.csv", newline="") as file:
        [row] = csv.DictReader(file)
    assert list(row) == ["title", "pages", "_url", "_record", "_item"]
    assert (row["title"], row["_url"], row["_item"]) == ("/1", f"{site}/1", "book")
    with open(next((tmp_path / "archive").glob("*.warc.gz")), "rb") as file:
        ids = {one.record_id for one in ArchiveIterator(file) if one.record_type == WarcRecordType.response}
    assert f"<urn:uuid:{row['_record']}>" in ids
    # The query that docs/outputs.md names finds its place.
    query = 'SELECT name, "offset" FROM record JOIN file ON file.id = record.file WHERE record.id = ?'
    with closing(sqlite3.connect(tmp_path / "archive" / "index.sqlite")) as index:
        [(name, offset)] = index.execute(query, (row["_record"],)).fetchall()
    with open(tmp_path / "archive" / name, "rb") as file:
        file.seek(offset)
        assert next(iter(ArchiveIterator(file))).record_id == f"<urn:uuid:{row['_record']}>"


PRODUCTS = """
@spider.handler(item="product")
def first(page):
    number = int(page.url.rsplit("/", 1)[1])
    yield {"sku": number, "title": "x" * 5000 if number == 29 else "short"}
    if number == 0:
        yield page.follow("/100", handler="review")

@spider.handler
def review(page):
    yield {"stars": 5, "text": "\\x1b[31m"}
"""


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.mark.parametrize("home", ["sqlite", "valkey"])
def test_the_newest_rows_in_the_terminal(
    cli: Cli, tmp_path: Path, site: str, home: str, request: pytest.FixtureRequest
) -> None:
    store = "store.db" if home == "sqlite" else request.getfixturevalue("valkey")
    write_spider(tmp_path, site, PRODUCTS, start=[f"{site}/{n}" for n in range(30)])
    assert (
        cli("crawl", "shop.py", "--store", store, "--processes", "2", "-o", "-")[0] == 2
    )  # one process only
    assert cli("crawl", "shop.py", "--store", store, "-o", "-")[0] == 0  # rows that are nowhere else
    code, out, err = cli("rows", "shop", "--store", store)
    assert code == 0, err
    assert "\x1b" not in out
    assert "20 rows, the newest of 31" in out
    _, out, _ = cli("rows", "shop", "--store", store, "--json", "-n", "30")
    found = json.loads(out)
    assert len(found["rows"]) == 20
    for one in found["rows"]:
        assert one["url"].startswith(site)
        assert set(one["row"]) == ({"sku", "title"} if one["item"] == "product" else {"stars", "text"})
    _, out, _ = cli("rows", "shop", "--store", store, "--json", "--item", "product", "-n", "5")
    assert {one["item"] for one in json.loads(out)["rows"]} == {"product"}
    assert cli("rows", "nix", "--store", store)[0] == 2
