"""`shoal export`: the committed rows of a job, converted and merged, without crawling."""

from __future__ import annotations

import asyncio
import csv
import fcntl
import gzip
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import asyncpg
import pytest

from crash.harness import Desk
from crash.harness import until as wait_until
from shoal.sink.outputs import FORMATS
from shoal.testing.servers import S3Server, ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

PAGES = 25

SITE = """
import asyncio
from aiohttp import web

async def answer(request):
    if request.path == "/robots.txt":
        return web.Response(status=404)
    return web.Response(text=f"<h1>{request.path}</h1>", content_type="text/html")

async def main():
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

SPIDER = """
from shoal import Spider
spider = Spider("shop", start=[f"{site}/{{n}}" for n in range({pages})], rate=0, robots=False, per_host=8, {options})

@spider.handler(item="product", key="sku")
def first(page):
    number = int(page.url.rsplit("/", 1)[1])
    yield {{"sku": f"s{{number}}", "price": number / 4, "tags": ["a", {{"b": number}}],
           "stock": number % 2 == 0, "note": None}}
    yield {{"sku": "every page has it", "text": 'quoted "," and\\nline \\x1b'}}
    if number % 5 == 0:
        yield page.follow(f"/{{number}}/review", handler="review")

@spider.handler
def review(page):
    yield {{"stars": 5, "of": page.text("h1")}}
"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", SITE], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


def write_spider(folder: Path, site: str, options: str = "", pages: int = PAGES) -> None:
    (folder / "shop.py").write_text(SPIDER.format(site=site, pages=pages, options=options))


def lines(path: Path) -> list[str]:
    return sorted(path.read_text().splitlines())


def products(path: Path) -> list[str]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(row["sku"] for row in rows if "sku" in row)


ALL = sorted([f"s{n}" for n in range(PAGES)] + ["every page has it"])


def test_a_job_is_copied_and_only_what_is_committed(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site)
    assert cli("crawl", "shop.py")[0] == 0
    source = tmp_path / "shop.jsonl"
    committed = source.read_bytes()
    source.write_bytes(committed + b'{"sku":"left by a crash"}\n{"half')
    code, out, err = cli("export", "shop", "-o", "copy.jsonl", "-o", "{job}/again.jsonl")
    assert (code, out) == (0, ""), err
    assert f"{PAGES + 1 + 5} rows in copy.jsonl" in err
    assert (tmp_path / "copy.jsonl").read_bytes() == committed == (tmp_path / "shop/again.jsonl").read_bytes()
    assert [name for name in os.listdir(tmp_path) if name.startswith(".shoal-export")] == []
    assert cli("export", "shop", "-o", "-", "-q")[1].encode() == committed


def test_rows_that_are_missing_are_told(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, pages=2)
    assert cli("crawl", "shop.py", "-o", "rows.json")[0] == 0
    (tmp_path / "rows.json").unlink()
    code, _, err = cli("export", "shop", "-o", "copy.csv")
    assert (code, len(err.splitlines())) == (3, 1)
    assert "rows.json" in err
    assert not (tmp_path / "copy.csv").exists()
    assert cli("rows", "shop")[0] == 0  # those that the workers told
    assert cli("crawl", "shop.py", "--job", "printed", "-o", "-")[0] == 0
    code, _, err = cli("export", "printed", "-o", "copy.csv")
    assert code == 2
    assert "the rows of job printed are in no file" in err


def in_order(row: object) -> str:
    return json.dumps(row, sort_keys=True)


async def emptied(url: str, *tables: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"TRUNCATE {', '.join(tables)}")
    await connection.close()


