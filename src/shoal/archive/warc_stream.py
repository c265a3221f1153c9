"""Reads the records of a WARC file: plain, gzip or zstd.

A record that begins a compressed member can be found again by its offset. What cannot be read is a `Broken`, and
reading goes on at the next place that looks like the beginning of a record: a disk may have eaten a few bytes in the
middle, and the end of a file is missing if its writer was killed.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

_zstd = import_module("compression.zstd") if sys.version_info >= (3, 14) else import_module("backports.zstd")

GZIP, ZSTD, PLAIN = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"WARC/"
_SKIPPABLE = re.compile(
    rb"[\x50-\x5f]\x2a\x4d\x18"
)  # a frame of zstd without data; one may hold a dictionary
_DICTIONARY = b"\x5d\x2a\x4d\x18"

_RAW = 256 * 1024  # bytes that are read at once
_PIECE = 8 * 1024  # … and decompressed at once: at the end of a gzip member, zlib copies what is left of them
_DECODED = 1024 * 1024  # bytes that are decompressed at once, so that a bomb takes no memory
_HEAD = 256 * 1024  # bytes of the headers of a record
_SEARCH = 1024 * 1024
_BLANKS = b"\r\n"
_ENDS = (b"\r\n\r\n", b"\n\n", PLAIN)  # what may follow a record


class Broken(Struct, frozen=True):
    """Bytes that are no record."""

    offset: int
    reason: str


class Record(Struct, frozen=True):
    type: str  # "response", "request", "metadata", "revisit" …
    headers: Mapping[str, str]  # by name in lower case; of several with one name, the last
    offset: int  # in the file: of its own member; -1: it cannot be found again
    length: int  # bytes of its block
    block: bytes  # as much of it as was asked for

    @property
    def id(self) -> str:
        return self.headers.get("warc-record-id", "")

    @property
    def url(self) -> str:
        return self.headers.get("warc-target-uri", "").strip("<> ")  # wget writes <…>


Wanted = Callable[[Mapping[str, str]], int]  # from the headers of a record to the bytes of its block


class WarcError(Exception):
    """Bytes that are no record."""


class WarcFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._source: _Source | None = None  # where the last record ended

    def __repr__(self) -> str:
        return f"<WarcFile {self.path}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def size(self) -> int:
        """It may be written at the same time."""
        return os.fstat(self._file).st_size

    def close(self) -> None:
        os.close(self._file)

    def records(self, wanted: Wanted, start: int = 0) -> Iterator[Record | Broken]:
        """All records from `start` on, in their order."""
        at, told = start, False
        while at < self.size:
            source = _open(self._file, at, self.size)
            try:
                while (record := _read(source, wanted)) is not None:
                    told = False
                    yield record
                return
            except WarcError as error:
                if not told:  # what follows until the next record belongs to the same damage
                    yield Broken(source.offset, str(error))
                told = True
            at = _next_start(self._file, source.offset + 1, self.size, source.magic)

    def record(self, offset: int, wanted: Wanted) -> Record:
        """The record at that offset. Quick for records that are read in their order. Raises WarcError."""
        source, self._source = self._source, None
        if source is None:
            source = _open(self._file, offset, self.size)
        elif not _stands_at(source, offset):
            source.go_on_at(offset)
        record = _read(source, wanted)
        if record is None:
            raise WarcError("the file ends before it")
        self._source = source
        return record


class _Source:
    """Decompressed bytes, and where members begin in them."""

    magic = PLAIN

    def __init__(self, file: int, start: int, size: int) -> None:
        self._file = file
        self._size = size
        self._window = b""  # compressed bytes …
        self._window_from = start  # … where they are in the file
        self._window_at = start  # … and up to where they are used
        self._buffer = b""  # decompressed bytes
        self._used = 0  # … of which so many are used
        self.offset = start  # of the member that is read
        self._member = 0  # where its first byte is, counted from the beginning of the buffer

    def place(self) -> int:
        """The offset of the member that the next byte begins; -1: it begins none."""
        return self.offset if self._used == self._member else -1

    def _more(self) -> tuple[bytes, bool]:
        """More decompressed bytes, and whether they begin a member; no bytes: the file ends."""
        raise NotImplementedError

    def _raw(self) -> bytes:
        """The next compressed bytes; they stay next until `_window_at` moves on."""
        at = self._window_at - self._window_from
        if not 0 <= at < len(self._window):
            self._window, self._window_from, at = (
                os.pread(self._file, _RAW, self._window_at),
                self._window_at,
                0,
            )
        return self._window[at : at + _PIECE]

    def go_on_at(self, offset: int) -> None:
        """From there on, a member begins. What was read of the file is used again."""
        self._window_at = self.offset = offset
        self._buffer, self._used, self._member = b"", 0, 0

    def at_end(self) -> bool:
        """Whether nothing follows but the blank lines after a record."""
        while True:
            while self._used < len(self._buffer):
                if self._buffer[self._used] not in _BLANKS:
                    return False
                self._used += 1
            if not self._fill():
                return True

    def _fill(self) -> bool:
        """Whether there are more bytes."""
        more, begins = self._more()
        left = self._buffer[self._used :]
        self._member = len(left) if begins else self._member - self._used
        self._buffer, self._used = left + more, 0
        return bool(more)

    def until(self, mark: bytes, most: int) -> bytes:
        """The bytes before the mark, which is used up, too."""
        while (found := self._buffer.find(mark, self._used)) < 0:
            if len(self._buffer) - self._used > most:
                raise WarcError(f"its headers have more than {most:,} bytes")
            if not self._fill():
                raise WarcError("the file ends in the middle of a record")
        data = self._buffer[self._used : found]
        self._used = found + len(mark)
        return data

    def starts_with(self, mark: bytes) -> bool:
        """Also if the file ends before."""
        while len(self._buffer) - self._used < len(mark):
            if not self._fill():
                return mark.startswith(self._buffer[self._used :])
        return self._buffer.startswith(mark, self._used)

    def read(self, count: int) -> bytes:
        have = self._buffer[self._used : self._used + count]
        self._used += len(have)
        if len(have) == count:
            return have
        parts, missing = [have], count - len(have)
        while missing:
            if not self._fill():
                raise WarcError("the file ends in the middle of a record")
            part = self._buffer[:missing]
            self._used = len(part)
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def skip(self, count: int) -> None:
        while count:
            if self._used == len(self._buffer) and not self._fill():
                raise WarcError("the file ends in the middle of a record")
            step = min(count, len(self._buffer) - self._used)
            self._used += step
            count -= step


class _Plain(_Source):
    def place(self) -> int:
        return self._window_at - (len(self._buffer) - self._used)

    def _more(self) -> tuple[bytes, bool]:
        data = self._raw()
        self._window_at += len(data)
        return data, False

    def skip(self, count: int) -> None:
        here = min(count, len(self._buffer) - self._used)
        self._used += here
        if left := count - here:
            if self._window_at + left > self._size:
                raise WarcError("the file ends in the middle of a record")
            self._window_at += left


class _Members(_Source):
    """gzip or zstd."""

    def __init__(self, file: int, start: int, size: int, magic: bytes, new: Callable[[], Any]) -> None:
        super().__init__(file, start, size)
        self.magic = magic
        self._new = new
        self._decoder: Any = None  # None: between two members

    def _more(self) -> tuple[bytes, bool]:
        begins = False
        while True:
            if self._decoder is None:
                if not self._raw():
                    return b"", False
                self.offset, begins = self._window_at, True
                self._check()
                self._decoder = self._new()
            if data := self._decoded():
                return data, begins

    def go_on_at(self, offset: int) -> None:
        super().go_on_at(offset)
        self._decoder = None

    def _check(self) -> None:
        data = self._raw()[:4]
        if len(data) < 4:
            data = os.pread(self._file, 4, self._window_at)
        if not data.startswith(self.magic) and not (self.magic == ZSTD and _SKIPPABLE.match(data)):
            raise WarcError("there is something else between two records")

    def _decoded(self) -> bytes:
        decoder = self._decoder
        tail = getattr(decoder, "unconsumed_tail", b"")  # of zlib only
        needs = not tail and getattr(decoder, "needs_input", True)
        data = tail or (self._raw() if needs else b"")
        if needs and not data:
            raise WarcError("the file ends in the middle of a record")
        if needs:
            self._window_at += len(data)
        try:
            decoded: bytes = decoder.decompress(data, _DECODED)
        except Exception as error:  # each library has its own
            raise WarcError(f"it cannot be decompressed: {error}") from None
        if decoder.eof:
            self._window_at -= len(decoder.unused_data)
            self._decoder = None
        return decoded


def _stands_at(source: _Source, offset: int) -> bool:
    try:
        return not source.at_end() and source.place() == offset
    except WarcError:
        return False


def _open(file: int, start: int, size: int) -> _Source:
    head = os.pread(file, 4, start)
    if head.startswith(GZIP):
        return _Members(file, start, size, GZIP, lambda: zlib.decompressobj(31))
    if head.startswith(ZSTD) or _SKIPPABLE.match(head):
        words = _dictionary(file)
        given = _zstd.ZstdDict(words) if words else None
        return _Members(file, start, size, ZSTD, lambda: _zstd.ZstdDecompressor(given))
    return _Plain(file, start, size)


def _dictionary(file: int) -> bytes:
    """The dictionary that the first frame of a file may hold; itself compressed or not."""
    head = os.pread(file, 8, 0)
    if not head.startswith(_DICTIONARY):
        return b""
    words = os.pread(file, int.from_bytes(head[4:8], "little"), 8)
    try:
        return bytes(_zstd.decompress(words)) if words.startswith(ZSTD) else words
    except Exception as error:
        raise WarcError(f"its dictionary cannot be read: {error}") from None


def _read(source: _Source, wanted: Wanted) -> Record | None:
    if source.at_end():
        return None
    offset = source.place()
    source.offset = max(source.offset, offset)  # of plain files, too: what breaks from here on is this record
    head = source.until(b"\r\n\r\n", _HEAD)
    headers = _headers(head)
    try:
        length = int(headers["content-length"])
        if length < 0:
            raise ValueError
    except (KeyError, ValueError):
        raise WarcError("its headers have no length") from None
    block = source.read(min(length, wanted(headers)))
    source.skip(length - len(block))
    if source.magic == PLAIN and not any(map(source.starts_with, _ENDS)):
        raise WarcError("it does not end where it says")
    return Record(headers.get("warc-type", "").lower(), headers, offset, length, block)


def _headers(head: bytes) -> dict[str, str]:
    version, _, lines = head.partition(b"\r\n")
    if not version.startswith(PLAIN):
        raise WarcError("there is something else where a record should begin")
    headers: dict[str, str] = {}
    name = ""
    for line in lines.decode("utf-8", "replace").split("\r\n"):
        if line[:1] in " \t" and name:
            headers[name] += f" {line.strip()}"
            continue
        name, _, value = line.partition(":")
        name = name.strip().lower()
        headers[name] = value.strip()
    return headers


def _next_start(file: int, start: int, size: int, magic: bytes) -> int:
    """The next place that looks like the beginning of a record."""
    at = start
    while at < size:
        data = os.pread(file, _SEARCH, at)
        if (found := data.find(magic)) >= 0:
            return at + found
        if len(data) <= len(magic):
            break
        at += len(data) - len(magic) + 1
    return size
