"""The tables of a SQLite result file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.databases.item_tables import NUMBER, REST, Column, ItemTables, Table, encoded, fields_of
from shoal.sink.databases.table_columns import Kind, Type, kind_of, quoted, widened

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


class SqliteTables(ItemTables):
    number_is = "PRIMARY KEY"

    def __init__(self, db: apsw.Connection, schemas: Mapping[str, Mapping[str, object]]) -> None:
        super().__init__(schemas)
        self._db = db

    def insert(self, number: int, rows: Sequence[Row]) -> int:
        """Adds the rows after this number. Returns the number of the last one."""
        groups: dict[tuple[str, tuple[str, ...]], list[list[object]]] = {}
        for row in rows:
            number += 1
            table = self._table(row.table)
            names, values = self._fitted(table, fields_of(row.data))
            groups.setdefault((table.name, tuple(names)), []).append([number, *values])
        for (table_name, columns), many in groups.items():
            listed = ", ".join(map(quoted, (NUMBER, *columns)))
            marks = ", ".join("?" * (len(columns) + 1))
            self._db.executemany(f"INSERT INTO {quoted(table_name)}({listed}) VALUES ({marks})", many)
        return number

    def _fitted(self, table: Table, item: dict[str, object]) -> tuple[list[str], list[object]]:
        """Columns and values for a row. Columns that are missing are added, those that are too narrow widened."""
        names: list[str] = []
        values: list[object] = []
        rest: dict[str, object] = {}
        for name, value in item.items():
            kind = kind_of(value)
            column = table.columns.get(name) if name != REST else None
            column = column or self._column(table, name, widened(Type.UNKNOWN, kind))
            if column is None:
                rest[name] = value
                continue
            if (wider := widened(column.type, kind)) is not column.type:
                self._widen(table, name, column, wider)
            names.append(column.name)
            values.append(encoded(value, kind))
        if rest:
            names.append(self._rest(table).name)
            values.append(encoded(rest, Kind.NESTED))
        return names, values

    # -- SQL as SQLite knows it

    @property
    def file(self) -> str:
        return self._db.filename

    def _do(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._db.execute(sql, tuple(values)).fetchall()

    def _stream(self, sql: str, values: Sequence[object]) -> Iterator[Any]:
        return self._db.execute(sql, tuple(values))

    def _names(self) -> set[str]:
        return {name for (name,) in self._do("SELECT name FROM sqlite_schema")}

    def _declared(self, type_: Type) -> str:
        """A column without a type takes each value as it is."""
        return "" if type_ in (Type.UNKNOWN, Type.ANY) else type_.value

    def _set_type(self, table: Table, column: Column, type_: Type) -> None:
        """Changes the declared type of a column. The values stay as they are. SQLite has no statement for it; this is
        the way that its documentation of ALTER TABLE gives for changes that leave the stored values alone."""
        version = self._db.pragma("schema_version")
        which = "WHERE type = 'table' AND name = ?"
        found = self._do(f"SELECT sql FROM sqlite_schema {which}", (table.name,))
        before, after = self._declared(column.type), self._declared(type_)
        changed = _with_type(found[0][0] if found else "", column.name, before, after)
        if changed is None:
            raise SinkError(
                f"{self.file}: column {column.name!r} cannot hold values of another type, because its table was "
                "changed by hand: undo that and run again; nothing is lost"
            )
        self._db.pragma("writable_schema", True)
        try:
            self._do(f"UPDATE sqlite_schema SET sql = ? {which}", (changed, table.name))
            self._db.pragma("schema_version", version + 1)
        finally:
            self._db.pragma("writable_schema", "RESET")


def _with_type(sql: str, column: str, before: str, after: str) -> str | None:
    """The text of a CREATE TABLE with another type for a column; None if it has no such column."""
    name = column.replace('"', '""')
    before = f" {before}".rstrip()
    after = f" {after}".rstrip()
    for match in list(_QUOTED.finditer(sql))[1:]:  # the first is the table's name
        rest = sql[match.end() :]
        if match[1] == name and re.match(rf"{before}[,)]", rest):
            return sql[: match.end()] + after + rest.removeprefix(before)
    return None
