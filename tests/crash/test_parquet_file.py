"""A Parquet file: a process is killed while it appends, writes parts, and writes the file."""

from __future__ import annotations

import os
import random

import pyarrow.parquet as pq
import pytest

from crash.harness import Desk
from shoal.sink.parquet.parquet_file import ParquetFile

KILLS = 6
WRITER = """
import json, os, sys
from pathlib import Path
from shoal.model import Row
from shoal.sink.parquet.parquet_file import ParquetFile

path, store = Path(sys.argv[1]), Path(sys.argv[2])
file = ParquetFile(path, {}, segment=500)
file._kept = 0
count, committed = map(int, store.read_text().split()) if store.exists() else (0, 0)
while True:
    numbers = range(count + 1, count + 6)
    items = [{"n": n, f"f{n // 5 % 50}": n if n % 2 else str(n)} for n in numbers]
    committed = file.append(committed, [Row(json.dumps(item).encode() + b"\\n", table="book") for item in items])
    count += 5
    store.with_suffix(".new").write_text(f"{count} {committed}")
    os.replace(store.with_suffix(".new"), store)  # the store's commit
    if count % 40 == 0:
        file.finish(committed)
    print(count, flush=True)
"""


def test_a_process_that_is_killed_at_any_moment(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("rows")
    path, store, chance = tmp_path / "rows.parquet", tmp_path / "store", random.Random(1)
    for _ in range(KILLS):
        desk.kill_after_lines(chance.randrange(2, 30), WRITER, str(path), str(store))
        if path.exists():  # whole at any moment
            assert pq.read_table(path).num_rows
    count, committed = map(int, store.read_text().split())
    file = ParquetFile(path, {}, segment=500)
    file.append(committed, ())
    file.finish(committed)
    file.close()
    table = pq.read_table(path)
    assert table.column("n").to_pylist() == list(range(1, count + 1))
    for row in table.select(["n", "f7"]).to_pylist():
        assert row["f7"] == (str(row["n"]) if row["n"] // 5 % 50 == 7 else None)
    expected = {".rows.parquet.parts", "rows.parquet", "store"}
    # `store.new` is left if the writer is killed in its own commit.
    assert set(os.listdir(tmp_path)) - {"store.new"} == expected
