"""Reads the rows of a job from PostgreSQL, out of the tables that Shoal made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
from msgspec import Struct

from shoal.errors import SinkError
from shoal.model import CHANGES
from shoal.sink.outputs import Place
from shoal.sink.postgres.address import read_address
from shoal.sink.postgres.faults import no_connection, one_line
from shoal.sink.postgres.item_table import Table
from shoal.sink.reading import ItemRow

_BATCH = 1_000  # rows that are read at once
_CONNECT = 10.0  # seconds
_FOUND = """
SELECT n.nspname, c.relname, array_agg(a.attname::text)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = ANY(current_schemas(false)) AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
GROUP BY 1, 2 ORDER BY 1, 2"""
_OWN = {"key", "item", "job", "fetched_at", "first_seen", "changed_at"}


class PostgresSource(Struct, frozen=True):
    """The rows of a job in a database, as they were last written. All of them are read at one moment."""

    place: Place  # as it may be shown
    address: str
    job: str
    expected: bool = True  # the job has rows
    table: str = ""  # only those of this table

    def rows(self) -> Iterator[ItemRow]:
        address = read_address(self.address)
        found = False
        with asyncio.Runner() as runner:
            try:
                connection = runner.run(_connect(address.dsn))
            except Exception as error:
                raise no_connection(error, address) from None
            try:
                runner.run(connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
                for table in _own(runner.run(connection.fetch(_FOUND))):
                    if not _is_wanted(table, self.table):
                        continue
                    query = f"SELECT item::text FROM {table.place} WHERE job = $1 ORDER BY fetched_at, key"
                    cursor = runner.run(_cursor(connection, query, self.job))
                    while batch := runner.run(cursor.fetch(_BATCH)):
                        found = True
                        yield from ((table.name, msgspec.json.decode(row[0])) for row in batch)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                raise SinkError(f"cannot read {address.shown}: {one_line(error)}") from None
            finally:
                connection.terminate()
        if self.expected and not found:
            raise SinkError(
                f"{address.shown} has no rows of job {self.job} in tables that Shoal made; tables with columns of your"
                " own cannot be exported: copy them with psql (\\copy)"
            )


def _own(found: Sequence[Sequence[Any]]) -> list[Table]:
    """Those that Shoal made."""
    return [
        Table(name, schema, dict.fromkeys(columns, ""))
        for schema, name, columns in found
        if set(columns) >= _OWN
    ]


def _is_wanted(table: Table, only: str) -> bool:
    """What has changed on pages is no item of the job."""
    return table.name == only if only else table.name != CHANGES


async def _connect(dsn: str) -> Any:
    return await asyncpg.connect(
        dsn, timeout=_CONNECT, statement_cache_size=0, server_settings={"application_name": "shoal export"}
    )


async def _cursor(connection: Any, query: str, job: str) -> Any:
    return await connection.cursor(query, job)
