"""The tables of a SQLite result file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.databases import row_versions
from shoal.sink.databases.item_tables import ItemTables, encoded, fields_of
from shoal.sink.databases.table_columns import (
    NUMBER,
    REST,
    Column,
    Kind,
    Table,
    Type,
    kind_of,
    quoted,
    widened,
)
from shoal.sink.row_meta import iso_time

# Rows with the same columns of a table, for one statement.
_Groups = dict[tuple[str, tuple[str, ...]], list[list[object]]]
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


class SqliteTables(ItemTables):
    number_is = "PRIMARY KEY"

    def __init__(self, db: apsw.Connection, schemas: Mapping[str, Mapping[str, object]]) -> None:
        super().__init__(schemas)
        self._db = db
        self._indexes: set[str] = set()  # those of keys that are there

    def forget(self) -> None:
        super().forget()
        self._indexes.clear()

    def insert(self, number: int, rows: Sequence[Row]) -> int:
        """Adds the rows after this number. Returns the number of the last one. A row with a key that has no hash of it
        is a newer version (see `Row.key`): it replaces the one with the same key."""
        groups: _Groups = {}
        for row in rows:
            table = self._table(row.table)
            item = fields_of(row.data)
            if row.touch:
                self._insert(groups)
                self._touch(table, row, item)
                continue
            number += 1
            names, values = self._fitted(table, item)
            if (
                row.by
                and row.key is None
                and (key := self._key(table, row, dict(zip(names, values, strict=True))))
            ):
                self._insert(groups)
                self._make_key_index(table, key)
                row_versions.retire(self, table, key, row_versions.Coming(number, row.ident, row.at, item))
            if table.checked and row.by:
                names, values = [*names, table.checked], [*values, iso_time(row.at)]
            groups.setdefault((table.name, tuple(names)), []).append([number, *values])
        self._insert(groups)
        return number

    def _insert(self, groups: _Groups) -> None:
        """Adds the rows of all groups, which are empty then."""
        for (table_name, columns), many in groups.items():
            listed = ", ".join(map(quoted, (NUMBER, *columns)))
            marks = ", ".join("?" * (len(columns) + 1))
            self._db.executemany(f"INSERT INTO {quoted(table_name)}({listed}) VALUES ({marks})", many)
        groups.clear()

    def _insert_item(self, table: Table, number: int, item: dict[str, object]) -> None:
        names, values = self._fitted(table, item)
        self._insert({(table.name, tuple(names)): [[number, *values]]})

    def _touch(self, table: Table, row: Row, item: dict[str, object]) -> None:
        known = {name: table.columns[name] for name in row.by if name in table.columns}
        values = {
            column.name: encoded(item.get(name), kind_of(item.get(name))) for name, column in known.items()
        }
        if row.by and len(values) == len(row.by):
            self._make_key_index(table, values)
            row_versions.touch(self, table, values, row.at)

    def _key(self, table: Table, row: Row, values: Mapping[str, object]) -> dict[str, object]:
        """The values of the key by column; none if it has a field without a column."""
        if not all(name in table.columns for name in row.by):
            return {}
        columns = [table.columns[name].name for name in row.by]
        return {name: values[name] for name in columns}

    def _make_key_index(self, table: Table, key: Mapping[str, object]) -> None:
        name = f"_shoal_key_{'_'.join((table.name, *key))}"
        if name not in self._indexes:
            listed = ", ".join(map(quoted, key))
            self._do(f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {quoted(table.name)}({listed})")
            self._indexes.add(name)

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
