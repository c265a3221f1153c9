"""The statements that put rows into a table.

A row replaces the one with its key only if its page was fetched later, so a late worker changes nothing, and a row that
is written twice exists once. An unchanged row only gets the new time. Rows are sorted by key, so that two workers with
the same rows cannot deadlock.

Rows are sent as arrays, one per column: at the size of a settlement that is quicker than COPY into a staging table
(`python -m benchmarks.postgres`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from shoal.errors import SinkError
from shoal.model import ARCHIVE, Row, Settlement, Task
from shoal.sink.items import without_meta
from shoal.sink.postgres.database import Connection
from shoal.sink.postgres.item_table import CHECKED, TIMES, Table, quoted

_OWN = """
INSERT INTO {place} AS t (key, item, url, job, fetched_at, first_seen, changed_at{checked})
SELECT DISTINCT ON (r.key COLLATE "C")
  r.key, r.item::jsonb, r.url, $5, to_timestamp(r.at), to_timestamp(r.at), to_timestamp(r.at){at}
FROM unnest($1::text[], $2::text[], $3::text[], $4::float8[]) WITH ORDINALITY AS r(key, item, url, at, n)
ORDER BY r.key COLLATE "C", r.at DESC, r.n DESC
ON CONFLICT (key) DO UPDATE SET
  item = CASE WHEN t.item = excluded.item THEN t.item ELSE excluded.item END,
  changed_at = CASE WHEN t.item = excluded.item THEN t.changed_at ELSE excluded.changed_at END,
  url = excluded.url,
  job = excluded.job,{update}
  fetched_at = excluded.fetched_at
WHERE t.fetched_at < excluded.fetched_at"""
# Tables of older versions get the column when it is first needed.
_WITH_CHECKED = {
    "checked": f", {CHECKED}",
    "at": ", to_timestamp(r.at)",
    "update": f"\n  {CHECKED} = excluded.{CHECKED},",
}
_WITHOUT = dict.fromkeys(_WITH_CHECKED, "")

# A page that has fewer rows than when it was last written.
_TRIM = """
DELETE FROM {place} AS t USING unnest($1::text[], $2::text[], $3::float8[]) AS gone(after, before, at)
WHERE t.key COLLATE "C" > gone.after AND t.key COLLATE "C" < gone.before AND t.fetched_at < to_timestamp(gone.at)"""

# PostgreSQL converts the fields to the types of the columns.
_TYPED = """
INSERT INTO {place} AS t ({columns})
SELECT DISTINCT ON ({keys}) {values}
FROM unnest($1::text[], $2::text[], $3::float8[]) WITH ORDINALITY AS r(item, url, at, n)
CROSS JOIN (SELECT $4::text AS job) AS j
CROSS JOIN LATERAL jsonb_populate_record(NULL::{place}, r.item::jsonb) AS v
ORDER BY {keys}, r.at DESC, r.n DESC
ON CONFLICT ({conflict}) DO UPDATE SET {updates}
WHERE t.fetched_at IS NULL OR t.fetched_at < excluded.fetched_at"""
_ABOUT = {"url": "r.url", "job": "j.job"}


# Pages that were visited, and whose rows are as they were.
_CHECK_OWN = """
UPDATE {place} AS t SET checked_at = to_timestamp(r.at)
FROM (SELECT key, max(at) AS at FROM unnest($1::text[], $2::float8[]) AS r(key, at) GROUP BY key ORDER BY key) AS r
WHERE t.key = r.key AND (t.checked_at IS NULL OR t.checked_at < to_timestamp(r.at))"""
_CHECK_PAGES = """
UPDATE {place} AS t SET checked_at = to_timestamp(r.at)
FROM unnest($1::text[], $2::text[], $3::float8[]) AS r(after, before, at)
WHERE t.key COLLATE "C" > r.after AND t.key COLLATE "C" < r.before
  AND (t.checked_at IS NULL OR t.checked_at < to_timestamp(r.at))"""
_CHECK_TYPED = """
UPDATE {place} AS t SET checked_at = to_timestamp(r.at)
FROM unnest($1::text[], $2::float8[]) AS r(item, at)
CROSS JOIN LATERAL jsonb_populate_record(NULL::{place}, r.item::jsonb) AS v
WHERE {same} AND (t.checked_at IS NULL OR t.checked_at < to_timestamp(r.at))"""


class NoColumn(SinkError):
    """An item has a field that the table has no column for."""


async def write(connection: Connection, table: Table, entries: Sequence[Entry], job: str) -> None:
    if table.own:
        await _write_own(connection, table, entries, job)
    else:
        await _write_typed(connection, table, entries, job)


async def trim(connection: Connection, table: Table, ranges: Sequence[KeyRange]) -> None:
    await connection.execute(
        _TRIM.format(place=table.place),
        [extent.after for extent in ranges],
        [extent.before for extent in ranges],
        [extent.at for extent in ranges],
    )


async def check(connection: Connection, table: Table, rows: Sequence[Touch]) -> None:
    """Moves the time when rows were checked, if the table has a column for it."""
    if CHECKED not in table.columns:
        return
    keyed = sorted((one for one in rows if one.by), key=lambda one: one.key)
    pages = [one for one in rows if not one.by]
    if keyed and table.own:
        keys, times = [one.key for one in keyed], [one.at for one in keyed]
        await connection.execute(_CHECK_OWN.format(place=table.place), keys, times)
    elif keyed and all(name in table.columns for name in keyed[0].by):
        same = " AND ".join(f"t.{quoted(name)} = v.{quoted(name)}" for name in keyed[0].by)
        items, times = [one.item for one in keyed], [one.at for one in keyed]
        await connection.execute(_CHECK_TYPED.format(place=table.place, same=same), items, times)
    if pages and table.own:
        await connection.execute(
            _CHECK_PAGES.format(place=table.place),
            [f"{one.key}#" for one in pages],
            [f"{one.key}#{_LAST}" for one in pages],
            [one.at for one in pages],
        )


async def _write_own(connection: Connection, table: Table, entries: Sequence[Entry], job: str) -> None:
    await connection.execute(
        _OWN.format(place=table.place, **(_WITH_CHECKED if CHECKED in table.columns else _WITHOUT)),
        [entry.key for entry in entries],
        [entry.item for entry in entries],
        [entry.url for entry in entries],
        [entry.at for entry in entries],
        job,
    )


async def _write_typed(connection: Connection, table: Table, entries: Sequence[Entry], job: str) -> None:
    """Items with different fields need different statements: a field that an item lacks stays unchanged."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.by, tuple(entry.fields)), []).append(entry)
    for (by, fields), group in groups.items():
        _check_fields(table, by, fields)
        await connection.execute(
            _typed_statement(table, by, fields),
            [entry.item for entry in group],
            [entry.url for entry in group],
            [entry.at for entry in group],
            job,
        )


