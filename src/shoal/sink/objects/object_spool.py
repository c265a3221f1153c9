"""Rows for an object store, where the frontier is a file: they wait in a spool, and are shipped as parts.

A settlement is a transaction of the file, in which no network can be waited for. So rows go to a spool on the disk
(`spool.py`), exactly once, and a thread takes them to the object store. At the end of a run the rest goes there, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from shoal.errors import SinkError
from shoal.model import Row
from shoal.sink.objects.in_objects import InObjects
from shoal.sink.objects.object_parts import (
    MANIFEST,
    Encode,
    PartName,
    claim,
    conclude,
    mark_of,
    read_name,
    remove,
)
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.ownership import FileClaim, Owner
from shoal.sink.spool import SEGMENT, Part, Spool


class ObjectShipper:
    """The position of a part is the end of its rows in the spool. The part before it ends where it begins."""

    def __init__(
        self, store: ObjectStore, encode: Encode, suffix: str, owner: Callable[[], Owner | None], writer: str
    ) -> None:
        self.store = store
        self.is_claimed = False
        self._encode = encode
        self._suffix = suffix
        self._find_owner = owner
        self._writer = writer

    def __repr__(self) -> str:
        return f"<ObjectShipper to {self.store.url}>"

    def claim(self, asked: FileClaim, *, replace_any: bool = False) -> None:
        claim(self.store, asked, replace_any=replace_any)
        self.is_claimed = True

    def ship(self, part: Part, rows: Iterator[Row]) -> None:
        owner, data = self._owner(), list(rows)
        if not self.is_claimed:
            self.claim(FileClaim(owner))
        name = PartName(mark_of(owner), self._writer, part.end, part.start, len(data)).text + self._suffix
        self.store.put(self._encode(data), name)

    def unship(self, part: Part) -> None:
        """Also a shorter one, which was shipped before."""
        mark = mark_of(self._owner())
        names = {key: name for key in self.store.sizes() if (name := read_name(key)) and name.job == mark}
        remove(
            self.store,
            [key for key, name in names.items() if (name.writer, name.after) == (self._writer, part.start)],
        )

    def finish(self, position: int, parts: Sequence[Part]) -> None:
        conclude(
            self.store, self._owner(), self.store.sizes(), {self._writer: position}, time.time(), alone=False
        )

    def _owner(self) -> Owner:
        owner = self._find_owner()
        assert owner is not None, "the spool was claimed for a job"
        return owner


class SpooledObjects(Spool, InObjects):
    """A journal on the disk, whose rows go to an object store."""

    def __init__(
        self, path: Path, store: ObjectStore, encode: Encode, suffix: str, *, segment: int = SEGMENT
    ) -> None:
        self.store = store
        # A spool in another folder is another writer.
        writer = blake2b(os.path.abspath(path).encode(errors="surrogateescape"), digest_size=4).hexdigest()
        self._objects = ObjectShipper(store, encode, suffix, lambda: self.owner, writer)
        super().__init__(path, self._objects, segment=segment)

    def claim(self, asked: FileClaim, *, replace_any: bool = False) -> None:
        """Shows that the job may write to the object store, and that nobody else does."""
        self._objects.claim(asked, replace_any=replace_any)

    def read(self, committed: int) -> Iterator[dict[str, Any]]:
        raise SinkError(
            f"rows in {self.store.url} cannot be read back here: read the parts of its {MANIFEST}"
        )
