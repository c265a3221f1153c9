"""Tables as a start: one column has the URLs, the rest goes with the page, and a resumed crawl goes on at its row."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal import Request, Spider, Table
from shoal.errors import SpiderError
from shoal.spider.spider import StartPlace

A, B = "https://a.example/1", "https://a.example/2"


async def starts(table: Table, skip: int = 0) -> list[tuple[int, Request, bool]]:
    return [start async for start in Spider("any", start=table).starts(skip)]


async def rows(table: Table) -> list[tuple[str, dict[str, Any] | None]]:
    return [(request.url, request.meta) for _, request, _ in await starts(table)]


CSV = f'sku,link,name\nx1,{A},Lamp\nx2,{B},"Chair, red"\n'
EXPECTED = [(A, {"sku": "x1", "name": "Lamp"}), (B, {"sku": "x2", "name": "Chair, red"})]


def write_sqlite(path: Path) -> str:
    connection = apsw.Connection(str(path))
    connection.execute("create table p (sku, link, name)")
    connection.execute("insert into p values ('x1', ?, 'Lamp'), ('x2', ?, 'Chair, red')", (A, B))
    connection.close()
    return f"sqlite:///{path}"


def write_parquet(path: Path) -> Path:
    table = pa.table({"sku": ["x1", "x2"], "link": [A, B], "name": ["Lamp", "Chair, red"]})
    pq.write_table(table, path)
    return path


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


JSONL = f'{{"sku": "x1", "link": "{A}", "name": "Lamp"}}\n\n{{"sku": "x2", "link": "{B}", "name": "Chair, red"}}\n'


@pytest.mark.parametrize(
    "make",
    [
        lambda at: Table(written(at / "p.csv", CSV), url="link"),
        lambda at: Table(str(written(at / "p.csv", CSV))),  # "link" is a usual name
        lambda at: Table(written(at / "p.csv", "\ufeff" + CSV.replace("\n", "\r\n"))),
        lambda at: Table(written(at / "P.CSV.GZ", gzip.compress(CSV.encode()))),
        lambda at: Table(written(at / "p.csv", f"sku;link;name\nx1;{A};Lamp\nx2;{B};Chair, red\n")),
        lambda at: Table(written(at / "p.tsv", f"sku\tlink\tname\nx1\t{A}\tLamp\nx2\t{B}\tChair, red\n")),
        lambda at: Table(
            written(at / "p.csv", f"sku!link!name\nx1!{A}!Lamp\nx2!{B}!Chair, red"), delimiter="!"
        ),
        lambda at: Table(written(at / "p.jsonl", JSONL)),
        lambda at: Table(write_parquet(at / "p.parquet"), url="link"),
        lambda at: Table(write_sqlite(at / "p.db"), query="select * from p order by sku", url="link"),
    ],
)
async def test_every_kind_of_table(make: Callable[[Path], Table], tmp_path: Path) -> None:
    assert await rows(make(tmp_path)) == EXPECTED


async def test_it_goes_on_at_a_row_and_is_not_typed(tmp_path: Path) -> None:
    table = Table(written(tmp_path / "p.csv", CSV))
    [(position, request, typed)] = await starts(table, skip=1)
    assert (position, request.url, typed) == (2, B, False)
    assert not Spider("any", start=table).starts_anew()
    query = Table(write_sqlite(tmp_path / "p.db"), query="select link from p")
    assert Spider("any", start=[A, query]).starts_anew()  # its rows may come in another order


async def test_a_table_larger_than_memory_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    with path.open("w") as file:
        file.write("url,n\n")
        for number in range(20_000):
            file.write(f"{A}?{number},{number}\n")
    at, seen = StartPlace(), 0
    requests = Table(path).requests(at)
    async for _ in requests:
        seen += 1
        if seen == 700:
            break
    await requests.aclose()
    assert at.position == 0
    assert at.line == 701


async def test_handlers_columns_and_values_that_can_be_stored(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"url": [A], "day": [date(2026, 1, 31)], "big": [[1, 2]], "none": [None]}), path)
    [(_, request, _)] = await starts(Table(path, handler="product"))
    assert request.handler == "product"
    assert request.meta == {"day": "2026-01-31", "big": [1, 2], "none": None}
    [(_, request, _)] = await starts(Table(path, columns=["day"]))
    assert request.meta == {"day": "2026-01-31"}
    [(_, request, _)] = await starts(Table(path, columns=[]))
    assert request.meta is None


async def test_rows_without_a_url_are_passed_on_to_be_refused_and_counted(tmp_path: Path) -> None:
    table = Table(written(tmp_path / "p.csv", f"url,n\n{A},1\n,2\nexample.com/x,3\nshort\nx,4,5,6\n"))
    assert [url for url, _ in await rows(table)] == [A, "", "https://example.com/x", "short", "x"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda at: Table(at / "p.xlsx"), r"p\.xlsx: give a \.csv"),
        (lambda at: Table(at / "none.csv"), "No such file"),
        (lambda at: Table(written(at / "e.csv", "")), "is empty"),
        (lambda at: Table(written(at / "p.csv", CSV), url="uri"), "no column 'uri'.*sku, link, name"),
        (lambda at: Table(written(at / "p.csv", "a,b\n1,2\n")), "no column that is called url"),
        (lambda at: Table(written(at / "p.csv", CSV), columns=["price"]), "no column 'price'"),
        (lambda at: Table(written(at / "p.jsonl", JSONL + "{")), r"p\.jsonl:4: not JSON"),
        (lambda at: Table(written(at / "p.jsonl", "[1]")), r"p\.jsonl:1: each line"),
        (lambda at: Table(written(at / "p.parquet", "junk")), "cannot read"),
        (lambda at: Table(written(at / "p.csv.gz", "junk")), "cannot read"),
        (lambda at: Table(at / "p.csv", query="select 1"), "takes no query"),
        (lambda at: Table(f"sqlite:///{at}/p.db"), "needs query="),
        (lambda at: Table(f"sqlite:///{at}/p.db", query="select 1"), "there is no such file"),
        (lambda at: Table(write_sqlite(at / "p.db"), query="select * from q"), "no such table"),
        (lambda at: Table(write_sqlite(at / "p.db"), query="delete from p returning link"), "readonly"),
        (
            lambda at: Table("postgresql://u:s3cret@127.0.0.1:1/x", query="select 1"),
            r"cannot read postgresql://127",
        ),
    ],
)
async def test_what_cannot_be_read_is_told_in_one_line(
    make: Callable[[Path], Table], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SpiderError, match=said) as raised:
        await rows(make(tmp_path))
    assert "s3cret" not in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_table_that_says_that_it_is_utf_16(tmp_path: Path) -> None:
    text = f"url,name\n{A},Käse\n"
    assert await rows(Table(written(tmp_path / "p.csv", text.encode("utf-16")))) == [(A, {"name": "Käse"})]
    packed = gzip.compress(text.encode("utf-16"))
    assert await rows(Table(written(tmp_path / "p.csv.gz", packed))) == [(A, {"name": "Käse"})]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", f"url,name\n{A},Käse\n{A}/ä,x\n{B},ok\n"),
        ("p.jsonl", f'{{"url":"{A}","name":["Käse"]}}\n{{"url":"{A}/ä"}}\n{{"url":"{B}","name":"ok"}}\n'),
    ],
)
async def test_a_row_that_is_not_utf_8_is_no_url_and_the_others_are_read(
    name: str, text: str, tmp_path: Path
) -> None:
    path = written(tmp_path / name, text.encode("latin-1"))
    said = "not UTF-8 (save the file as UTF-8): "
    assert await rows(Table(path)) == [
        (f"{said}{A}", None),
        (f"{said}{A}/\\xe4", None),
        (B, {"name": "ok"}),
    ]
    used = [url for url, _ in await rows(Table(path, columns=[]))]
    assert used == [A, f"{said}{A}/\\xe4", B], "a column that nobody reads may be anything"


async def test_names_of_columns_that_are_not_utf_8_are_told(tmp_path: Path) -> None:
    with pytest.raises(SpiderError, match=r"p\.csv:1: the names of the columns are not UTF-8 \(save"):
        await rows(Table(written(tmp_path / "p.csv", f"url,größe\n{A},1\n".encode("latin-1"))))
