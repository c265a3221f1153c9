"""A file of which a part is committed: opened, written at a position, and cut behind it."""

from __future__ import annotations

import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, cast

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.durable import sync, sync_folder, write_at
from shoal.sink.ownership import Owner, held
from shoal.sink.text.compression import Compression, Plain


class CommittedFile(ABC):
    """Opened by the first `append`; several processes may share it."""

    def __init__(
        self, path: Path, tail: bytes = b"", compression: Compression | None = None, key: str = ""
    ) -> None:
        self.path = path
        self.key = key or os.path.abspath(path)
        self.owner: Owner | None = None  # the job that claimed it
        self._compression = compression or Plain()
        self._tail = self._packed(tail)  # always behind what is committed
        self._file: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        """Cuts the file to what is committed, adds the rows, and makes both durable. Returns the new position."""
        end = self.write(committed, rows)
        self.sync()
        return end

    @abstractmethod
    def write(self, committed: int, rows: Sequence[Row]) -> int:
        """`append`, but not durable yet."""

    def sync(self) -> None:
        with self._complaining():
            sync(self._open())

    def fileno(self) -> int:
        """Opens the file if necessary."""
        with self._complaining():
            return self._open()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _packed(self, text: bytes) -> bytes:
        return self._compression.compress(text) if text else b""

    def _put(self, file: int, position: int, data: bytes, length: int) -> int:
        """Writes at the position, and cuts off what is behind it. Returns the new position."""
        end = position + len(data)
        tail = self._tail if end else b""
        try:
            write_at(file, data + tail, position)
        except OSError:
            with suppress(OSError):  # what is committed stays a complete file
                os.ftruncate(file, position)
                write_at(file, self._tail if position else b"", position)
            raise
        if length > end + len(tail):
            os.ftruncate(file, end + len(tail))
        return end

    def _ours(self, committed: int) -> AbstractContextManager[None]:
        """Until something is committed, another job that finds the file empty may take it."""
        return held(self.path, self.owner) if self.owner is not None and not committed else nullcontext()

    @contextmanager
    def _complaining(self, verb: str = "write") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            advice = "nothing is lost, make room or choose another file system and run again"
            said = f"cannot {verb} {self.path}: {error.strerror or error}"
            if error.filename is not None and os.path.basename(error.filename) != self.path.name:
                said += f" ({os.path.basename(error.filename)} beside it)"
            raise SinkError(f"{said}; {advice}" if verb == "write" else said) from error

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            sync_folder(self.path.parent)
        return self._file

    def _length(self, file: int, committed: int) -> int:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise SinkError(
                f"cannot write {self.path}: not a regular file; results need one that can be resumed"
            )
        if state.st_nlink == 0 or state.st_size < committed:
            raise self._changed(committed)
        return state.st_size

    def _changed(self, committed: int) -> SinkError:
        return SinkError(
            f"{self.path} is shorter than what this job has written ({committed} bytes): it was changed or "
            "removed; restore it or start again with --fresh"
        )


class _Beginning(io.RawIOBase):
    """The first bytes of a file."""

    def __init__(self, file: io.FileIO, length: int) -> None:
        self._file = file
        self._left = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(min(len(buffer), self._left)) or b""
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


def beginning_of(file: io.FileIO, length: int) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Beginning(file, length), 1 << 16))
