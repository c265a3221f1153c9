"""Reads the index entries of a WARC file from the file itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from shoal.archive.members import Member, members
from shoal.archive.records import METADATA_TYPE, Entry, Metadata
from shoal.html.media import media_type

_PORTION = 1000  # records that are noted together
_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})")
_TYPE = re.compile(rb"^content-type:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_decode = msgspec.json.Decoder(Metadata).decode


class Portion(Struct):
    """A piece of a file, and the records in it."""

    start: int
    end: int
    found: list[tuple[int, Entry]] = field(default_factory=list)


class Record(Struct, frozen=True):
    """A WARC record without its length: header fields in lower case, and the block."""

    fields: dict[str, str]
    block: bytes

    @property
    def kind(self) -> str:
        return self.fields.get("warc-type", "")


def parse(data: bytes) -> Record:
    """One record, decompressed. Raises ValueError if it is none."""
    head, gap, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")
    if not gap or not lines[0].startswith("WARC/"):
        raise ValueError("not a WARC record")
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    length = fields.get("content-length", "")
    if not length.isdigit() or int(length) > len(rest):
        raise ValueError("a WARC record without its length")
    return Record(fields, rest[: int(length)])


def entries(path: Path, start: int, end: int) -> Iterator[Portion]:
    """The entries between two offsets, which are the begin and end of records. Ends before a record that is not
    whole. Raises ValueError for what is no WARC file."""
    portion = Portion(start, start)
    for member in members(path, start, end):
        record = parse(member.data)
        if record.kind in ("response", "revisit"):
            if len(portion.found) >= _PORTION:
                yield portion
                portion = Portion(member.offset, member.offset)
            portion.found.append((member.offset, _entry(record, member)))
        elif portion.found and _belongs(record, portion.found[-1][1]):
            offset, entry = portion.found[-1]
            portion.found[-1] = offset, _with(entry, record, member.offset + member.length - offset)
        portion.end = member.offset + member.length
    if portion.end > portion.start:
        yield portion


def _entry(record: Record, member: Member) -> Entry:
    fields = record.fields
    status = _STATUS.match(record.block)
    kind = _TYPE.search(record.block.partition(b"\r\n\r\n")[0])
    return Entry(
        id=_id(fields.get("warc-record-id", "")),
        url=fields.get("warc-target-uri", "").strip("<>"),
        digest=fields.get("warc-payload-digest", ""),
        at=_time(fields.get("warc-date", "")),
        status=int(status[1]) if status else 0,
        type=media_type(kind[1].decode("latin-1")) if kind else "",
        kind=record.kind,
        page=True,
        length=member.length,
        size=member.length,
    )


def _belongs(record: Record, entry: Entry) -> bool:
    return _id(record.fields.get("warc-concurrent-to", "")) == entry.id


def _with(entry: Entry, record: Record, size: int) -> Entry:
    entry = replace(entry, size=size)
    if record.kind != "metadata" or record.fields.get("content-type") != METADATA_TYPE:
        return entry
    try:
        told = _decode(record.block)
    except msgspec.DecodeError:
        return entry  # of another program
    return replace(
        entry,
        at=told.fetched_at or entry.at,
        variant=told.variant,
        page=told.page,
        rendered=told.rendered,
        handler=told.handler,
        job=told.job,
    )


def _id(text: str) -> str:
    return text.strip("<>").removeprefix("urn:uuid:")


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
