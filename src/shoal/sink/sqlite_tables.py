"""The tables of a SQLite result file: made, widened, filled and read inside the caller's transaction.

`_shoal` holds the number of the last row. `_shoal_tables` and `_shoal_columns` say which kind of item and which field
is where: names in SQL may differ from those of items, because SQL does not tell `Title` from `title`. When another
process has added a table or a column, `_shoal.version` differs from the one that was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import apsw
import msgspec
from msgspec import Struct, field

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.table_columns import Kind, Type, free_name, kind_of, quoted, type_of, widened

NUMBER = "_row"  # the column of a row's number
REST = "_more"  # the column for the fields that have no column
MOST_COLUMNS = 1_000  # of one table. SQLite takes 2,000
_RESERVED = (NUMBER, REST, "rowid", "oid", "_rowid_")  # the last three are SQLite's names for its own number
_OURS = ("_shoal", "_shoal_tables", "_shoal_columns")
_FORMAT = 1
_MAKE = f"""
CREATE TABLE _shoal(format INTEGER NOT NULL, position INTEGER NOT NULL, version INTEGER NOT NULL);
INSERT INTO _shoal VALUES ({_FORMAT}, 0, 0);
CREATE TABLE _shoal_tables(item TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE _shoal_columns(
  item TEXT, field TEXT, name TEXT NOT NULL, type TEXT NOT NULL, PRIMARY KEY(item, field)) WITHOUT ROWID;
"""
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


class Column(Struct):
    name: str
    type: Type


class Table(Struct):
    item: str  # what kind of items it holds
    name: str
    columns: dict[str, Column] = field(default_factory=dict)  # by the item's field
    taken: set[str] = field(default_factory=lambda: set(_RESERVED))  # names of columns, in lower case


class Tables:
    def __init__(self, db: apsw.Connection, schemas: Mapping[str, Mapping[str, object]]) -> None:
        self._db = db
        self._schemas = schemas
        self._known: dict[str, Table] = {}  # by the kind of item
        self._version: int | None = None

    def load(self) -> int | None:
        """Reads what other processes have changed. Returns the number of the last row; None: the database has no
        tables of ours."""
        if not self._db.table_exists("main", "_shoal"):
            return None
        found = self._db.execute("SELECT format, position, version FROM _shoal").fetchall()
        if not found or found[0][0] != _FORMAT:
            raise SinkError(
                f"{self._db.filename}: its table _shoal is empty or from a newer Shoal; choose another file with -o"
            )
        _, position, version = found[0]
        if version != self._version:
            self._known = {
                item: Table(item, name) for item, name in self._db.execute("SELECT * FROM _shoal_tables")
            }
            for item, name, column, type_ in self._db.execute("SELECT * FROM _shoal_columns"):
                self._known[item].columns[name] = Column(column, Type(type_))
                self._known[item].taken.add(column.casefold())
            self._version = cast(int, version)
        return cast(int, position)

    def forget(self) -> None:
        self._known, self._version = {}, None

    def make(self) -> None:
        """The first tables: ours, and those of the schemas."""
        self._db.execute(_MAKE)
        self._version = 0
        for item in self._schemas:
            self._table(item)

    def cut(self, position: int) -> None:
        """Deletes the rows after this position."""
        for table in self._known.values():
            self._db.execute(f"DELETE FROM {quoted(table.name)} WHERE {NUMBER} > ?", (position,))

    def move_to(self, position: int) -> None:
        self._db.execute("UPDATE _shoal SET position = ?", (position,))

    def insert(self, position: int, rows: Sequence[Row]) -> int:
        """Adds the rows after this position. Returns the number of the last one."""
        groups: dict[tuple[str, tuple[str, ...]], list[list[object]]] = {}
        for row in rows:
            position += 1
            table = self._table(row.table)
            names, values = self._fitted(table, _fields(row.data))
            groups.setdefault((table.name, tuple(names)), []).append([position, *values])
        for (table_name, columns), many in groups.items():
            listed = ", ".join(map(quoted, (NUMBER, *columns)))
            marks = ", ".join("?" * (len(columns) + 1))
            self._db.executemany(f"INSERT INTO {quoted(table_name)}({listed}) VALUES ({marks})", many)
        return position

    def read(self, position: int) -> list[Iterator[tuple[int, dict[str, object]]]]:
        """For each table: its rows up to this position, each with its number."""
        return [self._read(table, position) for table in self._known.values()]

    def _read(self, table: Table, position: int) -> Iterator[tuple[int, dict[str, object]]]:
        fields = list(table.columns.items())
        names = [NUMBER, *(column.name for _, column in fields)]
        rest = REST in table.columns
        listed = ", ".join(map(quoted, names))
        for number, *values in self._db.execute(
            f"SELECT {listed} FROM {quoted(table.name)} WHERE {NUMBER} <= ? ORDER BY {NUMBER}", (position,)
        ):
            item = {
                name: _decoded(value, column.type)
                for (name, column), value in zip(fields, values, strict=True)
            }
            if rest:
                item |= cast(dict[str, object], item.pop(REST) or {})
            yield cast(int, number), item

    # -- tables and columns

    def _table(self, item: str) -> Table:
        """The table for items of this kind. It is made if necessary, under a name that nobody uses: it may be that of a
        table which the user has added."""
        if (known := self._known.get(item)) is not None:
            return known
        used = {name.casefold() for (name,) in self._db.execute("SELECT name FROM sqlite_schema")}
        wanted = f"_{item}" if item.casefold().startswith("sqlite_") else item  # SQLite keeps these to itself
        table = Table(item, free_name(wanted, used | set(_OURS), empty="rows"))
        self._db.execute(f"CREATE TABLE {quoted(table.name)}({NUMBER} INTEGER PRIMARY KEY)")
        self._db.execute("INSERT INTO _shoal_tables VALUES (?, ?)", (item, table.name))
        self._known[item] = table
        self._changed()
        for name, annotation in list(self._schemas.get(item, {}).items())[:MOST_COLUMNS]:
            if name != REST:
                column = Column(free_name(name, table.taken, empty="empty"), type_of(annotation))
                self._make(table, name, column)
        return table

    def _add(self, table: Table, name: str, kind: Kind) -> Column | None:
        """Adds a column for the field; None: the table has as many as it may have."""
        if len(table.columns) >= MOST_COLUMNS:
            return None
        column = Column(free_name(name, table.taken, empty="empty"), widened(Type.UNKNOWN, kind))
        return self._make(table, name, column)

    def _make(self, table: Table, name: str, column: Column) -> Column:
        self._db.execute(
            f"ALTER TABLE {quoted(table.name)} ADD COLUMN {quoted(column.name)} {_declared(column.type)}"
        )
        self._db.execute(
            "INSERT INTO _shoal_columns VALUES (?, ?, ?, ?)", (table.item, name, column.name, column.type)
        )
        table.columns[name] = column
        table.taken.add(column.name.casefold())
        self._changed()
        return column

    def _changed(self) -> None:
        assert self._version is not None
        self._version += 1
        self._db.execute("UPDATE _shoal SET version = ?", (self._version,))

    def _fitted(self, table: Table, item: dict[str, object]) -> tuple[list[str], list[object]]:
        """Columns and values for a row. Columns that are missing are added, those that are too narrow widened."""
        names: list[str] = []
        values: list[object] = []
        rest: dict[str, object] = {}
        for name, value in item.items():
            kind = kind_of(value)
            column = None if name == REST else table.columns.get(name) or self._add(table, name, kind)
            if column is None:
                rest[name] = value
                continue
            if (wider := widened(column.type, kind)) is not column.type:
                self._retype(table, name, column, wider)
            names.append(column.name)
            values.append(_encoded(value, kind))
        if rest:
            if REST not in table.columns:
                self._make(table, REST, Column(REST, Type.JSON))
            names.append(REST)
            values.append(_encoded(rest, Kind.NESTED))
        return names, values

    def _retype(self, table: Table, name: str, column: Column, type_: Type) -> None:
        """Changes the declared type of a column. The values stay as they are. SQLite has no statement for it; this is
        the way that its documentation of ALTER TABLE gives for changes that leave the stored values alone."""
        version = self._db.pragma("schema_version")
        sql = self._db.execute(
            "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table.name,)
        ).fetchall()
        changed = _with_type(str(sql[0][0]) if sql else "", column, type_)
        self._db.pragma("writable_schema", True)
        try:
            self._db.execute(
                "UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?", (changed, table.name)
            )
            self._db.pragma("schema_version", version + 1)
        finally:
            self._db.pragma("writable_schema", "RESET")
        column.type = type_
        self._db.execute(
            "UPDATE _shoal_columns SET type = ? WHERE item = ? AND field = ?", (type_, table.item, name)
        )
        self._changed()


def _with_type(sql: str, column: Column, type_: Type) -> str:
    """The text of a CREATE TABLE with another type for a column."""
    name = column.name.replace('"', '""')
    before = f" {_declared(column.type)}".rstrip()
    after = f" {_declared(type_)}".rstrip()
    for match in list(_QUOTED.finditer(sql))[1:]:  # the first is the table's name
        rest = sql[match.end() :]
        if match[1] == name and re.match(rf"{before}[,)]", rest):
            return sql[: match.end()] + after + rest.removeprefix(before)
    raise SinkError(
        f"column {column.name!r} cannot hold values of another type, because its table was changed by hand: undo that "
        "and run again; nothing is lost"
    )


def _declared(type_: Type) -> str:
    """A column without a type takes each value as it is."""
    return "" if type_ in (Type.UNKNOWN, Type.ANY) else type_.value


def _fields(data: bytes) -> dict[str, object]:
    """An item that is no object has one field, `value`."""
    item = msgspec.json.decode(data)
    return item if isinstance(item, dict) else {"value": item}


def _encoded(value: object, kind: Kind) -> object:
    if kind is Kind.NESTED:
        return msgspec.json.encode(value).decode()
    return str(value) if kind is Kind.HUGE else value


def _decoded(value: object, type_: Type) -> object:
    if value is None:
        return None
    if type_ is Type.JSON:
        return msgspec.json.decode(cast(str, value))
    return bool(value) if type_ is Type.BOOLEAN else value
