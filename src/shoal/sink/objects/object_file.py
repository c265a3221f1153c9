"""A finished file in an object store: one part, in place of all that was there."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import msgspec

from shoal.errors import OutputTaken
from shoal.sink.objects.object_parts import (
    MANIFEST,
    OWNER,
    TAG,
    Manifest,
    ManifestPart,
    PartName,
    mark_of,
    read_manifest,
    read_name,
    remove,
)
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.ownership import Owner


def check_free(store: ObjectStore) -> None:
    """Raises OutputTaken if rows are there, or a job is about to write some."""
    if store.get(OWNER) is not None or read_manifest(store) is not None:
        raise OutputTaken(
            f"{store.url} holds rows already; --fresh replaces them when the new rows are complete"
        )


def publish(store: ObjectStore, file: Path, rows: int, suffix: str, owner: Owner) -> None:
    """The manifest names the new part or the old ones: readers never see both, nor half of one."""
    position = 1 << TAG | random.getrandbits(TAG)
    name = PartName(mark_of(owner), os.urandom(4).hex(), position, 0, rows).text + suffix
    size = file.stat().st_size
    store.put(file, name)
    store.put(msgspec.json.encode(owner) + b"\n", OWNER)
    manifest = Manifest(owner.job, time.time(), rows, size, (ManifestPart(name, rows, size),))
    store.put(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n", MANIFEST)
    remove(store, [key for key in store.sizes() if read_name(key) and key != name])
