"""CSV and TSV files that hold every row exactly once, and get new columns when rows have new fields.

All rows of such a file have the same number of cells. So a new column means a new file: the committed rows, each with
an empty cell more. It is written beside the old one, to `.FILE.7-columns`, and positions tell the number of columns.
Only when a position of the new file is committed does it replace the old one, which is kept under such a name for a
while: the store may go back to a position in it.

Rows could bring new fields for ever, and each time the file would be copied. So a long file is widened only after it
has grown, and new fields that come before that go to the column `_more`, as do those beyond the 500th column.
"""

from __future__ import annotations

import csv
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from shoal.errors import SinkError
from shoal.limits import CSV_COLUMNS, CSV_NAME
from shoal.model import Row
from shoal.sink.durable import sync_folder
from shoal.sink.text.committed_file import CommittedFile, beginning_of
from shoal.sink.text.compression import Compression, Plain
from shoal.sink.text.formats import as_fields
from shoal.sink.text.formats.delimited import MORE, Delimited, Fields

_LENGTH_BITS = 42  # of a position: the rest is the number of columns
_MOST_GIVEN = 1_500  # columns; with those that rows make there is room for all in a position
# A file may be copied freely while its length times its columns is below this, so all these copies together are at most
# a few GB. After that it must have grown by half since it was copied.
_FREE = 512 << 20
_RATIO = 8  # of compressed files, about
_CHUNK = 1 << 20
_KEPT = 60.0  # seconds that a file with fewer columns is kept: stores go back by less

log = logging.getLogger("shoal")


