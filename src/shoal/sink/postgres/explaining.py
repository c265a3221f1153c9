"""Which row and field it was that a table did not take."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg  # type: ignore[import-untyped]
import msgspec

from shoal.errors import ShoalError, SinkError
from shoal.sink.postgres.address import Address
from shoal.sink.postgres.entries import Entry
from shoal.sink.postgres.faults import NO_SUCH_DATABASE, cannot_write, no_connection, one_line, sqlstate
from shoal.sink.postgres.link import Connection
from shoal.sink.postgres.tables import Table, quoted

_NO_UNIQUE_INDEX = "42P10"
_AFTERWARDS = "change the column or what the handler yields, and replay it"
# Data exceptions, broken constraints, and values beyond a limit (an index, the depth of JSON).
_ABOUT_VALUES = ("22", "23", "54")


class ValueRefused(SinkError):
    """A table did not take what a page has for it. That is the page's trouble, and not the crawl's."""


def explain(
    error: asyncpg.PostgresError, address: Address, name: str, table: Table | None, entries: Sequence[Entry]
) -> ShoalError:
    code = sqlstate(error)
    if code.startswith("28") or code == NO_SUCH_DATABASE:  # met when the connection had to be made again
        return no_connection(error, address)
    if table is not None and code == _NO_UNIQUE_INDEX:
        columns = ", ".join(map(quoted, entries[0].by or ("key",)))
        return SinkError(
            f"table {name} has no unique index on the key ({columns}): "
            f"CREATE UNIQUE INDEX ON {table.place} ({columns}), or change the handler's key"
        )
    if code.startswith(_ABOUT_VALUES):
        column = f": column {error.column_name}" if getattr(error, "column_name", None) else ""
        return ValueRefused(f"table {name}{column}: {one_line(error)}; {_AFTERWARDS}")
    return cannot_write(error, name, address.shown)


def is_about_a_value(error: asyncpg.PostgresError, table: Table) -> bool:
    return not table.own and sqlstate(error).startswith("22")


async def find_culprit(connection: Connection, table: Table, entries: Sequence[Entry]) -> ValueRefused | None:
    """The first value that its column does not take. PostgreSQL names the value, but not the column."""
    for entry in entries:
        if await _takes(connection, table, entry.item):
            continue
        for field, value in entry.fields.items():
            if not await _takes(connection, table, msgspec.json.encode({field: value}).decode()):
                kind = "text" if isinstance(value, str) else type(value).__name__
                return ValueRefused(
                    f"table {table.name}: column {field} ({table.columns.get(field)}) does not take the {kind} "
                    f"that {entry.url} has for it; {_AFTERWARDS}"
                )
    return None


async def _takes(connection: Connection, table: Table, item: str) -> bool:
    try:
        await connection.execute(f"SELECT jsonb_populate_record(NULL::{table.place}, $1::text::jsonb)", item)
    except asyncpg.DataError:
        return False
    return True
