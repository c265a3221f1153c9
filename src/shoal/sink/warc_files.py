"""The WARC files of a job: each record exactly once, whatever crashes.

The position that the frontier keeps is the number of a file and an offset in it. Everything beyond it, in this file or
in later ones, belongs to pages that will be fetched again, and is removed by the next append.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import apsw
from msgspec import Struct

from shoal import __version__
from shoal.archive import cdxj
from shoal.archive.index import Index, delete
from shoal.archive.members import SUFFIXES, Compression, compress
from shoal.archive.records import Entry, Records, warcinfo
from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.durable import sync, sync_folder, write_at
from shoal.sink.file_names import safe_name
from shoal.sink.ownership import Owner

GIGABYTE = 1 << 30
_OFFSET = 40  # bits of a position
_MOST = (1 << 53 - _OFFSET) - 1  # the number of the last file
_TAIL = 8  # bytes at the end of a record by which it is told from another: a checksum of gzip
_NOTED_AT_ONCE = 64  # records
_NOTED_AFTER = 1.0  # seconds


class _Written(Struct):
    """What an append has written, until it is known to be committed."""

    number: int
    start: int
    end: int
    tail: bytes
    found: list[tuple[int, Entry]]


class ArchiveJournal:
    """The files `JOB-TIME-00000.warc.gz` … of a folder, TIME being when the job was made: a folder may hold the files
    of many jobs. Several processes may share them."""

    def __init__(
        self,
        folder: Path,
        job: str,
        *,
        compression: Compression = "gzip",
        limit: int = GIGABYTE,
        key: str = "",
    ) -> None:
        self.folder = folder
        self._name = safe_name(job.replace("/", "-")) or "job"
        self.path = folder / f"{self._name}{SUFFIXES[compression]}"  # stands for all files of the job
        self.key = key or os.path.abspath(self.path)
        self.owner: Owner | None = None
        self._job = job
        self._compression = compression
        self._limit = limit
        self._file: tuple[int, int] | None = None  # number and descriptor
        self._lock: int | None = None
        self._index: Index | None = None
        self._written: list[_Written] = []
        self._noted = 0.0
        self._changed = False  # the index, since it was last exported

    def __repr__(self) -> str:
        return f"<ArchiveJournal {self.path}>"

    def name_of(self, number: int) -> str:
        made = f"-{_digits(self.owner.created_at)}" if self.owner is not None else ""
        return f"{self._name}{made}-{number:05}{SUFFIXES[self._compression]}"

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        """Removes what lies beyond `committed`, adds the records, and makes both durable. Returns the new position."""
        end = self.write(committed, rows)
        self.sync()
        return end

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        """`append`, but not durable yet."""
        number, offset = place_of(committed)
        with self._complaining():
            self._cut(number, offset)
            self._note(committed)
            if not rows:
                return committed
            if offset >= self._limit:
                number, offset = number + 1, 0
                if number > _MOST:
                    raise SinkError(f"{self.folder}: a job has no more than {_MOST + 1} files")
            return self._write(number, offset, rows)

    def sync(self) -> None:
        if self._file is not None:
            with self._complaining():
                sync(self._file[1])

    def fileno(self) -> int:
        """Something to lock: the files themselves change."""
        if self._lock is None:
            with self._complaining():
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = self.folder / f".{self._name}.lock"
                self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._lock

    def check(self, committed: int) -> None:
        """Checks that the files are complete, and that the folder can be written. Changes nothing in them."""
        number, offset = place_of(committed)
        self.fileno()
        if self.owner is None:
            return  # a job that is not made yet, or not known here
        for one in range(number + 1 if offset else 0):
            size = self._size(one)
            if self._is_away(one):
                continue
            if size is None or (one == number and size < offset):
                raise self._shortened(one, offset)

    def finish(self, committed: int) -> None:
        """Completes the index, and writes it for other tools if anything has changed."""
        number, offset = place_of(committed)
        with self._complaining():
            self._note(committed, all=True)
            index = self._opened()
            for one in range(number + 1 if offset else 0):
                name = self.name_of(one)
                if self._is_away(one):
                    continue
                size = offset if one == number else (self.folder / name).stat().st_size
                self._changed |= bool(index.fill(name, size))
            if self._changed or not (self.folder / cdxj.NAME).exists():
                cdxj.export(index)
                self._changed = False

    def read(self, committed: int) -> Iterator[dict[str, object]]:
        """There are no rows in it."""
        return iter(())

    def close(self) -> None:
        for file in (self._file[1] if self._file else None, self._lock):
            if file is not None:
                os.close(file)
        self._file = self._lock = None
        if self._index is not None:
            self._index.close()
            self._index = None

    # -- the files

    def _cut(self, number: int, offset: int) -> None:
        size = self._size(number)
        if (size or 0) < offset:
            raise self._shortened(number, offset)
        later = number + 1
        while self._size(later) is not None:
            later += 1
        for one in range(later - 1, number, -1):  # the last one first: no gap, if this is interrupted
            self._forget(one, 0)
            self._close_file()
            (self.folder / self.name_of(one)).unlink()
        if (size or 0) > offset:
            self._forget(number, offset)
            os.ftruncate(self._open(number), offset)

    def _write(self, number: int, offset: int, rows: Sequence[Row]) -> int:
        file = self._open(number)
        start = offset
        pieces: list[bytes] = []
        found: list[tuple[int, Entry]] = []
        if not offset:
            about = warcinfo(self.name_of(number), self._job, f"Shoal/{__version__}", time.time())
            pieces.append(compress(about, self._compression))
            offset += len(pieces[0])
        for row in rows:
            assert isinstance(row, Records)
            found.append((offset, row.entry))
            pieces.append(row.data)
            offset += len(row.data)
        data = b"".join(pieces)
        write_at(file, data, start)
        self._written.append(_Written(number, start, offset, data[-_TAIL:], found))
        return number << _OFFSET | offset

    def _open(self, number: int) -> int:
        if self._file is not None and self._file[0] == number and os.fstat(self._file[1]).st_nlink:
            return self._file[1]
        self._close_file()
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / self.name_of(number)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._file = number, file
        sync_folder(self.folder)
        return file

    def _close_file(self) -> None:
        if self._file is not None:
            sync(self._file[1])
            os.close(self._file[1])
            self._file = None

    def _size(self, number: int) -> int | None:
        try:
            return os.stat(self.folder / self.name_of(number)).st_size
        except FileNotFoundError:
            return None

    def _is_away(self, number: int) -> bool:
        """Whether a file that is complete is kept elsewhere."""
        return False

    def _shortened(self, number: int, offset: int) -> SinkError:
        return SinkError(
            f"{self.folder / self.name_of(number)} is shorter than what this job has written ({offset} bytes): it was"
            " changed or removed; restore it or start again with --fresh"
        )

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkError(
                f"cannot write the archive {self.folder}: {error.strerror or error}; nothing is lost, make room or"
                " make it writable and run again"
            ) from error

    # -- the index. It can be made again, so nothing that goes wrong with it stops the crawl

    def _note(self, committed: int, *, all: bool = False) -> None:
        """Puts records into the index that are committed for good."""
        number, offset = place_of(committed)
        ready = [one for one in self._written if (one.number, one.end) <= (number, offset)]
        if not ready:
            return
        due = time.monotonic() - self._noted > _NOTED_AFTER
        if not (all or due or sum(len(one.found) for one in ready) >= _NOTED_AT_ONCE):
            return
        self._noted = time.monotonic()
        self._changed = True
        self._written = [one for one in self._written if (one.number, one.end) > (number, offset)]
        with suppress(apsw.Error, SinkError):
            index = self._opened()
            for one in ready:
                if self._is_there(one):
                    index.add(self.name_of(one.number), one.start, one.end, one.found)

    def _is_there(self, one: _Written) -> bool:
        """Another process may have removed it and written at the same place."""
        try:
            with open(self.folder / self.name_of(one.number), "rb") as file:
                return os.pread(file.fileno(), _TAIL, one.end - len(one.tail)) == one.tail
        except OSError:
            return False

    def _forget(self, number: int, offset: int) -> None:
        self._written = [one for one in self._written if (one.number, one.end) <= (number, offset)]
        try:
            self._opened().forget(self.name_of(number), offset)
        except (apsw.Error, SinkError):  # it would lie from now on
            if self._index is not None:
                self._index.close()
                self._index = None
            delete(self.folder)

    def _opened(self) -> Index:
        if self._index is None:
            self._index = Index(self.folder)
        return self._index


def place_of(position: int) -> tuple[int, int]:
    """The number of a file, and an offset in it."""
    return position >> _OFFSET, position & (1 << _OFFSET) - 1


def _digits(at: float) -> str:
    """As in other names of WARC files, but to the millisecond: two stores may have a job of the same name."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%d%H%M%S%f")[:-3]
