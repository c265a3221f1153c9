"""A DuckDB database as result file: a table for each kind of item, every row exactly once.

DuckDB lets one process at a time open a database that is written, and opening it costs as much as thousands of rows. So
rows wait in a spool, and go into the database a segment at a time, and at the end. In between the database is closed,
and others may read it.

A row's number, `_row`, grows with each row: it is between the positions where its segment starts and ends. A segment
that is written again replaces the rows with such numbers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import SinkError, UsageError
from shoal.events import event
from shoal.model import Row
from shoal.sink.databases.item_tables import database_path, fields_of
from shoal.sink.spool import SEGMENT, Part, Spool

try:
    import duckdb
except ModuleNotFoundError:
    raise UsageError("DuckDB needs duckdb: pip install 'shoal[duckdb]'") from None

from shoal.sink.databases.duckdb_tables import DuckdbTables

_PATIENCE = 10.0  # seconds to wait for another program that has opened the database
_LOOK = 0.1  # seconds between two tries
_CONFIG: dict[str, Any] = {
    "threads": 1,  # the others have a crawl to do
    "autoinstall_known_extensions": False,  # nothing is loaded from the network
}
_AGAIN = "nothing is lost, run the same command again"


class DuckdbFile(Spool):
    """The journal. The rows that are not in the database yet are in the spool beside it."""

    def __init__(
        self,
        path: Path,
        key: str = "",
        columns: Mapping[str, Mapping[str, object]] | None = None,
        *,
        segment: int = SEGMENT,
        patience: float = _PATIENCE,
    ) -> None:
        self._database = DuckdbDatabase(path, columns or {}, patience)
        super().__init__(path, self._database, key, segment=segment)

    def check(self, committed: int) -> None:
        super().check(committed)
        segments = self.folder.segments()
        if segments and segments[0].start and not self.path.exists():
            raise self._database.incomplete()

    def pause(self, committed: int) -> None:
        """Rows that wait go into the database. The next run tries again."""
        try:
            self.finish(committed)
        except SinkError as error:
            event("sink_waits", sink=str(self.path), reason=str(error))

    def read(self, committed: int) -> Iterator[dict[str, object]]:
        """The committed rows: those of the database, then those that wait in the spool. Meanwhile nobody writes to the
        database."""
        for _, row in self.items(committed):
            yield row

    def items(self, committed: int) -> Iterator[tuple[str, dict[str, object]]]:
        """… each with its kind."""
        with self.folder.shipping(_PATIENCE):
            segments = [one for one in self.folder.segments() if not one.shipped and one.start <= committed]
            waiting = segments[0].start if segments else committed
            newest, keys = _newest(self.rows(waiting, committed))
            for table, item in self._database.read(waiting):
                if not any(_key(table, by, item) in newest for by in keys.get(table, ())):
                    yield table, item
            for place, row in enumerate(self.rows(waiting, committed)):
                item = fields_of(row.data)
                if not row.by or newest[_key(row.table, row.by, item)] == place:
                    yield row.table, item


def _newest(rows: Iterator[Row]) -> tuple[dict[tuple[str, ...], int], dict[str, set[tuple[str, ...]]]]:
    """The place of the newest version of each key; and for each table with versions, the fields of its keys."""
    places: dict[tuple[str, ...], int] = {}
    keys: dict[str, set[tuple[str, ...]]] = {}
    for place, row in enumerate(rows):
        if row.by:
            places[_key(row.table, row.by, fields_of(row.data))] = place
            keys.setdefault(row.table, set()).add(row.by)
    return places, keys


def _key(table: str, by: Sequence[str], item: Mapping[str, object]) -> tuple[str, ...]:
    """Numbers are texts if other values in their column are."""
    texts = (
        one if isinstance(one := item.get(name), str) else msgspec.json.encode(one).decode() for name in by
    )
    return table, *texts


class DuckdbDatabase:
    """A `Shipper`: opens the database for one segment, and closes it again."""

    def __init__(self, path: Path, columns: Mapping[str, Mapping[str, object]], patience: float) -> None:
        self._path = path
        self._name = database_path(path)
        self._columns = columns
        self._patience = patience

    def ship(self, part: Part, rows: Iterator[Row]) -> None:
        with self._writing() as tables:
            if (tables.load() or 0) < part.start:
                raise self.incomplete()
            tables.cut(part.start)
            tables.insert(part.start, rows)
            tables.move_to(part.end)

    def unship(self, part: Part) -> None:
        with self._writing() as tables:
            if (tables.load() or 0) > part.start:
                tables.cut(part.start)
                tables.move_to(part.start)

    def finish(self, position: int, parts: Sequence[Part]) -> None:
        """All is shipped; a result without rows is a database, too."""
        if not position:
            with self._writing():
                pass

    def read(self, position: int) -> Iterator[tuple[str, dict[str, object]]]:
        if not position:
            return
        with self._complaining("read"), self._connected(read_only=True) as db:
            tables = DuckdbTables(db, self._columns)
            if (tables.load() or 0) < position:
                raise self.incomplete()
            yield from tables.read(position)

    def incomplete(self) -> SinkError:
        return SinkError(
            f"{self._path} has fewer rows than this job has written: it was changed or removed; restore it or start"
            " again with --fresh"
        )

    @contextmanager
    def _writing(self) -> Iterator[DuckdbTables]:
        """A transaction."""
        with self._complaining("write"), self._connected() as db:
            tables = DuckdbTables(db, self._columns)
            db.begin()
            if tables.load() is None:
                tables.make()
            yield tables
            db.commit()

    @contextmanager
    def _connected(self, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Closed without a commit, a transaction is undone."""
        db = self._connect(read_only)
        try:
            yield db
        finally:
            db.close()

    def _connect(self, read_only: bool) -> duckdb.DuckDBPyConnection:
        with suppress(FileNotFoundError):
            if not os.path.getsize(self._path):
                os.unlink(self._path)  # DuckDB makes a database, but not of an empty file
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return duckdb.connect(self._name, read_only=read_only, config=_CONFIG)
            except duckdb.IOException as error:
                if "lock" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK)

    @contextmanager
    def _complaining(self, what: str) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            said = str(error).splitlines()[0]
            if isinstance(error, duckdb.IOException) and "set lock" in said:
                raise SinkError(
                    f"cannot {what} {self._path}: {_holder(said)} has it open; close it there; {_AGAIN}"
                ) from error
            raise SinkError(f"cannot {what} {self._path}: {said}; mend that; {_AGAIN}") from error


def _holder(said: str) -> str:
    """Conflicting lock is held in /usr/bin/duckdb (PID 4711). However, …"""
    return said.partition("held in ")[2].partition(". ")[0] or "another program"