def test_rows_are_read_from_postgresql(cli: Cli, tmp_path: Path, site: str, postgres: str) -> None:
    write_spider(tmp_path, site, pages=3)
    assert cli("crawl", "shop.py", "-o", postgres)[0] == 0
    assert cli("crawl", "shop.py", "--job", "other", "-o", "rows.jsonl")[0] == 0
    code, _, err = cli("export", "shop", "-o", "copy.jsonl")
    assert code == 0, err
    wanted = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    copied = [json.loads(line) for line in (tmp_path / "copy.jsonl").read_text().splitlines()]
    assert sorted(map(in_order, copied)) == sorted(map(in_order, wanted))
    code, _, err = cli("export", "shop", "--item", "nobody", "-o", "none.jsonl")
    assert code == 2, err
    assert "none of them of the kind nobody: is it spelt so? there are product, review" in err
    code, _, err = cli("export", "shop", "-o", "review=reviews.jsonl")
    assert (code, len(lines(tmp_path / "reviews.jsonl"))) == (0, 1), err
    asyncio.run(emptied(postgres, "product", "review"))
    code, _, err = cli("export", "shop", "-o", "gone.jsonl")
    assert code == 3
    assert "has no rows of job shop in tables that Shoal made" in err
    assert "those with columns of your own are not" in err
    assert postgres.partition("@")[0] not in err


@pytest.mark.parametrize("name", ["rows.csv", "rows.json.gz", "rows.parquet", "p.jsonl -o all.xml"])
def test_a_job_that_runs_is_exported_up_to_its_last_commit(
    cli: Cli, tmp_path: Path, site: str, name: str
) -> None:
    write_spider(tmp_path, site, "settle_delay=0", pages=1000)
    (tmp_path / "shop.py").write_text((tmp_path / "shop.py").read_text().replace("rate=0", "rate=50"))
    copy = tmp_path / "copy.jsonl"
    first: list[str] = []  # the first rows may be of another kind
    with Desk(tmp_path) as desk:
        crawl = desk.start("crawl", "shop.py", "-q", "-o", *name.split())
        deadline, code, err = time.monotonic() + 60, 1, ""
        while not first and crawl.running and time.monotonic() < deadline:
            time.sleep(0.2)
            code, _, err = cli("export", "shop", "-o", copy.name, "--fresh")
            first = products(copy) if code == 0 and copy.exists() else []
        crawl.kill()
    assert first, err
    assert len(first) == len(set(first))
    assert cli("export", "shop", "-o", copy.name, "--fresh")[0] == 0  # it was killed, which matters not
    assert set(first) <= set(products(copy))


