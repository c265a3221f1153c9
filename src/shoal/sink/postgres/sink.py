"""Rows in PostgreSQL, written before their pages are settled.

After a crash between the two, a page is fetched and written again, which changes only a time: every row has a key, and
the freshest row of a key stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

import asyncpg  # type: ignore[import-untyped]
import msgspec
from msgspec.structs import replace

from shoal.errors import ShoalError, SinkError
from shoal.limits import REJECTED_ITEM
from shoal.model import Dead, Failure, ItemNote, Row, Settlement, Task
from shoal.sink.items import KeptItem, rejected_task
from shoal.sink.ownership import FileClaim
from shoal.sink.postgres.address import Address, read_address
from shoal.sink.postgres.database import Connection, Database
from shoal.sink.postgres.faults import NO_SUCH_DATABASE, cannot_write, no_connection, one_line, sqlstate
from shoal.sink.postgres.item_table import (
    CHECKED,
    Table,
    add_checked,
    find_table,
    forget_history,
    keep_history,
    quoted,
)
from shoal.sink.postgres.writing import Entry, NoColumn, Touch, check, rows_by_table, trim, write

_FORGET_EVERY = 3600.0  # seconds
Work: TypeAlias = Callable[[Connection, Table], Awaitable[None]]

_RIGHTS = """
SELECT current_schema(), pg_is_in_recovery(), current_user,
  coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) OR EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'INSERT'))"""


class PostgresSink:
    journal = None
    writes_first = True

    def __init__(
        self, output: str, *, job: str, database: Database | None = None, history_keep: float | None = None
    ) -> None:
        """`history_keep`: seconds after which recorded changes are forgotten; None: never."""
        self._address = read_address(output)
        self._history_keep = history_keep
        self._forgotten_at = 0.0
        self._job = job
        self._database = database or Database(self._address)
        self._tables: dict[str, Table] = {}
        self._filled: set[str] = set()  # tables that have taken rows

    def __repr__(self) -> str:
        return f"<PostgresSink {self._address.shown}: {', '.join(self._tables) or 'no table yet'}>"

    async def open(self, asked: FileClaim | None = None) -> None:
        await self._database.open()
        try:
            await self._check_rights()
        except BaseException:
            await self._database.close()
            raise

    async def _check_rights(self) -> None:
        schema, standby, user, may_write = await self._database.run(lambda one: one.fetchrow(_RIGHTS))
        where = self._address.shown
        if standby:
            raise SinkError(f"{where} is a standby and takes no rows: name the primary")
        if schema is None:
            raise SinkError(f"{where}: there is no schema to write to; create it, or change search_path")
        if not may_write:
            raise SinkError(
                f"{where}: user {user} may not create tables: GRANT CREATE ON SCHEMA {schema} TO {user}, "
                "or create them yourself"
            )

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        """An item with a value that its column refuses is rejected. To find it, halves of the batch, and then of its
        page, are tried until it is alone. Rows that were written before are written again, which changes nothing."""
        try:
            await self._write(batch)
        except (ValueRefused, NoColumn) as error:
            if isinstance(error, NoColumn) and not self._fits(batch):
                raise  # probably a mistake of the user, not of the page
            if len(batch) == 1:
                return [await self._without_refused(batch[0], error)]
            half = len(batch) // 2
            return [*await self.write(batch[:half]), *await self.write(batch[half:])]
        self._filled |= {row.table for settlement in batch for row in settlement.rows}
        return batch

    async def _without_refused(self, settlement: Settlement, error: ShoalError) -> Settlement:
        """Rows without a key have one by their places, so their page is refused as a whole."""
        rows = settlement.rows
        if len(rows) > 1 and not all(row.by for row in rows):
            return _buried(settlement, error)
        refused = await self._refused(settlement, rows, error)
        bad = [id(row) for row, _ in refused]
        items = [_rejected(settlement.lease.task, row, str(why)) for row, why in refused]
        good = tuple(row for row in rows if id(row) not in bad)
        return replace(settlement, rows=good, rejected=(*settlement.rejected, *items))

    async def _refused(
        self, settlement: Settlement, rows: Sequence[Row], error: ShoalError
    ) -> list[tuple[Row, ShoalError]]:
        """Which of these rows, that are refused together, are refused alone. The others are written."""
        if len(rows) == 1:
            return [(rows[0], error)]
        found: list[tuple[Row, ShoalError]] = []
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            try:
                await self._write([replace(settlement, rows=tuple(part))])
            except (ValueRefused, NoColumn) as why:
                found += await self._refused(settlement, part, why)
        return found

    def _fits(self, batch: Sequence[Settlement]) -> bool:
        """Whether the tables have accepted rows of other pages."""
        return {row.table for settlement in batch for row in settlement.rows} <= self._filled

    async def _write(self, batch: Sequence[Settlement]) -> None:
        for name, rows in rows_by_table(batch, self._job).items():
            for part in rows.parts():
                await self._do(name, part, partial(write, entries=part, job=self._job), alone=len(batch) == 1)
            if rows.ranges:
                await self._do(name, rows.entries, partial(trim, ranges=rows.ranges))
            if rows.touches:
                await self._do(name, rows.touches, partial(self._check, rows=rows.touches))
        await self._forget_history(batch)

    async def _check(self, connection: Connection, table: Table, rows: Sequence[Touch]) -> None:
        if table.own and CHECKED not in table.columns:
            table = self._tables[table.name] = await add_checked(connection, table)
        await check(connection, table, rows)

    async def _forget_history(self, batch: Sequence[Settlement]) -> None:
        """Now and then."""
        now = max((row.at for one in batch for row in (*one.rows, *one.archived)), default=0.0)
        if (
            self._history_keep is None
            or not self._address.history
            or now - self._forgotten_at < _FORGET_EVERY
        ):
            return
        self._forgotten_at = now
        for table in self._tables.values():
            before = now - self._history_keep
            await self._database.run(partial(forget_history, table=table, before=before))

    async def close(self) -> None:
        await self._database.close()

    async def _do(
        self, name: str, entries: Sequence[Entry] | Sequence[Touch], what: Work, *, alone: bool = False
    ) -> None:
        """Does something with a table and these rows, until it succeeds. `alone`: the rows are of one page, so the
        refused value is searched."""

        async def work(connection: Connection) -> None:
            await what(connection, await self._table(connection, name, entries[0].by))

        try:
            try:
                await self._database.run(work)
            except asyncpg.UndefinedTableError:  # somebody dropped it
                self._tables.pop(name, None)
                await self._database.run(work)
        except asyncpg.PostgresError as error:
            written = [entry for entry in entries if isinstance(entry, Entry)]
            raise await self._explained(error, name, written, alone) from None
        except (asyncpg.InterfaceError, OSError) as error:
            raise cannot_write(error, name, self._address.shown) from None

    async def _table(self, connection: Connection, name: str, by: Sequence[str]) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = await find_table(connection, name, by)
            if self._address.history:
                await keep_history(connection, table, by)
            self._tables[name] = table
        return table

    async def _explained(
        self, error: asyncpg.PostgresError, name: str, entries: Sequence[Entry], alone: bool
    ) -> ShoalError:
        table = self._tables.get(name)
        culprit = None
        if alone and table is not None and is_about_a_value(error, table):
            try:
                culprit = await self._database.run(partial(find_culprit, table=table, entries=entries))
            except asyncpg.PostgresError:
                pass  # then the message does not name it
        return culprit or explain(error, self._address, name, table, entries)


def _buried(settlement: Settlement, error: ShoalError) -> Settlement:
    """The settlement as a dead letter without rows. Its links are kept; what it counts, it counts when replayed."""
    task = settlement.lease.task
    failure = Failure("row_refused", str(error), at=settlement.rows[0].at, attempt=task.attempt)
    return replace(settlement, verdict=Dead(failure), rows=(), counts=(), rejected=())


def _rejected(task: Task, row: Row, reason: str) -> Task:
    """The item as it was to be written, after hooks and schema."""
    data = row.data.rstrip(b"\n")
    kept = KeptItem(data[:REJECTED_ITEM], len(data) <= REJECTED_ITEM)
    note = ItemNote(row.table, row.at, kept.is_json, hooked=True, handler=task.handler)
    return rejected_task(task, kept, reason, note, row.at)


# -- which row and field a table refused


_NO_UNIQUE_INDEX = "42P10"
_AFTERWARDS = "change the column or what the handler yields, and replay it"
# Data exceptions, broken constraints, and values beyond a limit (an index, the depth of JSON).
_ABOUT_VALUES = ("22", "23", "54")


class ValueRefused(SinkError):
    """A table refused a value of an item. Only that item fails, not the crawl."""


def explain(
    error: asyncpg.PostgresError, address: Address, name: str, table: Table | None, entries: Sequence[Entry]
) -> ShoalError:
    code = sqlstate(error)
    if code.startswith("28") or code == NO_SUCH_DATABASE:  # met when the connection had to be made again
        return no_connection(error, address)
    if table is not None and code == _NO_UNIQUE_INDEX:
        columns = ", ".join(map(quoted, (entries[0].by if entries else ()) or ("key",)))
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
    """The first value that its column refuses. PostgreSQL names the value, but not the column."""
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
