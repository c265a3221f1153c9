"""From settlements to what is written: rows by table, each with a key that is the same whenever it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from shoal.model import Row, Settlement, Task

_MOST_ROWS = 2_000  # in one statement,
_MOST_BYTES = 8 * 1024 * 1024  # and of their text
_LONGEST_KEY = 1_000  # bytes; an index of PostgreSQL takes about 2,700
_NUL = b"\\u0000"  # as JSON writes it; PostgreSQL's text has no such character
_LAST = "~"  # after every digit


class Entry(Struct, frozen=True):
    key: str
    item: str  # JSON
    url: str
    at: float
    by: tuple[
        str, ...
    ] = ()  # fields that make up the key; none: the key is the page and the row's place on it

    @property
    def fields(self) -> Mapping[str, Any]:
        item = msgspec.json.decode(self.item)
        return item if isinstance(item, dict) else {}


class Extent(Struct, frozen=True):
    """The keys that a page's rows without a key of their own may have had before, and no longer have."""

    after: str
    before: str
    at: float  # when the page was fetched


class Load(Struct):
    """What goes to one table."""

    entries: list[Entry]
    extents: list[Extent]

    def parts(self) -> Iterator[Sequence[Entry]]:
        """Portions that a server can take at once."""
        part: list[Entry] = []
        size = 0
        for entry in self.entries:
            part.append(entry)
            size += len(entry.item)
            if len(part) >= _MOST_ROWS or size >= _MOST_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part


def loads(batch: Sequence[Settlement], job: str) -> dict[str, Load]:
    """By table."""
    found: dict[str, Load] = {}
    for settlement in batch:
        task = settlement.lease.task
        for place, row in enumerate(settlement.rows):
            load = found.setdefault(row.table, Load([], []))
            load.entries.append(_entry(row, task, job, place))
        if settlement.rows and not settlement.rows[-1].by:
            row = settlement.rows[-1]
            load = found[row.table]
            page = _page(task, job, row.table)
            load.extents.append(Extent(load.entries[-1].key, f"{page}#{_LAST}", row.at))
    return found


def _entry(row: Row, task: Task, job: str, place: int) -> Entry:
    data = row.data.rstrip(b"\n")
    item = (_without_nul(data) if _NUL in data else data).decode()
    key = _short(row.ident) if row.by else f"{_page(task, job, row.table)}#{place:07}"
    return Entry(key, item, task.url, row.at, row.by)


def _page(task: Task, job: str, table: str) -> str:
    """A page by what was asked for, so that it is the same page in every run. What may be asked for twice in a run is
    told apart by its task."""
    request = f"task {task.id}" if task.fingerprint is None else str(task.fingerprint)
    return blake2b("\n".join((job, table, request)).encode(), digest_size=10).hexdigest()


def _short(key: str) -> str:
    key = key.replace("\0", "")
    data = key.encode()
    if len(data) <= _LONGEST_KEY:
        return key
    return f"{key[:100]}…{blake2b(data, digest_size=16).hexdigest()}"


def _without_nul(data: bytes) -> bytes:
    return msgspec.json.encode(_stripped(msgspec.json.decode(data)))


def _stripped(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, list):
        return [_stripped(one) for one in value]
    if isinstance(value, dict):
        return {_stripped(name): _stripped(one) for name, one in value.items()}
    return value
