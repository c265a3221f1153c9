"""Databases as result files: a process is killed while it appends, again and again."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

KILLS = 10
WRITER = """
import json, os, sys
from pathlib import Path
from shoal.model import Row
from shoal.sink.sqlite_file import SqliteFile

path, store = Path(sys.argv[1]), Path(sys.argv[2])
file = SqliteFile(path)
while True:
    committed = int(store.read_text()) if store.exists() else 0
    numbers = range(committed + 1, committed + 6)
    # Each fifth row adds a column, and changes the type of another from integers to text.
    items = [{"n": n, f"f{n // 5 % 50}": n if n % 2 else str(n)} for n in numbers]
    rows = [Row(json.dumps(item).encode(), table=f"t{item['n'] % 3}") for item in items]
    end = file.append(committed, rows)
    store.with_suffix(".new").write_text(str(end))
    os.replace(store.with_suffix(".new"), store)  # the store's commit
    print(end, flush=True)
"""


@pytest.mark.parametrize("seed", [1])
def test_a_process_that_is_killed_while_it_appends(tmp_path: Path, seed: int) -> None:
    path, store, chance = tmp_path / "rows.sqlite", tmp_path / "store", random.Random(seed)
    for _ in range(KILLS):
        command = [sys.executable, "-c", WRITER, str(path), str(store)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(2, 30)):
                assert process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
    committed = int(store.read_text())
    with closing(sqlite3.connect(path)) as db:
        found = [row for t in range(3) for row in db.execute(f"SELECT n, _row FROM t{t}")]
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    numbers = sorted(n for n, _ in found)
    # What was written after the last commit of the store is there, until the next append.
    assert numbers[:committed] == list(range(1, committed + 1))
    assert numbers == sorted(row for _, row in found)
    assert len(numbers) - committed in (0, 5)
