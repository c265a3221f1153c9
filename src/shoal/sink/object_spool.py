"""Rows for an object store, where the frontier is a file: they wait in a spool, and are shipped as parts.

A settlement is a transaction of the file, in which no network can be waited for. So rows go to a spool on the disk
(`spool.py`), exactly once, and a thread takes them to the object store. At the end of a run the rest goes there, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event

from shoal.errors import SinkAway
from shoal.model import Row
from shoal.sink.object_parts import Encode, PartName, claim, conclude, mark_of, read_name, remove
from shoal.sink.object_store import ObjectStore
from shoal.sink.outage import Outage
from shoal.sink.ownership import FileClaim, Owner
from shoal.sink.spool import SEGMENT, Part, Spool

PATIENCE = 300.0  # seconds that the object store may be away at the end of a run

_WRITER = "0"  # all processes of the machine write in turn


class ObjectShipper:
    """The position of a part is the end of its rows in the spool. The part before it ends where it begins."""

    def __init__(
        self, store: ObjectStore, encode: Encode, suffix: str, owner: Callable[[], Owner | None]
    ) -> None:
        self.store = store
        self._encode = encode
        self._suffix = suffix
        self._find_owner = owner

    def __repr__(self) -> str:
        return f"<ObjectShipper to {self.store.url}>"

    def ship(self, part: Part, rows: Iterator[Row]) -> None:
        data = list(rows)
        mark = mark_of(self._owner())
        name = PartName(mark, _WRITER, part.end, part.start, len(data)).text + self._suffix
        self.store.put(self._encode(data), name)

    def unship(self, part: Part) -> None:
        """Also a shorter one, which was shipped at the end of an earlier run."""
        mark = mark_of(self._owner())
        names = {key: name for key in self.store.sizes() if (name := read_name(key)) and name.job == mark}
        remove(self.store, [key for key, name in names.items() if name.after == part.start])

    def finish(self, position: int, parts: Sequence[Part]) -> None:
        conclude(self.store, self._owner(), self.store.sizes(), {_WRITER: position})

    def _owner(self) -> Owner:
        owner = self._find_owner()
        assert owner is not None, "the spool was claimed for a job"
        return owner


class SpooledObjects(Spool):
    """A journal on the disk, whose rows go to an object store."""

    def __init__(
        self,
        path: Path,
        store: ObjectStore,
        encode: Encode,
        suffix: str,
        key: str = "",
        *,
        segment: int = SEGMENT,
    ) -> None:
        self.store = store
        self._leaving = Event()
        shipper = ObjectShipper(store, encode, suffix, lambda: self.owner)
        super().__init__(path, shipper, key, segment=segment)

    def claim_remote(self, asked: FileClaim, *, replace_any: bool = False) -> None:
        """Shows that the job may write to the object store, and that nobody else does."""
        claim(self.store, asked, replace_any=replace_any)

    def finish(self, committed: int) -> None:
        """Ships everything. Waits while the object store is away."""
        outage, until = Outage(), time.monotonic() + PATIENCE
        while True:
            try:
                super().finish(committed)
            except SinkAway as error:
                pause = outage.pause(error)
                if time.monotonic() + pause > until or self._leaving.wait(pause):
                    raise
            else:
                outage.end()
                return

    def close(self) -> None:
        self._leaving.set()
        super().close()
