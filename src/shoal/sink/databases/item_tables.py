"""The tables of a database that is a result file: which kind of item and which field is where.

`_shoal` holds the position of the last row. `_shoal_tables` says which kind of item has which table, `_shoal_columns`
which field has which column: names in SQL may differ from those of items, because SQL does not tell `Title` from
`title`. `_shoal_versions` says which kind has a table of changes and a column for when a row was checked
(`row_versions.py`). When another process has added a table or a column, `_shoal.version` differs from the one that was
read.

All of it happens inside the caller's transaction. SQLite and DuckDB differ in a few methods.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import msgspec

from shoal.errors import SinkError, UsageError
from shoal.sink.databases import row_versions
from shoal.sink.databases.table_columns import (
    CHECKED,
    NUMBER,
    REST,
    Column,
    Kind,
    Table,
    Type,
    free_name,
    item_of,
    quoted,
    type_of,
)

MOST_COLUMNS = 1_000  # of one table. SQLite takes 2,000
_VERSIONS = "_shoal_versions"
_OURS = ("_shoal", "_shoal_tables", "_shoal_columns", _VERSIONS)
_RESERVED = (
    NUMBER,
    REST,
    CHECKED,
    "rowid",
    "oid",
    "_rowid_",
)  # the last three are SQLite's names for its own number
_FORMAT = 1
_MAKE = (
    "CREATE TABLE _shoal(format INTEGER, position BIGINT, version INTEGER)",
    f"INSERT INTO _shoal VALUES ({_FORMAT}, 0, 0)",
    "CREATE TABLE _shoal_tables(item TEXT, name TEXT)",
    "CREATE TABLE _shoal_columns(item TEXT, field TEXT, name TEXT, type TEXT)",
)


class ItemTables:
    def __init__(self, schemas: Mapping[str, Mapping[str, object]]) -> None:
        self._schemas = schemas
        self._known: dict[str, Table] = {}  # by the kind of item
        self._version: int | None = None

    def read(self, number: int) -> Iterator[tuple[str, dict[str, object]]]:
        """The rows of all tables up to this number, in their order, each with its kind."""
        for _, item, row in merge(
            *(self._read(one, number) for one in self._known.values()), key=itemgetter(0)
        ):
            yield item, row

    def _read(self, table: Table, number: int) -> Iterator[tuple[int, str, dict[str, object]]]:
        listed = ", ".join(map(quoted, (NUMBER, *(column.name for column in table.columns.values()))))
        sql = f"SELECT {listed} FROM {quoted(table.name)} WHERE {NUMBER} <= ? ORDER BY {NUMBER}"
        there = ((its_number, item_of(table, values)) for its_number, *values in self._stream(sql, (number,)))
        # A process that died may have left versions that are not committed, instead of those that are.
        for its_number, item in merge(there, row_versions.restored(self, table, number), key=itemgetter(0)):
            yield its_number, table.item, item

    # -- what a database does in its own way

    @property
    def file(self) -> str:
        """For messages."""
        raise NotImplementedError

    def _do(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Runs a statement, and returns its rows."""
        raise NotImplementedError

    def _stream(self, sql: str, values: Sequence[object]) -> Iterator[Any]:
        """The rows of a query, some at a time. Several are read at once."""
        raise NotImplementedError

    def _names(self) -> set[str]:
        """The names of all tables, views and indexes."""
        raise NotImplementedError

    def _declared(self, type_: Type) -> str:
        """The type in SQL."""
        raise NotImplementedError

    def _set_type(self, table: Table, column: Column, type_: Type) -> None:
        raise NotImplementedError

    def _insert_item(self, table: Table, number: int, item: dict[str, object]) -> None:
        """Adds a row under that number."""
        raise NotImplementedError

    # -- the position

    def load(self) -> int | None:
        """Reads what other processes have changed. Returns the position of the last row; None: the database has no
        tables of ours."""
        if "_shoal" not in self._names():
            return None
        found = self._do("SELECT format, position, version FROM _shoal")
        if not found or found[0][0] != _FORMAT:
            raise SinkError(
                f"{self.file} is empty inside or from a newer Shoal (its table _shoal): choose another file with -o"
            )
        _, position, version = found[0]
        if version != self._version:
            self._known = {}
            for item, name in self._do("SELECT item, name FROM _shoal_tables"):
                self._known[item] = Table(item, name, {}, set(_RESERVED))
            for item, field, name, type_ in self._do("SELECT item, field, name, type FROM _shoal_columns"):
                self._known[item].columns[field] = Column(name, Type(type_))
                self._known[item].taken.add(name.casefold())
            self._load_versions()
            self._version = version
        return cast(int, position)

    def _load_versions(self) -> None:
        if _VERSIONS in self._names():
            for item, history, checked in self._do(f"SELECT item, history, checked FROM {_VERSIONS}"):
                self._known[item].history, self._known[item].checked = history, checked

    def _note_versions(self, table: Table) -> None:
        if _VERSIONS not in self._names():
            self._do(f"CREATE TABLE {_VERSIONS}(item TEXT, history TEXT, checked TEXT)")
        self._do(f"DELETE FROM {_VERSIONS} WHERE item = ?", (table.item,))
        self._do(f"INSERT INTO {_VERSIONS} VALUES (?, ?, ?)", (table.item, table.history, table.checked))
        self._changed()

    def forget(self) -> None:
        self._known, self._version = {}, None

    def make(self) -> None:
        """The first tables: ours, and those of the schemas."""
        for sql in _MAKE:
            self._do(sql)
        self._version = 0
        for item in self._schemas:
            self._table(item)

    def cut(self, number: int) -> None:
        """Deletes the rows after this number."""
        for table in self._known.values():
            row_versions.undo(self, table, number)
            self._do(f"DELETE FROM {quoted(table.name)} WHERE {NUMBER} > ?", (number,))

    def forget_history(self, before: float, committed: int) -> None:
        """Deletes old versions of rows that were replaced before that time."""
        for table in self._known.values():
            row_versions.forget(self, table, before, committed)

    def move_to(self, position: int) -> None:
        self._do("UPDATE _shoal SET position = ?", (position,))

    # -- tables and columns

    def _table(self, item: str) -> Table:
        """The table for items of this kind. It is made if necessary, under a name that nobody uses: the user may have
        added tables."""
        if (known := self._known.get(item)) is not None:
            return known
        used = {name.casefold() for name in self._names()}
        wanted = f"_{item}" if item.casefold().startswith("sqlite_") else item  # SQLite keeps these to itself
        table = Table(item, free_name(wanted, used.union(_OURS), empty="rows"), {}, set(_RESERVED))
        number = self._declared(Type.INTEGER)
        self._do(f"CREATE TABLE {quoted(table.name)}({NUMBER} {number} {self.number_is})")
        self._do("INSERT INTO _shoal_tables VALUES (?, ?)", (item, table.name))
        self._known[item] = table
        self._changed()
        for name, annotation in self._schemas.get(item, {}).items():
            self._column(table, name, type_of(annotation))
        return table

    number_is = ""  # a constraint of the numbers

    def _column(self, table: Table, name: str, type_: Type = Type.UNKNOWN) -> Column | None:
        """The column for a field. It is added if necessary. None: the field goes to the column for the rest."""
        if name == REST:
            return None
        if (known := table.columns.get(name)) is not None:
            return known
        if len(table.columns) >= MOST_COLUMNS:
            return None
        return self._add(table, name, Column(free_name(name, table.taken, empty="empty"), type_))

    def _rest(self, table: Table) -> Column:
        return table.columns.get(REST) or self._add(table, REST, Column(REST, Type.JSON))

    def _add(self, table: Table, name: str, column: Column) -> Column:
        definition = f"{quoted(column.name)} {self._declared(column.type)}"
        self._do(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {definition}")
        values = (table.item, name, column.name, column.type.value)
        self._do("INSERT INTO _shoal_columns VALUES (?, ?, ?, ?)", values)
        table.columns[name] = column
        table.taken.add(column.name.casefold())
        self._changed()
        return column

    def _widen(self, table: Table, name: str, column: Column, type_: Type) -> None:
        self._set_type(table, column, type_)
        column.type = type_
        values = (type_.value, table.item, name)
        self._do("UPDATE _shoal_columns SET type = ? WHERE item = ? AND field = ?", values)
        self._changed()

    def _changed(self) -> None:
        assert self._version is not None
        self._version += 1
        self._do("UPDATE _shoal SET version = ?", (self._version,))


def database_path(path: Path) -> str:
    """The name of a database, for its library."""
    name = os.path.abspath(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path.name).decode(errors="backslashreplace")
        raise UsageError(f"-o {shown}: the name of a database must be UTF-8: choose another one") from None
    return name


def fields_of(data: bytes) -> dict[str, object]:
    """An item that is no object has one field, `value`."""
    item = msgspec.json.decode(data)
    return item if isinstance(item, dict) else {"value": item}


def encoded(value: object, kind: Kind) -> object:
    if kind is Kind.NESTED:
        return msgspec.json.encode(value).decode()
    return str(value) if kind is Kind.HUGE else value
