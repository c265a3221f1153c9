"""The tables of a DuckDB result file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any

import duckdb
import msgspec

from shoal.model import Row
from shoal.sink.databases import row_versions
from shoal.sink.databases.item_tables import ItemTables, fields_of
from shoal.sink.databases.table_columns import (
    EXACT,
    NUMBER,
    Column,
    Kind,
    Table,
    Type,
    kind_of,
    quoted,
    widened,
)

_CHUNK = 2_000  # rows that are in memory at the same time
_TYPES = {
    Type.UNKNOWN: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.INTEGER: "BIGINT",
    Type.REAL: "DOUBLE",
    Type.TEXT: "VARCHAR",
    # Not JSON: that type is an extension's. After a crash DuckDB reads its log before it has loaded extensions, and
    # fails if the log changes a column to such a type.
    Type.JSON: "VARCHAR",
}
_Numbered = tuple[int, dict[str, object]]


class DuckdbTables(ItemTables):
    def __init__(self, db: duckdb.DuckDBPyConnection, schemas: Mapping[str, Mapping[str, object]]) -> None:
        super().__init__(schemas)
        self._db = db

    def insert(self, number: int, rows: Iterable[Row]) -> None:
        """Adds the rows, with numbers after this one."""
        numbered = ((place, row) for place, row in enumerate(rows, number + 1))
        while chunk := list(islice(numbered, _CHUNK)):
            by_item: dict[str, list[_Numbered]] = {}
            for place, row in chunk:
                item = fields_of(row.data)
                if row.by:  # a newer version
                    self._insert_all(by_item)
                    self._retire(row, place, item)
                by_item.setdefault(row.table, []).append((place, item))
            self._insert_all(by_item)

    def _insert_all(self, by_item: dict[str, list[_Numbered]]) -> None:
        for item, its_rows in by_item.items():
            self._insert(self._table(item), its_rows)
        by_item.clear()

    def _insert_item(self, table: Table, number: int, item: dict[str, object]) -> None:
        self._insert(table, [(number, item)])

    def _retire(self, row: Row, number: int, item: dict[str, object]) -> None:
        """The row with the same key gives way."""
        table = self._table(row.table)
        if all(self._fit(table, name, {kind_of(item.get(name))}) for name in row.by):
            columns = {name: table.columns[name] for name in row.by}
            key = {column.name: _encoded(item.get(name), column.type) for name, column in columns.items()}
            row_versions.retire(self, table, key, row_versions.Coming(number, row.ident, row.at, item))

    def _insert(self, table: Table, rows: Sequence[_Numbered]) -> None:
        """First the columns get the types that all values need, then the values are written, column by column."""
        kinds: dict[str, set[Kind]] = {}
        for _, item in rows:
            for name, value in item.items():
                kinds.setdefault(name, set()).add(kind_of(value))
        names = [name for name in kinds if self._fit(table, name, kinds[name])]
        columns = [table.columns[name] for name in names]
        values: list[list[object]] = [[number for number, _ in rows]]
        for name, column in zip(names, columns, strict=True):
            values.append([_encoded(item.get(name), column.type) for _, item in rows])
        if rest := [name for name in kinds if name not in set(names)]:
            columns.append(self._rest(table))
            values.append([_encoded(_chosen(item, rest), Type.JSON) for _, item in rows])
        types = ["BIGINT", *(self._declared(column.type) for column in columns)]
        listed = ", ".join(map(quoted, (NUMBER, *(column.name for column in columns))))
        lists = ", ".join(f"unnest(?::{type_}[])" for type_ in types)
        self._do(f"INSERT INTO {quoted(table.name)}({listed}) SELECT {lists}", values)

    def _fit(self, table: Table, name: str, kinds: set[Kind]) -> bool:
        """Makes a column that holds values of these kinds. False: they go to the column for the rest."""
        column = self._column(table, name)
        if column is None:
            return False
        type_ = self._wider(table, column, kinds)
        if type_ is not column.type:
            self._widen(table, name, column, type_)
        return True

    def _wider(self, table: Table, column: Column, kinds: set[Kind]) -> Type:
        """DuckDB has no column of mixed types. Integers become floats if that is exact, and everything can be text."""
        type_ = reduce(widened, kinds, column.type)
        if type_ is Type.NUMERIC:
            return Type.TEXT if Kind.LONG in kinds or self._has_long(table, column) else Type.REAL
        return Type.TEXT if type_ is Type.ANY else type_

    def _has_long(self, table: Table, column: Column) -> bool:
        """Whether there are integers that a float does not hold."""
        if column.type is not Type.INTEGER:
            return False
        name = quoted(column.name)
        where = f"{name} NOT BETWEEN {-EXACT} AND {EXACT}"
        return bool(self._do(f"SELECT 1 FROM {quoted(table.name)} WHERE {where} LIMIT 1"))

    # -- SQL as DuckDB knows it

    @property
    def file(self) -> str:
        return str(
            self._do("SELECT path FROM duckdb_databases() WHERE database_name = current_database()")[0][0]
        )

    def _do(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._db.execute(sql, list(values)).fetchall()

    def _stream(self, sql: str, values: Sequence[object]) -> Iterator[Any]:
        found = self._db.cursor().execute(sql, list(values))
        while many := found.fetchmany(_CHUNK):
            yield from many

    def _names(self) -> set[str]:
        tables = self._do("SELECT table_name FROM information_schema.tables")  # views, too
        indexes = self._do("SELECT index_name FROM duckdb_indexes()")
        return {name for (name,) in [*tables, *indexes]}

    def _declared(self, type_: Type) -> str:
        return _TYPES[type_]

    def _set_type(self, table: Table, column: Column, type_: Type) -> None:
        if self._declared(type_) != self._declared(column.type):
            where = f"{quoted(table.name)} ALTER COLUMN {quoted(column.name)}"
            self._do(f"ALTER TABLE {where} TYPE {self._declared(type_)}")


def _chosen(item: dict[str, object], names: list[str]) -> dict[str, object] | None:
    return {name: item[name] for name in names if name in item} or None


def _encoded(value: object, type_: Type) -> object:
    if value is None:
        return None
    if type_ is Type.JSON or (type_ is Type.TEXT and not isinstance(value, str)):
        return msgspec.json.encode(value).decode()
    return value