def _typed_statement(table: Table, by: Sequence[str], fields: Sequence[str]) -> str:
    values = {name: f"v.{quoted(name)}" for name in fields if name not in TIMES}
    for name, value in _ABOUT.items():
        if name in table.columns:
            values.setdefault(name, value)
    values |= {name: "to_timestamp(r.at)" for name in TIMES if name in table.columns}
    if CHECKED in table.columns:
        values.setdefault(CHECKED, "to_timestamp(r.at)")
    kept = {*by, *TIMES}
    content = [name for name in fields if name not in kept]
    updates = [f"{quoted(name)} = excluded.{quoted(name)}" for name in values if name not in kept]
    updates.append("fetched_at = excluded.fetched_at")
    if "changed_at" in table.columns and content:
        old, new = (", ".join(f"{row}.{quoted(name)}" for name in content) for row in ("t", "excluded"))
        updates.append(
            f"changed_at = CASE WHEN ROW({old}) IS DISTINCT FROM ROW({new}) "
            "THEN excluded.changed_at ELSE t.changed_at END"
        )
    return _TYPED.format(
        place=table.place,
        columns=", ".join(map(quoted, values)),
        values=", ".join(values.values()),
        keys=", ".join(f"v.{quoted(name)}" for name in by),
        conflict=", ".join(map(quoted, by)),
        updates=", ".join(updates),
    )


def _check_fields(table: Table, by: Sequence[str], fields: Sequence[str]) -> None:
    for name in (*by, *fields):
        if name not in table.columns and name not in TIMES:
            raise NoColumn(
                f"table {table.name} has no column for the field {name!r}: "
                f"ALTER TABLE {table.place} ADD COLUMN {quoted(name)} …, or leave it out of the item"
            )


# -- from settlements to rows by table, each with a key that is the same in every run


