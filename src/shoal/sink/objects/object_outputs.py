"""Outputs in an object store: which journal they have, and how rows become an object."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from shoal.model import Row
from shoal.settings import Settings
from shoal.sink.objects.object_parts import Encode, ObjectParts
from shoal.sink.objects.object_spool import SpooledObjects
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.outputs import FORMATS, Columns, FileOptions, Place, plain_name


def make_objects(
    place: Place, *, job: str, local: bool, columns: Columns, settings: Settings, writer: str = ""
) -> ObjectParts | SpooledObjects:
    store = ObjectStore(place.target, "-o")
    suffix = FORMATS[place.format].suffixes[0] + (f".{place.compression}" if place.compression else "")
    encode = _encoder(place, suffix, columns, settings)
    if not local:
        return ObjectParts(store, encode, suffix, writer)
    return SpooledObjects(spool_path(place.target, job), store, encode, suffix)


def spool_path(url: str, job: str) -> Path:
    """Where rows for this address wait, in the current folder."""
    name = plain_name(url.rstrip("/").rpartition("/")[2])
    mark = blake2b(url.encode(), digest_size=2).hexdigest()
    return Path(f"{plain_name(job)}-{name}-{mark}")


def _encoder(place: Place, suffix: str, columns: Columns, settings: Settings) -> Encode:
    if place.format == "jsonl" and not place.compression:
        return lambda rows: b"".join([row.data for row in rows])

    def encode(rows: Sequence[Row]) -> bytes:
        """An object is what a file of the format would be that holds these rows."""
        with TemporaryDirectory(prefix="shoal-") as folder:
            path = Path(folder) / f"rows{suffix}"
            options = FileOptions(path, "rows", place.format, place.compression, columns, settings)
            file = FORMATS[place.format].make(options)
            try:
                file.finish(file.append(0, rows))
            finally:
                file.close()
            return path.read_bytes()

    return encode