class DelimitedFile(CommittedFile):
    """`given`: for a kind of item, names of columns that the file has whatever the rows have. `types`: of fields, for
    those who read. `shown`: its name in the log, if that is not the path."""

    def __init__(
        self,
        path: Path,
        format: Delimited,
        compression: Compression | None = None,
        key: str = "",
        *,
        given: Mapping[str, Iterable[str]] | None = None,
        types: Mapping[str, object] | None = None,
        shown: str = "",
    ) -> None:
        super().__init__(path, b"", compression, key)
        self._format = format
        self._given = {
            table: list(format.fields(dict.fromkeys(names))) for table, names in (given or {}).items()
        }
        self._types = types or {}
        self._shown = shown or str(path)
        self._place = Path(os.path.realpath(path))  # a symbolic link stays one
        self._lock: int | None = None
        self._head = b""  # the first line of the file as we last read it, …
        self._columns: list[str] = []  # … and what it says
        self._has_bom = False
        self._told = False

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        items = [self._format.fields(as_fields(msgspec.json.decode(row.data))) for row in rows]
        with self._ours(committed), self._complaining():
            if not committed:
                return self._begin(items, rows)
            width, length = _split(committed)
            file = self._generation(width, length)
            columns = self._columns_of(file)
            wider = self._plan(columns, items, rows, length)
            if wider != columns:
                return self._widen(length, columns, wider, items)
            data = self._packed(self._format.encode(items, columns))
            return _joined(columns, self._put(file, length, data, os.fstat(file).st_size))

    def fileno(self) -> int:
        """A file beside it, for locks: the file itself may be replaced."""
        with self._complaining():
            if self._lock is None:
                name = self.path.with_name(f".{self.path.name}.lock")
                self._lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            return self._lock

    def check(self, committed: int) -> None:
        """Checks that the file can be opened and is complete. Changes nothing, so others may be writing."""
        width, length = _split(committed)
        with self._complaining():
            if not committed:
                self._length(self._open(), 0)
            else:
                os.close(os.open(self._find(width, length), os.O_RDWR | os.O_CLOEXEC))

    def finish(self, committed: int) -> None:
        """The file with the most columns gets the name of the result, if that is committed. A result without rows is a
        line of names, if they are known. Cuts nothing off, for another process may have committed more."""
        width, length = _split(committed)
        with self._ours(committed), self._complaining():
            file = self._current()
            if not committed and self._length(file, 0) == 0:
                names = list(dict.fromkeys(chain.from_iterable(self._given.values())))
                header = self._format.header(names) if names else b""
                self._put(file, 0, self._compression.compress(header), 0)
            elif len(self._columns_of(file)) < width:
                self._generation(width, length)
            self._sweep(_KEPT)
        self.sync()

    def read(self, committed: int) -> Iterator[dict[str, object]]:
        """The committed rows."""
        width, length = _split(committed)
        if not committed:
            return
        with self._complaining("read"), open(self._find(width, length), "rb", buffering=0) as file:
            text = self._compression.reader(beginning_of(file, length))
            yield from self._format.read(text, self._types)

    def close(self) -> None:
        super().close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _begin(self, items: list[Fields], rows: Sequence[Row]) -> int:
        self._sweep(0)  # what an earlier job left
        file = self._current()
        length = self._length(file, 0)
        if not items:
            return self._put(file, 0, b"", length)
        columns = self._plan([], items, rows, 0) or [MORE]
        data = self._packed(self._format.header(columns)) + self._packed(self._format.encode(items, columns))
        return _joined(columns, self._put(file, 0, data, length))

    # -- which columns

    def _plan(self, columns: list[str], items: list[Fields], rows: Sequence[Row], length: int) -> list[str]:
        """The columns, and those that these rows need besides."""
        known = frozenset(columns)
        tables = {row.table for row in rows} & self._given.keys()
        given = dict.fromkeys(
            name for table in sorted(tables) for name in self._given[table] if name not in known
        )
        names = dict.fromkeys(name for item in items if not item.keys() <= known for name in item)
        new = [name for name in names if name not in known and name not in given and name != MORE]
        own = any(MORE in item for item in items)  # a field that is called so
        if not given and not new and not (own and MORE not in known):
            return columns
        grown = self._has_grown(length, len(columns))
        added: list[str] = []
        if grown or MORE not in known:
            added += list(given)[: max(0, _MOST_GIVEN - len(columns))]
            room = max(0, CSV_COLUMNS - len(columns) - len(added))
            added += [name for name in new if len(name) <= CSV_NAME][:room]
        has_column = frozenset(added)
        without = [name for name in new if name not in has_column]
        if without:
            self._tell_more(without[0])
        if MORE not in known and (own or without or not grown):
            added.append(MORE)
        return columns + added

    def _has_grown(self, length: int, width: int) -> bool:
        """Whether it may be copied again."""
        free = _FREE if isinstance(self._compression, Plain) else _FREE // _RATIO
        if length * width <= free:
            return True
        return length >= 1.5 * max((path.stat().st_size for path in self._others()), default=0)

    def _tell_more(self, name: str) -> None:
        if not self._told:
            self._told = True
            log.warning(
                "%s: the field %.100r and others have no column of their own, and are in the column %s; name its"
                " columns with the setting `columns`, or give the handler a schema",
                self._shown,
                name,
                MORE,
            )

    def _widen(self, length: int, columns: list[str], wider: list[str], items: list[Fields]) -> int:
        """Writes the committed rows and these items to a new file, and returns the position in that."""
        self._sweep(_KEPT)
        path = self._named(len(wider))
        path.unlink(missing_ok=True)
        try:
            with open(self._place, "rb", buffering=0) as old, open(path, "wb", buffering=0) as new:
                _copy_rights(old.fileno(), new.fileno())
                for text in self._widened(beginning_of(old, length), columns, wider):
                    _write_all(new, self._packed(text))
                _write_all(new, self._packed(self._format.encode(items, wider)))
                os.fsync(new.fileno())
                end = new.tell()
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
        sync_folder(self._place.parent)
        return _joined(wider, end)

    def _widened(self, old: BinaryIO, columns: list[str], wider: list[str]) -> Iterator[bytes]:
        yield self._format.header(wider, self._has_bom)
        text = self._compression.reader(old)
        text.read(len(self._format.header(columns, self._has_bom)))
        chunks = iter(lambda: text.read(_CHUNK), b"")
        yield from self._format.widened(chunks, len(wider) - len(columns))

    # -- which file

    def _generation(self, width: int, length: int) -> int:
        """Opens the file with so many columns. It gets the name of the result if it has not got it yet."""
        while (found := self._find(width, length)) != self._place:
            with suppress(FileNotFoundError):
                self._keep_old(width)
            with suppress(FileNotFoundError):  # another process was quicker
                os.replace(found, self._place)
            sync_folder(self._place.parent)
        return self._current()

    def _keep_old(self, width: int) -> None:
        file = os.open(self._place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            old = len(self._columns_of(file))
        finally:
            os.close(file)
        if old < width:  # else the store has gone back, and rows of the old file with it
            kept = self._named(old)
            kept.unlink(missing_ok=True)
            try:
                os.link(self._place, kept)
            except OSError:  # a file system without links: for a moment there is no file of that name
                os.replace(self._place, kept)

    def _find(self, width: int, length: int) -> Path:
        for path in (self._place, self._named(width)):
            with suppress(FileNotFoundError):
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if os.fstat(file).st_size >= length and len(self._columns_of(file)) == width:
                        return path
                finally:
                    os.close(file)
        raise SinkError(
            f"{self.path} does not hold what this job has written ({length} bytes in {width} columns): it was changed,"
            " removed, or written by an earlier version; restore it or start again with --fresh"
        )

    def _named(self, width: int) -> Path:
        return self._place.with_name(f".{self._place.name}.{width}-columns")

    def _others(self) -> list[Path]:
        """The files with other numbers of columns."""
        start, end = f".{self._place.name}.", "-columns"
        with os.scandir(self._place.parent) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.name.startswith(start) and entry.name.endswith(end)
            ]

    def _sweep(self, age: float) -> None:
        """Removes those that nobody can need any more."""
        now = time.time()
        for path in self._others():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime <= now - age:
                    path.unlink()

    def _current(self) -> int:
        """The file that has the name now: another process may have replaced the one that we know."""
        if self._file is not None:
            try:
                same = os.path.samestat(os.fstat(self._file), self._place.stat())
            except FileNotFoundError:
                same = False
            if not same:
                super().close()
        return self._open()

    def _columns_of(self, file: int) -> list[str]:
        """The columns of an open file; none if it is no such file."""
        if not self._head or os.pread(file, len(self._head), 0) != self._head:
            with open(os.dup(file), "rb", buffering=0) as again:
                again.seek(0)
                text = self._compression.reader(beginning_of(again, 1 << 62))
                damaged: tuple[type[Exception], ...] = (EOFError, UnicodeDecodeError, csv.Error)
                try:
                    self._columns, self._has_bom = self._format.columns(text)
                except damaged + self._compression.errors:
                    self._columns = []
            self._head = self._packed(self._format.header(self._columns, self._has_bom))
        return self._columns


def _split(position: int) -> tuple[int, int]:
    """The number of columns, and the length in bytes."""
    return position >> _LENGTH_BITS, position & ((1 << _LENGTH_BITS) - 1)


def _joined(columns: Sequence[str], length: int) -> int:
    if not length:
        return 0
    return len(columns) << _LENGTH_BITS | length


def _copy_rights(old: int, new: int) -> None:
    state = os.fstat(old)
    os.fchmod(new, state.st_mode)
    with suppress(PermissionError):  # only root may give files away
        os.fchown(new, state.st_uid, state.st_gid)


def _write_all(file: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