def test_nothing_is_overwritten_by_mistake(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, pages=2)
    assert cli("crawl", "shop.py")[0] == 0
    other = tmp_path / "copy.jsonl"
    other.write_text("mine\n")
    code, _, err = cli("export", "shop", "-o", "copy.jsonl")
    assert code == 2
    assert err == (
        "shoal: copy.jsonl is there already: choose another file with -o, or replace it with --fresh\n"
    )
    assert other.read_text() == "mine\n"
    code, _, err = cli("export", "shop", "-o", "shop.jsonl", "--fresh")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "job shop writes its rows to" in err
    assert cli("export", "shop", "-o", "copy.jsonl", "--fresh")[0] == 0
    assert other.read_bytes() == (tmp_path / "shop.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shop",), "say where the rows go"),
        (("nix", "-o", "a.jsonl"), "no job 'nix'"),
        (("shop", "-o", "a.nix"), "no format has the suffix '.nix'"),
        (("shop", "-o", "postgresql://h/d"), "an export writes files"),
        (("shop", "-o", "a.jsonl", "missing.jsonl"), "missing.jsonl is not a file here"),
        (("shop", "-o", "a.jsonl", "--item", "product"), "do not say which kind of item they are"),
        (("shop", "-o", "product=a.jsonl"), "-o product=a.jsonl: the rows in"),
        (("shop", "-o", "{item}.csv", "-o", "a.jsonl"), "do not say which kind of item they are"),
        (("shop", "-o", "review=a.jsonl", "--item", "product"), "nothing would be there with --item product"),
        (("shop", "-o", "changes=a.jsonl"), "job shop has no output for that: crawl with -o changes=FILE"),
    ],
)
def test_mistakes_are_one_line(
    cli: Cli, tmp_path: Path, site: str, words: tuple[str, ...], said: str
) -> None:
    write_spider(tmp_path, site, pages=1)
    assert cli("crawl", "shop.py", "-q")[0] == 0
    code, out, err = cli("export", *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert said in err
    assert not (tmp_path / "a.jsonl").exists()
    assert [name for name in os.listdir(tmp_path) if name.startswith(".shoal-export")] == []


def test_what_a_killed_export_left_is_removed_by_the_next(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, pages=2)
    assert cli("crawl", "shop.py")[0] == 0
    left, used, new = (tmp_path / f".shoal-export-{name}" for name in ("left", "used", "new"))
    for folder in (left, used, new):
        folder.mkdir()
        (folder / "rows.csv").write_text("a")
    for folder in (left, used):
        os.utime(folder, (1.0, 1.0))
    lock = os.open(used, os.O_RDONLY)  # as the export that works there
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert cli("export", "shop", "-o", "rows.csv", "-o", "again.jsonl")[0] == 0
    finally:
        os.close(lock)
    assert sorted(tmp_path.glob(".shoal-export-*")) == sorted([used, new])


def test_each_row_once_from_several_outputs(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site)
    outputs = ("-o", "product=p.jsonl", "-o", "all.jsonl", "-o", "kinds/{item}.jsonl")
    (tmp_path / "kinds").mkdir(exist_ok=True)
    assert cli("crawl", "shop.py", *outputs)[0] == 0
    assert cli("export", "shop", "-o", "copy.jsonl")[0] == 0
    assert lines(tmp_path / "copy.jsonl") == lines(tmp_path / "all.jsonl")
    assert cli("export", "shop", "-o", "only.jsonl", "--item", "product")[0] == 0
    assert products(tmp_path / "only.jsonl") == ALL
    found = json.loads(cli("rows", "shop", "--json", "-n", "3", "--item", "review")[1])
    assert [one["item"] for one in found["rows"]] == ["review"] * 3


@pytest.mark.parametrize(
    "outputs",
    [
        ("product=p.jsonl", "all.jsonl"),
        ("{item}.csv", "all.jsonl"),  # the file that is read otherwise does not know kinds
        ("all.json", "all.sqlite"),
        ("all.parquet",),
    ],
)
def test_a_place_for_one_kind_is_written_from_what_knows_kinds(
    cli: Cli, tmp_path: Path, site: str, outputs: tuple[str, ...]
) -> None:
    write_spider(tmp_path, site)
    code, _, err = cli("crawl", "shop.py", "-q", *(word for one in outputs for word in ("-o", one)))
    assert code == 0, err
    code, _, err = cli("export", "shop", "-o", "product=own.jsonl", "-o", "copy.jsonl")
    assert code == 0, err
    assert cli("export", "shop", "-o", "only.jsonl", "--item", "product")[0] == 0
    assert products(tmp_path / "own.jsonl") == products(tmp_path / "only.jsonl") == ALL
    assert len(lines(tmp_path / "own.jsonl")) == len(lines(tmp_path / "only.jsonl")) == len(ALL)
    assert len(lines(tmp_path / "copy.jsonl")) == len(ALL) + 5
    # The reviews of the first are nowhere but among all rows.
    code, _, err = cli("export", "shop", "-o", "each/{item}.jsonl")
    assert code == (2 if outputs[0].startswith("product=") else 0), err
    if code == 0:
        assert products(tmp_path / "each/product.jsonl") == ALL
        assert len(lines(tmp_path / "each/review.jsonl")) == 5


def test_a_column_of_mixed_types_is_told_once_and_with_the_name_of_the_file(
    cli: Cli, tmp_path: Path, site: str
) -> None:
    write_spider(tmp_path, site, pages=4)
    spider = tmp_path / "shop.py"
    spider.write_text(spider.read_text().replace('"note": None', '"note": number if number % 2 else "none"'))
    code, _, err = cli("crawl", "shop.py", "-q", "-o", "rows.parquet")
    assert (code, err.count("rows.parquet: column note holds values of type")) == (0, 1), err
    code, _, err = cli("export", "shop", "-o", "copy.parquet")
    assert (code, err.count(" copy.parquet: column note holds values of type")) == (0, 1), err
    assert "shoal-export" not in err


def test_outputs_for_kinds_of_items(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site)
    assert cli("crawl", "shop.py", "-o", "product=p.jsonl")[0] == 0  # the reviews are in shop.jsonl
    code, _, err = cli("export", "shop", "-o", "copy.jsonl", "-o", "{item}-{date}.jsonl")
    assert (code, "shop.jsonl do not say which kind of item they are" in err) == (0, True), err
    assert lines(tmp_path / "copy.jsonl") == sorted(
        lines(tmp_path / "p.jsonl") + lines(tmp_path / "shop.jsonl")
    )
    [one] = tmp_path.glob("product-20*.jsonl")
    assert lines(one) == lines(tmp_path / "p.jsonl")


def test_rows_that_say_their_kind(cli: Cli, tmp_path: Path, site: str) -> None:
    write_spider(tmp_path, site, "row_meta=True")
    assert cli("crawl", "shop.py")[0] == 0
    assert cli("export", "shop", "-o", "p.jsonl", "--item", "product")[0] == 0
    for words in (("-o", "none.jsonl", "--item", "Product"), ("-o", "Product=none.jsonl")):
        code, _, err = cli("export", "shop", *words)
        assert (code, len(err.splitlines())) == (2, 1)
        assert "none of them of the kind Product: is it spelt so? did you mean product?" in err
        assert not (tmp_path / "none.jsonl").exists()
    assert products(tmp_path / "p.jsonl") == ALL
    assert len(lines(tmp_path / "p.jsonl")) == len(ALL)


def read_independently(path: Path) -> int:
    """How many rows another program finds."""
    name = path.name.removesuffix(".gz")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if name.endswith((".csv", ".tsv")):
        dialect = "excel" if name.endswith(".csv") else "excel-tab"
        return len(list(csv.DictReader(io.StringIO(data.decode(), newline=""), dialect=dialect)))
    if name.endswith(".json"):
        return len(json.loads(data))
    if name.endswith(".jsonl"):
        return len([json.loads(line) for line in data.splitlines()])
    if name.endswith(".xml"):
        return len(ElementTree.fromstring(data))
    if name.endswith(".parquet"):
        return int(import_module("pyarrow.parquet").read_table(path).num_rows)
    db: Any = sqlite3.connect(path) if name.endswith(".sqlite") else import_module("duckdb").connect(path)
    with closing(db):
        tables = "sqlite_schema WHERE type='table'" if name.endswith(".sqlite") else "duckdb_tables()"
        column = "name" if name.endswith(".sqlite") else "table_name"
        names = [one for (one,) in db.execute(f"SELECT {column} FROM {tables}").fetchall()]
        counts = [
            db.execute(f'SELECT count(*) FROM "{one}"').fetchone()[0] for one in names if one[:6] != "_shoal"
        ]
        return sum(counts)


FORMATS_TRIED = [
    name
    for name in ("x.json", "x.jsonl.gz", "x.csv", "x.tsv.gz", "x.xml", "x.parquet", "x.sqlite", "x.duckdb")
    if name.removesuffix(".gz").rpartition(".")[2] in FORMATS
]


@pytest.fixture(scope="module")
def crawled(site: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawled")
    write_spider(folder, site, "row_meta=['item', 'url']")
    with Desk(folder) as desk:
        desk.finish("crawl", "shop.py", "-q")
    return folder


@pytest.mark.parametrize("name", FORMATS_TRIED)
def test_every_format_and_back(cli: Cli, crawled: Path, tmp_path: Path, name: str) -> None:
    store = ("--store", str(crawled / ".shoal/shoal.db"))
    code, _, err = cli("export", "shop", "-o", name, *store)
    assert code == 0, err
    assert read_independently(tmp_path / name) == PAGES + 1 + 5
    # Back again, as a file of which no store knows anything.
    code, _, err = cli("export", "shop", "-o", "back.jsonl", name, "--store", "none.db")
    assert code == 0, err
    found = {json.dumps(plain(json.loads(line)), sort_keys=True) for line in lines(tmp_path / "back.jsonl")}
    rows = {json.dumps(plain(json.loads(line)), sort_keys=True) for line in lines(crawled / "shop.jsonl")}
    if name.split(".")[1] in ("csv", "tsv", "xml"):  # there everything is text
        assert {json.loads(one).get("sku") or None for one in found} == {
            json.loads(one).get("sku") for one in rows
        }
    else:
        assert found == rows


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Without fields that tables have because other rows have them; lists of mixed values are text in Parquet."""
    known = {name: value for name, value in row.items() if value is not None and name != "_item_"}
    known["tags"] = [
        one if isinstance(one, str) else json.dumps(one, separators=(",", ":"))
        for one in known.get("tags", [])
    ]
    return known


def work(folder: Path, store: str, *, until: Callable[[], bool] = lambda: False) -> None:
    """A worker in a folder, as on a machine of its own; it is stopped once `until` is true."""
    with Desk(folder) as desk:
        worker = desk.start("worker", "shop.py", "--store", store, "--until-done", "-s", "trust=store")
        wait_until(lambda: until() or not worker.running, "what the worker is there for")
        worker.signal(signal.SIGTERM)
        assert worker.code() in (0, 130, 143), worker.err


def test_the_files_of_two_machines_are_merged(cli: Cli, tmp_path: Path, site: str, valkey: str) -> None:
    write_spider(tmp_path, site, "settle_delay=0")
    # Slow enough that the first is stopped long before the end.
    (tmp_path / "shop.py").write_text((tmp_path / "shop.py").read_text().replace("rate=0", "rate=5"))
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        shutil.copy(tmp_path / "shop.py", folder)
    store = f"{valkey}?prefix=merge"
    assert cli("submit", "shop.py", "-o", "rows.jsonl", "--store", store)[0] == 0
    work(one, store, until=lambda: (one / "rows.jsonl").exists() and len(lines(one / "rows.jsonl")) > 3)
    work(two, store)
    parts = ("one/rows.jsonl", "two/rows.jsonl")
    wanted = sorted(line for part in parts for line in lines(tmp_path / part))
    assert products(one / "rows.jsonl")
    assert len(wanted) == PAGES + 1 + 5

    with open(one / "rows.jsonl", "a") as file:
        file.write(f"{wanted[0]}\n")  # as a crash may leave it: another machine has written it since
    code, _, err = cli("export", "shop", "--store", store, "-o", "all.jsonl", *parts)
    assert code == 0, err
    assert lines(tmp_path / "all.jsonl") == wanted

    # Without the files of all machines the rest is named, or refused.
    code, _, err = cli("export", "shop", "--store", store, "-o", "half.jsonl", "two/rows.jsonl")
    assert "rows of job shop that are left out" in err
    (tmp_path / "rows.jsonl").write_bytes((two / "rows.jsonl").read_bytes())
    shutil.copy(two / ".rows.jsonl.id", tmp_path)
    code, _, err = cli("export", "shop", "--store", store, "-o", "mine.jsonl")
    assert code == 2
    assert "job shop has rows that are not on this machine, in rows.jsonl: copy the files" in err

    # Without notes and store, files are read to their end, and the key tells which rows are the same.
    for note in (one / ".rows.jsonl.id", two / ".rows.jsonl.id"):
        note.unlink()
    code, _, err = cli("export", "shop", "-o", "once.jsonl", *parts, "--key", "sku")
    assert code == 0, err
    assert "the files are read to their end" in err
    assert products(tmp_path / "once.jsonl") == ALL
    _, out, _ = cli("rows", "shop", "--store", store, "--json")
    assert len(json.loads(out)["rows"]) == 20  # told by the workers


@pytest.fixture
def bucket(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.make_bucket("bucket")
        for name, value in server.environment_for(server.url).items():
            monkeypatch.setenv(name, value)
        yield "s3://bucket/shop"


def test_parts_in_an_object_store_are_exported(
    cli: Cli, tmp_path: Path, site: str, valkey: str, bucket: str
) -> None:
    """By a fleet, which writes them itself, and by a crawl on one machine, which ships them."""
    write_spider(tmp_path, site)
    store = f"{valkey}?prefix=objects"
    fleet, alone = f"{bucket}/fleet.jsonl.gz", f"{bucket}/alone.csv"
    assert cli("crawl", "shop.py", "-o", fleet, "--store", store)[0] == 0
    code, _, err = cli("export", "shop", "-o", "fleet.jsonl", "--store", store)
    assert code == 0, err
    assert products(tmp_path / "fleet.jsonl") == ALL
    assert cli("crawl", "shop.py", "-o", alone)[0] == 0
    code, _, err = cli("export", "shop", "-o", "alone.jsonl")
    assert code == 0, err
    assert products(tmp_path / "alone.jsonl") == ALL
