"""Databases as result files: a process is killed while it appends, again and again."""

from __future__ import annotations

import random
import signal
import sqlite3
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from crash.harness import Desk, until
from shoal.sink.databases.duckdb_file import DuckdbFile
from shoal.sink.databases.sqlite_file import SqliteFile
from shoal.testing import HostProfile, WebProcess

KILLS = 5
WRITER = """
import json, os, sys
from pathlib import Path
from shoal.model import Row
from shoal.sink.databases.duckdb_file import DuckdbFile
from shoal.sink.databases.sqlite_file import SqliteFile

path, store = Path(sys.argv[1]), Path(sys.argv[2])
file = SqliteFile(path) if path.suffix == ".sqlite" else DuckdbFile(path, segment=500)
count, committed = map(int, store.read_text().split()) if store.exists() else (0, 0)
while True:
    numbers = range(count + 1, count + 6)
    # Each fifth row adds a column, and changes the type of another from integers to text.
    items = [{"n": n, "l": [n] if n > 9 else None, f"f{n // 5 % 20}": n if n % 2 else str(n)} for n in numbers]
    rows = [Row(json.dumps(item).encode() + b"\\n", table=f"t{item['n'] % 3}") for item in items]
    committed = file.append(committed, rows)
    count += 5
    store.with_suffix(".new").write_text(f"{count} {committed}")
    os.replace(store.with_suffix(".new"), store)  # the store's commit
    print(count, flush=True)
"""


def read(path: Path) -> list[Any]:
    connect: Any = sqlite3.connect if path.suffix == ".sqlite" else duckdb.connect
    with closing(connect(str(path))) as db:
        return [row for t in range(3) for row in db.execute(f"SELECT n, l FROM t{t}").fetchall()]


@pytest.mark.parametrize("kind", [SqliteFile, DuckdbFile])
def test_a_process_that_is_killed_while_it_appends(
    desk: Desk, tmp_path: Path, kind: type[SqliteFile | DuckdbFile]
) -> None:
    path = tmp_path / ("rows.sqlite" if kind is SqliteFile else "rows.duckdb")
    store, chance = tmp_path / "store", random.Random(1)
    for _ in range(KILLS):
        desk.kill_after_lines(chance.randrange(2, 25), WRITER, str(path), str(store))
    count, committed = map(int, store.read_text().split())
    file = kind(path)
    file.append(committed, ())
    file.finish(committed)
    file.close()
    assert sorted(read(path), key=itemgetter(0)) == [
        (n, f"[{n}]" if n > 9 else None) for n in range(1, count + 1)
    ]


def test_a_stopped_crawl_shows_its_rows_and_goes_on(desk: Desk) -> None:
    path, pages = desk.folder / "rows.duckdb", 400  # a busy machine may be late with the signal
    with WebProcess({"slow": HostProfile("slow", pages=pages, latency=0.1)}) as web:
        command = ("crawl", web.url("slow"), "-o", path.name, "--rate", "0", "--no-robots")
        process = desk.start(*command, "--per-host", "3")
        until(lambda: any(path.parent.glob(".rows.duckdb.parts/*.jsonl")), "rows")
        process.signal(signal.SIGINT)
        assert process.code() == 0, process.err
        rows = desk.job().counters.items
        assert rows < pages
        assert _count(path) == rows
        desk.finish(*command, "--per-host", "50")
        assert _count(path) == pages


def _count(path: Path) -> int:
    with closing(duckdb.connect(str(path), read_only=True)) as db:
        [[table]] = db.execute("SELECT name FROM _shoal_tables").fetchall()
        return int(db.execute(f'SELECT count(DISTINCT url) FROM "{table}"').fetchall()[0][0])
