"""What a row says about itself if the setting `row_meta` asks for it: `_url`, `_fetched_at`, `_job` and so on.

They are fields of the row like any other, so that they are columns in every format. Schemas and keys do not see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import get_args

import msgspec
from msgspec import Struct

from shoal.settings import MetaField, Settings

_FIELDS: tuple[MetaField, ...] = get_args(MetaField)


class PageMeta(Struct, frozen=True):
    """The fields that the rows of a page get."""

    shared: bytes  # those that all rows have in common, as JSON without braces
    names: tuple[str, ...]  # of all of them
    item: bool  # whether a row gets its kind of item, too

    def fields(self, kind: str) -> bytes:
        if not self.item:
            return self.shared
        item = b'"_item":' + msgspec.json.encode(kind)
        return self.shared + b"," + item if self.shared else item


def fields_of(settings: Settings, *, archive: bool = False) -> tuple[MetaField, ...]:
    """What rows get, in the order of their columns. `archive`: pages are archived, so that there are records."""
    wanted = settings.row_meta
    if isinstance(wanted, bool):
        # No column that is always the same: "record" only if there is an archive, "cached" only if it is a cache.
        without = {name for name, there in (("record", archive), ("cached", settings.cache)) if not there}
        return tuple(name for name in _FIELDS if name not in without) if wanted else ()
    return tuple(name for name in _FIELDS if name in wanted)


def meta_columns(settings: Settings, *, archive: bool = False) -> Mapping[str, object]:
    """The names and types of these fields, for formats that need them at the beginning."""
    types: Mapping[str, object] = {"fetched_at": datetime, "cached": bool}
    return {f"_{name}": types.get(name, str) for name in fields_of(settings, archive=archive)}


class MetaWriter:
    """Makes the fields for the pages of a job."""

    def __init__(self, fields: tuple[MetaField, ...]) -> None:
        self._fields = fields
        self._names = tuple(f"_{name}" for name in fields)

    def __bool__(self) -> bool:
        return bool(self._fields)

    def page(
        self, url: str, at: float, job: str, handler: str, record: str | None = None, *, cached: bool = False
    ) -> PageMeta:
        """`at`: when the page was asked for. `record`: the WARC-Record-ID of its response. `cached`: it is from the
        archive."""
        known: Mapping[str, object] = {
            "url": url,
            "fetched_at": iso_time(at),
            "job": job,
            "handler": handler,
            "record": record,
            "cached": cached,
        }
        shared = {f"_{name}": known[name] for name in self._fields if name != "item"}
        return PageMeta(msgspec.json.encode(shared)[1:-1], self._names, "item" in self._fields)


def iso_time(at: float) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
