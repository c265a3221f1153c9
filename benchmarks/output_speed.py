"""What a format costs: rows a second and CPU a row, against plain JSON Lines in the same run.

    python -m benchmarks.output_speed                            every format that is a file
    python -m benchmarks.output_speed --format csv --rows 20000 --batch 10

Rows are written as a crawl writes them: a batch at a time, durable with each batch, and the file is finished at the
end. No page is fetched. JSON Lines is measured first and last: the difference is the machine's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.outputs.journals import SUFFIXES, open_journal
from benchmarks.outputs.site import kind_of, rows_of
from shoal.model import Row

PLAIN = "jsonl"


class Cost(Struct):
    seconds: float
    cpu: float
    size: int  # bytes on the disk, at the end


def make_rows(count: int) -> list[Row]:
    """Of three kinds, with nested values; about 200 bytes each."""
    rows: list[Row] = []
    page = 0
    while len(rows) < count:
        rows += [Row(msgspec.json.encode(row) + b"\n", table=kind_of(page)) for row in rows_of(page, count)]
        page += 1
    return rows[:count]


def measure(suffix: str, rows: Sequence[Row], batch: int) -> Cost:
    # Below the current directory: /tmp may be memory, where nothing costs a sync.
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        path = Path(folder) / f"rows.{suffix}"
        journal = open_journal(path)
        began, cpu, position = time.perf_counter(), time.process_time(), 0
        for start in range(0, len(rows), batch):
            position = journal.append(position, rows[start : start + batch])
        journal.finish(position)
        cost = Cost(time.perf_counter() - began, time.process_time() - cpu, path.stat().st_size)
        journal.close()
        return cost


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.output_speed", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--format", choices=SUFFIXES, action="append", help="may be repeated; all without it")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=50, help="rows in a commit")
    options = parser.parse_args()
    rows = make_rows(options.rows)
    measure(PLAIN, rows[:1_000], options.batch)  # imports, and the disk
    others = [suffix for suffix in options.format or SUFFIXES if suffix != PLAIN]
    print(f"{options.rows:,} rows, {options.batch} in a commit")
    print(f"{'format':10} {'rows/s':>9} {'CPU µs/row':>11} {'x jsonl':>8} {'bytes/row':>10}")
    plain = None
    for suffix in (PLAIN, *others, PLAIN):
        cost = measure(suffix, rows, options.batch)
        plain = plain or cost
        print(
            f"{suffix:10} {len(rows) / cost.seconds:9,.0f} {cost.cpu / len(rows) * 1e6:11.1f} "
            f"{cost.cpu / plain.cpu:8.1f} {cost.size / len(rows):10.0f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
