"""JSON Lines files that hold every row exactly once, whatever crashes.

The frontier keeps the committed length of the file. A settlement writes its rows at that position inside its
transaction. Rows beyond it, left by a crash, belong to pages that will be fetched again, and are cut off.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TextIO

from shoal.errors import SinkError
from shoal.model import Row, Settlement
from shoal.sink.items import encode_row
from shoal.sink.ownership import FileClaim, Owner, claim, held

__all__ = ["JsonLines", "MemoryJournal", "StdoutJournal", "describe_existing", "encode_row"]

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync


class JsonLines:
    """A file of one JSON value a line. Opened by the first `append`; several processes may share it."""

    def __init__(self, path: Path, key: str = "") -> None:
        self.path = path
        self.key = key or os.path.abspath(path)
        self.owner: Owner | None = None  # the job that claimed it
        self._file: int | None = None

    def __repr__(self) -> str:
        return f"<JsonLines {self.path}>"

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        """Cuts the file to `committed` bytes, adds the rows, and makes both durable. Returns the new length."""
        end = self.write(committed, rows)
        self.sync()
        return end

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        """`append`, but not durable yet."""
        data = b"".join([row.data for row in rows])
        # Until something is committed, another job that finds the file empty may take it.
        ours = held(self.path, self.owner) if self.owner is not None and not committed else nullcontext()
        with ours, self._complaining():
            file = self._open()
            length = self._length(file, committed)
            if length > committed:
                os.ftruncate(file, committed)
            _write(file, data, committed)
        return committed + len(data)

    def sync(self) -> None:
        with self._complaining():
            _sync(self._open())

    def fileno(self) -> int:
        """Opens the file if necessary."""
        with self._complaining():
            return self._open()

    def check(self, committed: int) -> None:
        """Checks that the file can be opened and is complete. Changes nothing, so others may be writing."""
        with self._complaining():
            self._length(self._open(), committed)

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkError(
                f"cannot write {self.path}: {error.strerror or error}; nothing is lost, make room or choose "
                "another file system and run again"
            ) from error

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            _sync_folder(self.path.parent)
        return self._file

    def _length(self, file: int, committed: int) -> int:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise SinkError(
                f"cannot write {self.path}: not a regular file; results need one that can be resumed"
            )
        if state.st_nlink == 0 or state.st_size < committed:
            raise SinkError(
                f"{self.path} is shorter than what this job has written ({committed} bytes): it was changed or "
                "removed; restore it or start again with --fresh"
            )
        return state.st_size


class MemoryJournal:
    """Rows in a list, for crawls from code and for tests. For a resumed job it holds the rows of this run."""

    key = "memory"

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self._ends: list[int] = []  # the length after each row

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        while self._ends and self._ends[-1] > committed:
            self._ends.pop()
            self.rows.pop()
        for row in rows:
            committed += len(row.data)
            self.rows.append(row.data)
            self._ends.append(committed)
        return committed

    def close(self) -> None:
        pass


def standard_output() -> TextIO:
    """Where rows are printed. What a spider prints goes elsewhere (`telemetry/printing.py`)."""
    stream: TextIO = getattr(sys.stdout, "results", sys.stdout)
    return stream


class StdoutJournal:
    """Rows to standard output. Printed rows cannot be taken back, so after a crash between printing and commit they are
    printed again."""

    key = "stdout"

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        data = b"".join([row.data for row in rows])
        try:
            stream = standard_output().buffer
            stream.write(data)
            stream.flush()
        except OSError as error:
            raise SinkError(f"cannot write to standard output: {error.strerror or error}") from error
        return committed + len(data)

    def close(self) -> None:
        pass


def describe_existing(path: Path) -> str | None:
    """One line about a file that already holds something; None if there is nothing to lose."""
    try:
        size = path.stat().st_size
    except OSError:
        return None
    return f"{path} already holds {size:,} bytes" if size else None


def _write(file: int, data: bytes, position: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, position)
        rest, position = rest[written:], position + written


def _sync_folder(folder: Path) -> None:
    """Makes the file's name durable: otherwise a power cut could remove a committed file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- rows that the frontier writes itself, inside the transaction that settles their pages


class FileSink:
    """A file, standard output or memory."""

    def __init__(self, journal: JsonLines | MemoryJournal | StdoutJournal) -> None:
        self.journal = journal

    def __repr__(self) -> str:
        return f"<FileSink {self.journal.key}>"

    async def open(self, asked: FileClaim | None = None) -> None:
        journal = self.journal
        if isinstance(journal, JsonLines) and asked is not None:
            claim(journal.path, asked)
            journal.owner = asked.owner
            # Opened now: if somebody replaces the file later, the new one is not ours.
            journal.check(asked.committed or 0)

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        return batch

    async def close(self) -> None:
        self.journal.close()
