"""Text files: a process is killed while it appends, again and again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.outputs.reading import read

from crash.harness import Desk
from shoal.settings import Settings
from shoal.sink.outputs import FORMATS, FileOptions

KILLS = 6
WRITER = """
import os, sys
from pathlib import Path
import msgspec
from shoal.model import Row
from shoal.settings import Settings
from shoal.sink.outputs import FORMATS, FileOptions

path, store = Path(sys.argv[1]), Path(sys.argv[2])
format, _, compression = path.name.partition(".")[2].partition(".")
file = FORMATS[format].make(FileOptions(path, str(path), format, compression, {}, Settings()))
while True:
    position, count = map(int, store.read_text().split()) if store.exists() else (0, 0)
    # Each eighth commit brings a new field, and cells hold line ends.
    items = [{"n": n, f"f{n // 24}": f'"{n},\\r\\n"'} for n in range(count, count + 3)]
    position = file.append(position, [Row(msgspec.json.encode(item) + b"\\n") for item in items])
    store.with_suffix(".new").write_text(f"{position} {count + len(items)}")
    os.replace(store.with_suffix(".new"), store)  # the store's commit
    print(count, flush=True)
"""


@pytest.mark.parametrize("suffix", ["csv", "tsv.zst", "json", "xml.gz"])
def test_a_process_that_is_killed_while_it_appends(desk: Desk, tmp_path: Path, suffix: str) -> None:
    path, store, chance = tmp_path / f"rows.{suffix}", tmp_path / "store", random.Random(suffix)
    for _ in range(KILLS):
        desk.kill_after_lines(chance.randrange(1, 25), WRITER, str(path), str(store))
    position, count = map(int, store.read_text().split())
    format, _, compression = suffix.partition(".")
    file = FORMATS[format].make(FileOptions(path, str(path), format, compression, {}, Settings()))  # type: ignore[arg-type]
    file.append(position, [])
    file.close()
    rows = [{name: str(value) for name, value in row.items() if value != ""} for row in read(path)]
    assert rows == [{"n": str(n), f"f{n // 24}": f'"{n},\r\n"'} for n in range(count)]
