"""The folder of a spool: segments of a journal, one file each, and the locks of those who use it.

    .rows.parquet.parts/00000001-0000000000000000-9f3a51c2.shipped    closed, and shipped: kept for a while
    .rows.parquet.parts/00000002-0000000016777301-07bd2e9a.jsonl      the last one: rows are added to it
    .rows.parquet.parts/append.lock                                   locked by the process that appends
    .rows.parquet.parts/shipping.lock                                 locked by the process that ships

The name of a segment says its number, the position of its first byte, and an id that no other segment has. A segment
ends where the next one begins.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.durable import sync_folder

try:
    import fcntl
except ImportError:  # without flock, only one process may write a file
    fcntl = None  # type: ignore[assignment]

_NAME = re.compile(r"(\d{8})-(\d{16})-([0-9a-f]{8})\.(jsonl|shipped)")
_READ = 1 << 20  # bytes at a time
_LOOK = 0.02  # seconds between looks at a lock that another process has


class _Line(Struct, array_like=True):
    table: str
    data: msgspec.Raw
    # -- of a row that replaces the one with the same key
    by: tuple[str, ...] = ()
    ident: str = ""
    at: float = 0.0


_decode = msgspec.json.Decoder(_Line).decode


class Segment(Struct, frozen=True):
    number: int
    start: int  # position of its first byte
    ident: str
    shipped: bool = False

    @property
    def stem(self) -> str:
        return f"{self.number:08d}-{self.start:016d}-{self.ident}"

    @property
    def name(self) -> str:
        return f"{self.stem}.{'shipped' if self.shipped else 'jsonl'}"


class SpoolFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __repr__(self) -> str:
        return f"<SpoolFolder {self.path}>"

    def make(self) -> None:
        with suppress(FileExistsError):
            self.path.mkdir()
            sync_folder(self.path.parent)

    def fileno(self) -> int:
        """What those who append lock."""
        if self._lock is None:
            self.make()
            self._lock = os.open(self.path / "append.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._lock

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def segments(self) -> list[Segment]:
        """In order. Several processes may add and rename segments; a list that was read during a rename may lack one
        that was there all the time, so it is read until it is whole."""
        while True:
            found = self._segments()
            numbers = [segment.number for segment in found]
            if not found or numbers == list(range(numbers[0], numbers[-1] + 1)):
                return found
            again = self._segments()
            if again == found:
                raise SinkError(
                    f"{self.path} lacks a segment after number {_gap(numbers)}: files were removed by hand; restore"
                    " them, or start again with --fresh"
                )

    def _segments(self) -> list[Segment]:
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        found: dict[int, Segment] = {}
        for name in names:
            if match := _NAME.fullmatch(name):
                segment = Segment(int(match[1]), int(match[2]), match[3], match[4] == "shipped")
                found[segment.number] = segment
        return [found[number] for number in sorted(found)]

    def create(self, number: int, start: int) -> Segment:
        segment = Segment(number, start, os.urandom(4).hex())
        file = os.open(self.path / segment.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.close(file)
        return segment

    def open(self, segment: Segment) -> int:
        return os.open(self.path / segment.name, os.O_RDWR | os.O_CLOEXEC)

    def remove(self, segment: Segment) -> None:
        os.unlink(self.path / segment.name)

    def mark(self, segment: Segment, *, shipped: bool) -> None:
        os.rename(
            self.path / segment.name, self.path / msgspec.structs.replace(segment, shipped=shipped).name
        )
        self.sync()

    def size(self, segment: Segment) -> int:
        return os.stat(self.path / segment.name).st_size

    def age(self, segment: Segment) -> float:
        """Seconds since the last row was added."""
        return time.time() - os.stat(self.path / segment.name).st_mtime

    def sync(self) -> None:
        sync_folder(self.path)

    def rows(self, segment: Segment, end: int) -> Iterator[Row]:
        """The rows of a segment, up to the position `end`."""
        with (self.path / segment.name).open("rb", buffering=_READ) as file:
            position = segment.start
            while position < end:
                line = file.readline()
                try:
                    found = _decode(line)
                    if position + len(line) > end or not line.endswith(b"\n"):
                        raise ValueError
                except (msgspec.DecodeError, ValueError):
                    raise SinkError(
                        f"{self.path / segment.name} is damaged, at byte {position - segment.start}: restore it, or"
                        " start again with --fresh"
                    ) from None
                position += len(line)
                data = bytes(found.data) + b"\n"
                yield Row(data, None, found.table, found.by, found.ident, found.at)

    @contextmanager
    def shipping(self, patience: float) -> Iterator[bool]:
        """The lock of the one who ships, or changes what may be shipped. False: another has had it for `patience`
        seconds."""
        with locked(self.path / "shipping.lock", patience) as free:
            yield free


def line_of(row: Row) -> bytes:
    is_version = row.by and row.key is None
    more = b"," + msgspec.json.encode([row.by, row.ident, row.at])[1:-1] if is_version else b""
    return b"[" + msgspec.json.encode(row.table) + b"," + row.data.rstrip(b"\n") + more + b"]\n"


@contextmanager
def locked(path: Path, patience: float) -> Iterator[bool]:
    """A lock among processes. False: another has had it for `patience` seconds."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield _lock(file, time.monotonic() + patience)
    finally:
        os.close(file)


def _lock(file: int, deadline: float) -> bool:
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK)
    return True


def _gap(numbers: list[int]) -> int:
    return next(n for n, after in pairwise(numbers) if after != n + 1)