_MOST_ROWS = 2_000  # in one statement,
_MOST_BYTES = 8 * 1024 * 1024  # and of their text
_LONGEST_KEY = 1_000  # bytes; an index of PostgreSQL takes about 2,700
_NUL = b"\\u0000"  # as JSON writes it; PostgreSQL's text has no such character
_LAST = "~"  # after every digit


class Entry(Struct, frozen=True):
    key: str
    item: str  # JSON
    url: str
    at: float
    by: tuple[str, ...] = ()  # the fields of the key; none: the key is the page and the row's position

    @property
    def fields(self) -> Mapping[str, Any]:
        item = msgspec.json.decode(self.item)
        return item if isinstance(item, dict) else {}


class KeyRange(Struct, frozen=True):
    """Keys that rows of a page had before, if it has fewer rows now."""

    after: str
    before: str
    at: float  # when the page was fetched


class Touch(Struct, frozen=True):
    """A row that is as it was; or, without a key, all rows of its page."""

    key: str
    item: str  # the fields of the key
    at: float
    by: tuple[str, ...] = ()


class TableRows(Struct):
    """The rows for one table."""

    entries: list[Entry]
    ranges: list[KeyRange]
    touches: list[Touch] = []

    def parts(self) -> Iterator[Sequence[Entry]]:
        """Parts that fit into one statement."""
        part: list[Entry] = []
        size = 0
        for entry in self.entries:
            part.append(entry)
            size += len(entry.item)
            if len(part) >= _MOST_ROWS or size >= _MOST_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part


def rows_by_table(batch: Sequence[Settlement], job: str) -> dict[str, TableRows]:
    """The rows of a batch, by table."""
    found: dict[str, TableRows] = {}
    for settlement in batch:
        task = settlement.lease.task
        written = _whole(settlement)
        for place, row in enumerate(written):
            rows = found.setdefault(row.table, TableRows([], []))
            rows.entries.append(_entry(row, task, job, place if row.place is None else row.place))
        if written and not written[-1].by:
            row = written[-1]
            rows = found[row.table]
            page = _page(task, job, row.table)
            rows.ranges.append(KeyRange(rows.entries[-1].key, f"{page}#{_LAST}", row.at))
        for row in _beside(settlement):
            if row.touch:
                key = _short(row.ident) if row.by else _page(task, job, row.table)
                touch = Touch(key, without_meta(row).decode(), row.at, row.by)
                found.setdefault(row.table, TableRows([], [])).touches.append(touch)
            else:
                rows = found.setdefault(row.table, TableRows([], []))
                rows.entries.append(_entry(row, task, job, len(rows.entries)))
    return found


def _beside(settlement: Settlement) -> list[Row]:
    return [row for row in settlement.archived if row.table != ARCHIVE]


def _whole(settlement: Settlement) -> Sequence[Row]:
    """The rows that are written: without a key a row is known by its place on the page. If one of these is new, all of
    them are written, also those that are as they were."""
    loose = {row.table for row in settlement.rows if not row.by and row.place is not None}
    more = [row for row in _beside(settlement) if row.touch and not row.by and row.table in loose]
    return sorted((*settlement.rows, *more), key=lambda row: row.place or 0) if more else settlement.rows


def _entry(row: Row, task: Task, job: str, place: int) -> Entry:
    # The table has columns for where a row is from, and a row has not changed if only that has.
    data = without_meta(row)
    item = (_without_nul(data) if _NUL in data else data).decode()
    key = _short(row.ident) if row.by else f"{_page(task, job, row.table)}#{place:07}"
    return Entry(key, item, task.url, row.at, row.by)


def _page(task: Task, job: str, table: str) -> str:
    """The key of a page, the same in every run. Requests without deduplication are distinguished by their task."""
    first = task.record.first if task.record is not None else 0
    request = f"task {first or task.id}" if task.fingerprint is None else str(task.fingerprint)
    return blake2b("\n".join((job, table, request)).encode(), digest_size=10).hexdigest()


def _short(key: str) -> str:
    key = key.replace("\0", "")
    data = key.encode()
    if len(data) <= _LONGEST_KEY:
        return key
    return f"{key[:100]}…{blake2b(data, digest_size=16).hexdigest()}"


def _without_nul(data: bytes) -> bytes:
    return msgspec.json.encode(_stripped(msgspec.json.decode(data)))


def _stripped(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, list):
        return [_stripped(one) for one in value]
    if isinstance(value, dict):
        return {_stripped(name): _stripped(one) for name, one in value.items()}
    return value
