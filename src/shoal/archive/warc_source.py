"""The bytes of a WARC file, decompressed, and where members begin in them."""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from shoal.archive.members import whole_member

_zstd = import_module("compression.zstd") if sys.version_info >= (3, 14) else import_module("backports.zstd")

GZIP, ZSTD, PLAIN = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"WARC/"
_SKIPPABLE = re.compile(
    rb"[\x50-\x5f]\x2a\x4d\x18"
)  # a frame of zstd without data; one may hold a dictionary
_DICTIONARY = b"\x5d\x2a\x4d\x18"

_RAW = 256 * 1024  # bytes that are read at once
_AHEAD = 32 * 1024  # compressed bytes of a member that is read as a whole
_PIECE = 8 * 1024  # … and decompressed at once: at the end of a gzip member, zlib copies what is left of them
_DECODED = 1024 * 1024  # bytes that are decompressed at once, so that a bomb takes no memory
_BLANKS = b"\r\n"


class WarcError(Exception):
    """Bytes that are no record."""


class Source:
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

    def whole(self) -> bytes | None:
        """The next member, if it is known to be near and small; `pass_whole` goes on behind it."""
        return None

    def pass_whole(self) -> None:
        """Called after `whole` has returned a member."""

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


class Plain(Source):
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


class Members(Source):
    """gzip or zstd."""

    def __init__(self, file: int, start: int, size: int, magic: bytes, new: Callable[[], Any]) -> None:
        super().__init__(file, start, size)
        self.magic = magic
        self._new = new
        self._decoder: Any = None  # None: between two members
        self._whole_end = 0  # where the member that `whole` returned ends

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

    def whole(self) -> bytes | None:
        if self._decoder is not None or self._buffer[self._used : self._used + 5].strip(_BLANKS):
            return None
        at = self._window_at - self._window_from
        left = len(self._window) - at
        if at < 0 or left <= 0 or (left < _AHEAD and self._window_at + left < self._size):
            self._window = os.pread(self._file, _RAW, self._window_at)
            self._window_from, at = self._window_at, 0
        found = whole_member(self._window, at, _AHEAD, None if self.magic == GZIP else self._new)
        if found is None:
            return None
        data, end = found
        self._whole_end = self._window_from + end
        return data

    def pass_whole(self) -> None:
        self.offset = self._window_at
        self._window_at = self._whole_end
        self._buffer, self._used, self._member = b"", 0, 0

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


def open_source(file: int, start: int, size: int) -> Source:
    head = os.pread(file, 4, start)
    if head.startswith(GZIP):
        return Members(file, start, size, GZIP, lambda: zlib.decompressobj(31))
    if head.startswith(ZSTD) or _SKIPPABLE.match(head):
        words = _dictionary(file)
        given = _zstd.ZstdDict(words) if words else None
        return Members(file, start, size, ZSTD, lambda: _zstd.ZstdDecompressor(given))
    return Plain(file, start, size)


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
