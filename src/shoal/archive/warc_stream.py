"""Reads the records of a WARC file: plain, gzip or zstd.

A record that begins a compressed member can be found again by its offset. What cannot be read is a `Broken`, and
reading goes on at the next place that looks like the beginning of a record: a disk may have eaten a few bytes in the
middle, and the end of a file is missing if its writer was killed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from shoal.archive.warc_source import PLAIN, Source, WarcError, open_source

_HEAD = 256 * 1024  # bytes of the headers of a record
_SEARCH = 1024 * 1024
_ENDS = (b"\r\n\r\n", b"\n\n", PLAIN)  # what may follow a record
_FOLDED = re.compile(r"\r\n[ \t]+")  # a header that goes on in the next line
_NAMES = {
    name: name.lower()
    for name in (
        "WARC-Type",
        "WARC-Record-ID",
        "WARC-Target-URI",
        "WARC-Date",
        "WARC-Payload-Digest",
        "WARC-Block-Digest",
        "WARC-Concurrent-To",
        "WARC-Refers-To",
        "WARC-IP-Address",
        "Content-Type",
        "Content-Length",
    )
}  # as nearly all tools write them


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


class WarcFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._source: Source | None = None  # where the last record ended

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

    def records(
        self, wanted: Wanted, start: int = 0, *, skipped: Callable[[bytes], bool] | None = None
    ) -> Iterator[Record | Broken]:
        """All records from `start` on, in their order. Those that are a member each, and which `skipped` knows, are
        not read: they have no headers and no block."""
        at, told = start, False
        while at < self.size:
            source = open_source(self._file, at, self.size)
            try:
                while (record := _read(source, wanted, skipped)) is not None:
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
            source = open_source(self._file, offset, self.size)
        else:
            source.go_on_at(offset)
        record = _read(source, wanted)
        if record is None:
            raise WarcError("the file ends before it")
        self._source = source
        return record


def _read(source: Source, wanted: Wanted, skipped: Callable[[bytes], bool] | None = None) -> Record | None:
    if (data := source.whole()) is not None:
        if skipped is not None and skipped(data):
            source.pass_whole()
            return Record("", {}, source.offset, 0, b"")
        if (record := _record_of(data, source, wanted)) is not None:
            return record
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


def _record_of(data: bytes, source: Source, wanted: Wanted) -> Record | None:
    """The one record of a member; None: it is not as simple as that."""
    end = data.find(b"\r\n\r\n") + 4
    try:
        headers = _headers(data[: end - 4])
        length = int(headers["content-length"])
    except (WarcError, KeyError, ValueError):
        return None
    if length < 0 or data[end + length :] != b"\r\n\r\n":
        return None
    source.pass_whole()
    block = data[end : end + min(length, wanted(headers))]
    return Record(headers.get("warc-type", "").lower(), headers, source.offset, length, block)


def _headers(head: bytes) -> dict[str, str]:
    version, _, lines = head.partition(b"\r\n")
    if not version.startswith(PLAIN):
        raise WarcError("there is something else where a record should begin")
    text = lines.decode("utf-8", "replace")
    if "\r\n " in text or "\r\n\t" in text:
        text = _FOLDED.sub(" ", text)
    headers: dict[str, str] = {}
    for line in text.split("\r\n"):
        name, _, value = line.partition(":")
        headers[_NAMES.get(name) or name.strip().lower()] = value.strip()
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
