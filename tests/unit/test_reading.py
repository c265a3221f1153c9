"""Rows from files of any format, compared with what others wrote."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.databases.duckdb_file import DuckdbFile
from shoal.sink.databases.sqlite_file import SqliteFile
from shoal.sink.reading import last_lines, read_file

ROWS: list[dict[str, Any]] = [
    {"sku": "a", "n": 1, "tags": ["x", {"y": 2}], "text": 'quoted "," and\nlines'},
    {"sku": "é", "n": None, "tags": [], "text": "x" * 300_000},
]


def rows(path: Path, format: str, compression: str = "") -> list[Any]:
    return [row for _, row in read_file(path, format, compression)]


def test_json_lines(tmp_path: Path) -> None:
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "a.jsonl").write_text(text)
    assert rows(tmp_path / "a.jsonl", "jsonl") == ROWS
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()) + gzip.compress(b'"third"\n'))
    assert rows(tmp_path / "a.jsonl.gz", "jsonl", "gz") == [*ROWS, "third"]


def test_a_copy_that_ends_within_a_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": 2')
    assert rows(tmp_path / "a.jsonl", "jsonl") == [{"n": 1}]
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": \n{"n": 3}\n')
    with pytest.raises(SinkError, match=r"a\.jsonl: line 2: .* of the format that its name says\?"):
        rows(tmp_path / "a.jsonl", "jsonl")


@pytest.mark.parametrize("indent", [None, 2])
def test_json(tmp_path: Path, indent: int | None) -> None:
    (tmp_path / "a.json").write_text(json.dumps(ROWS, indent=indent))
    assert rows(tmp_path / "a.json", "json") == ROWS
    lines = ",\n".join(json.dumps(row) for row in ROWS)
    (tmp_path / "a.json").write_text(f"[\n{lines}\n]\n")
    assert rows(tmp_path / "a.json", "json") == ROWS
    (tmp_path / "a.json").write_text("[\n]\n")
    assert rows(tmp_path / "a.json", "json") == []
    (tmp_path / "a.json").write_text(f"[\n{lines}\n")
    with pytest.raises(SinkError, match="the end is missing"):
        rows(tmp_path / "a.json", "json")


@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_delimited(tmp_path: Path, format: str, delimiter: str) -> None:
    with open(tmp_path / "a", "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, ["sku", "n", "text"], delimiter=delimiter, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(ROWS)
    found = rows(tmp_path / "a", format)
    assert found == [{"sku": "a", "n": "1", "text": ROWS[0]["text"]}, {"sku": "é", "text": ROWS[1]["text"]}]


def test_parquet(tmp_path: Path) -> None:
    plain = [{"sku": "a", "n": 1, "tags": ["x"]}, {"sku": "b", "n": None, "tags": []}]
    pa, parquet = map(import_module, ("pyarrow", "pyarrow.parquet"))
    parquet.write_table(pa.Table.from_pylist(plain), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", "parquet") == plain


def test_databases(tmp_path: Path) -> None:
    made = "CREATE TABLE book (sku TEXT, n INTEGER); INSERT INTO book VALUES ('a', 1), ('b', NULL);"
    with sqlite3.connect(tmp_path / "a.db") as lite:
        lite.executescript(made)
    lite.close()
    with duckdb.connect(tmp_path / "a.duckdb") as duck:
        duck.execute(made)
    wanted = [("book", {"sku": "a", "n": 1}), ("book", {"sku": "b", "n": None})]
    assert list(read_file(tmp_path / "a.db", "sqlite")) == wanted
    assert list(read_file(tmp_path / "a.duckdb", "duckdb")) == wanted


@pytest.mark.parametrize("make", [SqliteFile, DuckdbFile])
def test_databases_of_a_job_in_the_order_of_their_rows(
    tmp_path: Path, make: type[SqliteFile | DuckdbFile]
) -> None:
    rows = [
        ("book", {"tags": ["a"], "new": True, "x": {}}),
        ("Book", {"Title": "B", "title": "b"}),
        ("book", {"tags": [1], "new": False, "x": {"y": None}}),
    ]
    file = make(tmp_path / "rows")
    end = file.append(0, [Row(msgspec.json.encode(row) + b"\n", table=table) for table, row in rows])
    file.finish(end)
    file.close()
    assert list(read_file(tmp_path / "rows", "sqlite" if make is SqliteFile else "duckdb")) == rows
    assert list(file.items(end)) == rows


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "xml", "parquet", "sqlite", "duckdb"])
def test_what_is_no_such_file_is_one_line(tmp_path: Path, format: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'\xff\x00not this"\n\x80' * 100)
    with pytest.raises(SinkError, match=r"cannot read .*file"):
        list(read_file(path, format))
    with pytest.raises(SinkError, match=r"cannot read .*missing"):
        list(read_file(tmp_path / "missing", format))


@pytest.mark.parametrize("length", [1, 10, 70_000, 300_000])
def test_last_lines(tmp_path: Path, length: int) -> None:
    lines = [f"{n} {'x' * length}".encode() for n in range(30)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"not committed\n")
    end = sum(len(line) + 1 for line in lines)
    for most in (1, 7, 30, 100):
        assert last_lines(path, end, most) == lines[::-1][:most]
    assert last_lines(path, 0, 5) == []
