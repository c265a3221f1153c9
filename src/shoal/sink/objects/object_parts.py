"""Rows in an object store, as numbered parts.

    s3://bucket/shop/rows.jsonl/part-3f2a9c-81d07e-000007b01d2-000006a3f9c-120.jsonl
                                     job    writer position    the one before, rows

An object cannot be appended to, but it is there when it is whole. So each settlement makes a part, whose position is a
number and a random tag. A part counts if it is the one at its writer's committed position, or comes before a part that
counts. All others are left by a process that died or was late. They have another tag, so they never replace a part that
counts, whenever they arrive. At the end of the job they are removed, and `_manifest.json` lists the parts that count.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from shoal.errors import OutputTaken, SinkAway, SinkError
from shoal.model import Row
from shoal.sink.objects.in_objects import InObjects
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.ownership import FileClaim, Owner
from shoal.text.humanize import plural

MANIFEST = "_manifest.json"
OWNER = "_job.json"

TAG = 20  # bits of a position
_AT_ONCE = 1000  # objects that are deleted together
_LARGE = 4 << 20  # bytes of the rows of a part that is made of others
WORTH_IT = 20  # parts that are removed together
KEPT = 60.0  # seconds that a part is kept after a larger one has replaced it: the store may go back
_NAME = re.compile(r"part-([0-9a-f]{6})-([0-9a-f]+)-(\d{6,}[0-9a-f]{5})-(\d{6,}[0-9a-f]{5})-(\d+)\.")

Encode: TypeAlias = Callable[[Sequence[Row]], bytes]


class PartName(NamedTuple):
    job: str  # tells the parts of a job from those of an earlier one of the same name
    writer: str
    position: int
    after: int  # the position of the part before; 0: there is none
    rows: int

    @property
    def text(self) -> str:
        return f"part-{self.job}-{self.writer}-{shown(self.position)}-{shown(self.after)}-{self.rows}"


def shown(position: int) -> str:
    return f"{position >> TAG:06}{position & (1 << TAG) - 1:05x}"


def _read(shown: str) -> int:
    return int(shown[:-5]) << TAG | int(shown[-5:], 16)


def read_name(key: str) -> PartName | None:
    found = _NAME.match(key)
    if found is None:
        return None
    job, writer, position, after, rows = found.groups()
    return PartName(job, writer, _read(position), _read(after), int(rows))


def mark_of(owner: Owner) -> str:
    return blake2b(f"{owner.job} {owner.created_at!r}".encode(), digest_size=3).hexdigest()


class Recent(NamedTuple):
    """A part of ours that may be taken into a larger one."""

    position: int
    after: int
    rows: Sequence[Row]
    size: int
    name: str


class ObjectParts(InObjects):
    """The journal of one process. Another process, or the same one when it starts again, is another writer.

    A settlement is a few rows, and thousands of tiny parts are a burden for every reader. So a part takes in the parts
    before it that are not larger, up to 4 MB: their rows are still in memory. Those do not count any more once it does.
    They stay for a minute, because the store may go back."""

    remote = True  # written over the network: not within a round of the engine

    def __init__(self, store: ObjectStore, encode: Encode, suffix: str, writer: str = "") -> None:
        self.store = store
        self.owner: Owner | None = None
        self._encode = encode
        self._suffix = suffix
        self._writer = writer or os.urandom(4).hex()
        self.key = f"{store.url} {self._writer}"
        self._recent: dict[int, tuple[Recent, ...]] = {}  # up to a position that may be committed
        self._written: dict[int, str] = {}  # what may not be committed yet
        self._replaced: list[tuple[int, float, str]] = []  # by the part at this position, and since when

    def __repr__(self) -> str:
        return f"<ObjectParts {self.store.url} of {self._writer}>"

    def claim(self, asked: FileClaim, *, replace_any: bool = False) -> None:
        claim(self.store, asked, replace_any=replace_any)
        self.owner = asked.owner

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        self._forget(committed)
        if not rows:
            return committed
        if self.owner is None:
            raise SinkError(f"{self.store.url} was not opened for a job")
        position = (committed >> TAG) + 1 << TAG | random.getrandbits(TAG)
        kept, part = self._larger(committed, position, rows)
        self._written[position] = part.name
        self.store.put(self._encode(part.rows), part.name)
        self._recent[position] = (*kept, part)
        taken = [one.name for one in self._recent.get(committed, ()) if one.after >= part.after]
        self._replaced += [(position, time.monotonic(), name) for name in taken]
        return position

    def finish(self, committed: int) -> None:
        """Lists the parts of this writer, if this is one of several outputs whose log is a file. Parts beyond the
        position are left: somebody may have begun to go on with the job."""
        assert self.owner is not None
        listed = {
            key: size
            for key, size in self.store.sizes().items()
            if (name := read_name(key)) and (name.writer != self._writer or name.position <= committed)
        }
        conclude(self.store, self.owner, listed, {self._writer: committed}, time.time(), alone=False)

    def _larger(
        self, committed: int, position: int, rows: Sequence[Row]
    ) -> tuple[tuple[Recent, ...], Recent]:
        """The part of these rows and of those before it that it takes in; and those that are left."""
        assert self.owner is not None
        recent = self._recent.get(committed, ())
        after, size = committed, sum(len(row.data) for row in rows)
        while recent and recent[-1].size <= 2 * size and recent[-1].size + size <= _LARGE:
            rows, size, after = [*recent[-1].rows, *rows], recent[-1].size + size, recent[-1].after
            recent = recent[:-1]
        if recent and recent[-1].size + size > _LARGE:
            recent = ()  # nothing before it will be taken in: its rows need not be kept
        name = PartName(mark_of(self.owner), self._writer, position, after, len(rows)).text + self._suffix
        return recent, Recent(position, after, rows, size, name)

    def _forget(self, committed: int) -> None:
        """Removes parts that will never count. If that fails, they are removed at the end of the job."""
        left = [name for position, name in self._written.items() if position > committed]
        self._written = {position: name for position, name in self._written.items() if position == committed}
        self._recent = {position: parts for position, parts in self._recent.items() if position == committed}
        self._replaced = [one for one in self._replaced if one[0] <= committed]
        with suppress(SinkAway):
            self.store.delete(left)

    def tidy(self) -> None:
        """Called when all that was written is committed. Removes parts that larger ones have replaced a while ago."""
        before = time.monotonic() - KEPT
        old = [name for _, since, name in self._replaced if since < before]
        if len(old) >= WORTH_IT:
            self._replaced = self._replaced[len(old) :]
            with suppress(SinkAway):
                remove(self.store, old)


# -- whose parts they are


def claim(store: ObjectStore, asked: FileClaim, *, replace_any: bool = False) -> None:
    """Notes in the store that the job writes there, which also shows that it may. Raises OutputTaken if there are parts
    of another job."""
    mine, note = mark_of(asked.owner), store.get(OWNER)
    owner = _owner(note)
    if owner != asked.owner:
        others = [key for key in store.sizes() if (name := read_name(key)) and name.job != mine]
        namesake = owner is not None and owner.job == asked.owner.job
        if others and not replace_any and not (asked.replace and namesake):
            whose = f", {owner.job!r}" if owner is not None else ""
            raise OutputTaken(
                f"{store.url} holds {plural(len(others), 'part')} of another job{whose}: choose another place with -o,"
                " or remove them"
            )
        remove(store, [*others, MANIFEST] if others else [])
    store.put(msgspec.json.encode(asked.owner) + b"\n", OWNER)


def _owner(note: bytes | None) -> Owner | None:
    try:
        return msgspec.json.decode(note or b"", type=Owner)
    except msgspec.DecodeError:
        return None


def remove(store: ObjectStore, keys: Sequence[str]) -> None:
    for start in range(0, len(keys), _AT_ONCE):
        store.delete(keys[start : start + _AT_ONCE])


# -- the end of a job


class ManifestPart(Struct, frozen=True):
    name: str
    rows: int
    bytes: int


class Manifest(Struct, frozen=True):
    job: str
    finished_at: float  # by the clock of the job's store
    rows: int
    bytes: int
    parts: tuple[ManifestPart, ...]


def counted(keys: Iterable[str], positions: Mapping[str, int], url: str = "") -> Iterator[str]:
    """The parts that count, in order, by the committed positions of their writers. Raises SinkError if one is
    missing."""
    parts = {(name.writer, name.position): (key, name) for key in keys if (name := read_name(key))}
    for writer, position in sorted(positions.items()):
        chain: list[str] = []
        while position:
            if (writer, position) not in parts:
                raise SinkError(
                    f"{url}: a part with rows of this job is missing (part-…-{writer}-{shown(position)}-…): it was"
                    " removed; restore it, or start again with --fresh"
                )
            key, name = parts[writer, position]
            chain.append(key)
            position = name.after
        yield from reversed(chain)


def conclude(
    store: ObjectStore,
    owner: Owner,
    listed: Mapping[str, int],
    positions: Mapping[str, int],
    finished_at: float = 0.0,
    *,
    alone: bool = True,
) -> Manifest:
    """Removes the parts of the job that do not count, and writes the manifest. It may be done again, by several
    processes. `listed` must be older than the moment when nobody had a page of the job in hand, and that older than
    `positions`: otherwise a part that is about to count could be removed. Not `alone`: there are other writers, whose
    parts are left as they are."""
    names = {key: name for key in listed if (name := read_name(key)) and name.job == mark_of(owner)}
    ours = [key for key, name in names.items() if alone or name.writer in positions]
    counting = list(counted(ours, positions, store.url))
    remove(store, sorted(set(ours) - set(counting)))
    if not alone:
        before = read_manifest(store)
        known = [part.name for part in before.parts] if before is not None else []
        counting += [key for key in known if key in names and key not in ours]
    parts = tuple(ManifestPart(key, names[key].rows, listed[key]) for key in counting)
    rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
    manifest = Manifest(owner.job, finished_at, rows, size, parts)
    store.put(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n", MANIFEST)
    return manifest


def read_manifest(store: ObjectStore) -> Manifest | None:
    try:
        return msgspec.json.decode(store.get(MANIFEST) or b"", type=Manifest)
    except msgspec.DecodeError:
        return None


def positions_at(url: str, journals: Mapping[str, int]) -> dict[str, int]:
    """Of all journals of a job, the writers at this address."""
    return {
        key.removeprefix(f"{url} "): position
        for key, position in journals.items()
        if key.startswith(f"{url} ")
    }
