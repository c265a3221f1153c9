"""Versions of rows in a database that is a result file: a row with a key replaces the one with the same key.

Rows are replaced if their pages are visited again. What has changed is noted in a table beside, `product_changes` for
`product`: the key, when, and the old and new values of the fields that differ. So a row that was replaced, but whose
replacement was never committed, can be made again: `_row` is its number, `_next` that of its replacement.

`_checked_at` is a column for when a row was last found on its page, as it is. It is made when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from shoal.sink.databases.table_columns import CHECKED, NUMBER, Table, Type, free_name, item_of, quoted
from shoal.sink.row_meta import iso_time

_AFTER = "_next"  # the column with the number of the row that came after it


class Database(Protocol):
    """What is needed of the tables."""

    def _do(self, sql: str, values: Sequence[object] = ()) -> list[Any]: ...

    def _declared(self, type_: Type) -> str: ...

    def _names(self) -> set[str]: ...

    def _note_versions(self, table: Table) -> None:
        """Remembers the names of its history and column."""
        ...

    def _insert_item(self, table: Table, number: int, item: dict[str, object]) -> None: ...


class Coming(Struct, frozen=True):
    """A row that replaces the one with the same key."""

    number: int
    ident: str
    at: float
    item: Mapping[str, object]


def retire(db: Database, table: Table, key: Mapping[str, object], new: Coming) -> None:
    """Takes away the rows with that key, and notes what they were. `key`: values by column."""
    for its_number, old in _found(db, table, key):
        if not table.history:
            _make_history(db, table)
        before, after = difference(old, new.item)
        text = [msgspec.json.encode(value).decode() for value in (before, after)]
        values = (new.ident, iso_time(new.at), *text, its_number, new.number)
        db._do(f"INSERT INTO {quoted(table.history)} VALUES (?, ?, ?, ?, ?, ?)", values)
        db._do(f"DELETE FROM {quoted(table.name)} WHERE {NUMBER} = ?", (its_number,))


def _found(db: Database, table: Table, key: Mapping[str, object]) -> list[tuple[int, dict[str, object]]]:
    columns = [NUMBER, *(column.name for column in table.columns.values())]
    where = " AND ".join(f"{quoted(name)} = ?" for name in key)
    sql = (
        f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table.name)} WHERE {where} ORDER BY {NUMBER}"
    )
    return [(number, item_of(table, values)) for number, *values in db._do(sql, list(key.values()))]


def difference(
    old: Mapping[str, object], new: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """The fields that differ. A field that is missing is one without a value."""
    names = [name for name in {**old, **new} if not _same(old.get(name), new.get(name))]
    before = {name: old[name] for name in names if old.get(name) is not None}
    return before, {name: new[name] for name in names if new.get(name) is not None}


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def undo(db: Database, table: Table, number: int) -> None:
    """Makes the rows again whose replacements have higher numbers than this one, and are going to be deleted."""
    if not table.history:
        return
    for its_number, item in restored(db, table, number):
        db._insert_item(table, its_number, item)
    db._do(f"DELETE FROM {quoted(table.history)} WHERE {_AFTER} > ?", (number,))


def restored(db: Database, table: Table, number: int) -> Iterator[tuple[int, dict[str, object]]]:
    """The rows up to this number that later ones have replaced, in their order."""
    if not table.history:
        return
    rows = db._do(
        f"SELECT {NUMBER}, {_AFTER}, old, new FROM {quoted(table.history)} WHERE {_AFTER} > ? "
        f"ORDER BY {_AFTER} DESC",
        (number,),
    )
    later: dict[int, dict[str, object]] = {}  # the versions that are known, by their numbers
    found: list[tuple[int, dict[str, object]]] = []
    for its_number, after, old, new in rows:
        if after not in later:
            later |= dict(_found(db, table, {NUMBER: after}))
        changed = msgspec.json.decode(new)
        item = {name: None if name in changed else one for name, one in later.get(after, {}).items()}
        item |= msgspec.json.decode(old)
        later[its_number] = item
        if its_number <= number:
            found.append((its_number, item))
    yield from sorted(found, key=lambda pair: pair[0])


def touch(db: Database, table: Table, key: Mapping[str, object], at: float) -> None:
    """Notes that the row with that key was found unchanged."""
    if not table.checked:
        if any(column.name == CHECKED for column in table.columns.values()):
            return  # an older version made it for a field of that name
        db._do(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {quoted(CHECKED)} {db._declared(Type.TEXT)}")
        table.checked = CHECKED
        db._note_versions(table)
    where = " AND ".join(f"{quoted(name)} = ?" for name in key)
    sql = f"UPDATE {quoted(table.name)} SET {quoted(CHECKED)} = ? WHERE {where}"
    db._do(sql, [iso_time(at), *key.values()])


def forget(db: Database, table: Table, before: float, committed: int) -> None:
    """Deletes what was noted before that time."""
    if table.history:
        db._do(
            f'DELETE FROM {quoted(table.history)} WHERE "at" < ? AND {_AFTER} <= ?',
            (iso_time(before), committed),
        )


def _make_history(db: Database, table: Table) -> None:
    used = {name.casefold() for name in db._names()}
    table.history = free_name(f"{table.name}_changes", used, empty="changes")
    text, number = db._declared(Type.TEXT), db._declared(Type.INTEGER)
    json = db._declared(Type.JSON)
    columns = f'key {text}, "at" {text}, old {json}, new {json}, {NUMBER} {number}, {_AFTER} {number}'
    db._do(f"CREATE TABLE {quoted(table.history)}({columns})")
    for name in ("key", _AFTER):
        index = free_name(f"{table.history}_by_{name.strip('_')}", used, empty="")
        db._do(f"CREATE INDEX {quoted(index)} ON {quoted(table.history)}({name})")
    db._note_versions(table)
