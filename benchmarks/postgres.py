"""Ways to put rows into PostgreSQL: row by row, arrays in one statement, COPY into a staging table.

    python -m benchmarks.postgres                         on a server of its own
    python -m benchmarks.postgres --url postgresql://…    on yours; it makes and drops the table shoal_bench

Every way does the same: the freshest row of a key stays, one transaction per batch. `first` writes new rows,
`again` the same rows as seen later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg

from shoal.sink.postgres.item_table import Table, find_table
from shoal.sink.postgres.writing import Entry, write

NAME = "shoal_bench"
Way = Callable[[Any, Table, Sequence[Entry]], Awaitable[None]]

_STAGED = """
INSERT INTO {place} AS t (key, item, url, job, fetched_at, first_seen, changed_at)
SELECT DISTINCT ON (key COLLATE "C")
  key, item::jsonb, url, 'bench', to_timestamp(at), to_timestamp(at), to_timestamp(at)
FROM staged ORDER BY key COLLATE "C", at DESC
ON CONFLICT (key) DO UPDATE SET
  item = CASE WHEN t.item = excluded.item THEN t.item ELSE excluded.item END,
  changed_at = CASE WHEN t.item = excluded.item THEN t.changed_at ELSE excluded.changed_at END,
  url = excluded.url, job = excluded.job, fetched_at = excluded.fetched_at
WHERE t.fetched_at < excluded.fetched_at"""


async def row_by_row(connection: Any, table: Table, entries: Sequence[Entry]) -> None:
    async with connection.transaction():
        for entry in entries:
            await write(connection, table, [entry], "bench")


async def arrays(connection: Any, table: Table, entries: Sequence[Entry]) -> None:
    await write(connection, table, entries, "bench")


async def copy(connection: Any, table: Table, entries: Sequence[Entry]) -> None:
    async with connection.transaction():
        await connection.execute(
            "CREATE TEMP TABLE staged (key text, item text, url text, at float8) ON COMMIT DROP"
        )
        records = [(entry.key, entry.item, entry.url, entry.at) for entry in entries]
        await connection.copy_records_to_table("staged", records=records)
        await connection.execute(_STAGED.format(place=table.place))


WAYS: dict[str, Way] = {"row by row": row_by_row, "arrays": arrays, "copy": copy}


def rows(count: int, at: float) -> list[Entry]:
    item = {"title": "A book of some length", "price": 12.5, "tags": ["one", "two"], "text": "x" * 200}
    return [
        Entry(f"{n * 7919 % 1_000_003:07}", json.dumps(item | {"upc": n}), f"http://shop.example/{n}", at)
        for n in range(count)
    ]


async def measure(url: str, way: Way, size: int, seconds: float) -> tuple[float, float]:
    """Rows a second: new ones, and the same ones seen later."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        await connection.execute(f"DROP TABLE IF EXISTS {NAME}")
        table = await find_table(connection, NAME, ())
        first, written = await _pass(connection, table, way, size, seconds, at=1.0, most=200_000)
        again, _ = await _pass(connection, table, way, size, seconds, at=2.0, most=written)
        return first, again
    finally:
        await connection.execute(f"DROP TABLE IF EXISTS {NAME}")
        await connection.close()


async def _pass(
    connection: Any, table: Table, way: Way, size: int, seconds: float, *, at: float, most: int
) -> tuple[float, int]:
    everything = rows(most, at)
    started = time.perf_counter()
    written = 0
    while written < most and time.perf_counter() - started < seconds:
        await way(connection, table, everything[written : written + size])
        written += size
    return written / (time.perf_counter() - started), min(written, most)


@contextmanager
def server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    from shoal.testing.servers import PostgresServer

    folder = tempfile.mkdtemp(prefix="shoal-bench-")
    try:
        with PostgresServer(folder, fsync=True) as own:
            yield own.url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows a second into PostgreSQL, by way and size of batch.")
    parser.add_argument("--url", help="a database to use; default: a server of its own, with fsync on")
    parser.add_argument(
        "--batch", type=int, nargs="+", default=[1, 16, 64, 512, 5_000], help="rows in a batch"
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="for every figure")
    options = parser.parse_args()
    with server(options.url) as url:
        print(f"{'batch':>6}  {'way':<12}{'first':>12}{'again':>12}   rows/s")
        for size in options.batch:
            for name, way in WAYS.items():
                first, again = asyncio.run(measure(url, way, size, options.seconds))
                print(f"{size:>6}  {name:<12}{first:>12,.0f}{again:>12,.0f}")


if __name__ == "__main__":
    main()
