"""What has changed on a page since its last visit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shoal.model import Row
from shoal.model.page_record import KeptRow


class Comparison(Struct, frozen=True):
    changed: bool
    rows: tuple[Row, ...]
    changes: tuple[Row, ...]
    kept: tuple[KeptRow, ...]


def kept(rows: Sequence[Row]) -> tuple[KeptRow, ...]:
    return tuple(KeptRow(row.table, row.ident, blake2b(row.data, digest_size=8).digest()) for row in rows)


def compare(before: tuple[KeptRow, ...], rows: Sequence[Row], *, url: str, job: str, at: float) -> Comparison:
    now = kept(rows)
    known = set(before)
    fresh = tuple(
        replace(row, key=None) if before else row
        for row, one in zip(rows, now, strict=True)
        if one not in known
    )
    return Comparison(set(now) != known, fresh, (), now)


def vanished(before: tuple[KeptRow, ...], *, url: str, job: str, at: float) -> tuple[Row, ...]:
    return ()


def fields_before(before: Sequence[KeptRow]) -> list[tuple[str, Mapping[str, Any]]]:
    """The items of a page's last visit: table and fields, of those that were kept whole."""
    return []
