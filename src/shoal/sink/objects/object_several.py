"""Several outputs in object stores as one journal, for a process of a fleet.

Each output has parts of its own, and a settlement that adds to any of them is a commit: an object that says how far all
outputs are. The position of the journal is the number of the commit and a random tag, as with parts. So the store
knows one number for each process, and nothing on a disk is needed.

    s3://bucket/shop/_shop.commits/3f2a9c-81d07e42-000007b01d2.json
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from shoal.errors import SinkAway, SinkError
from shoal.frontier.protocol import Journal
from shoal.model import Row
from shoal.sink.objects.in_objects import InObjects
from shoal.sink.objects.object_parts import KEPT, TAG, WORTH_IT, ObjectParts, mark_of, remove, shown
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.outputs import Place, by_place, plain_name
from shoal.sink.ownership import FileClaim, Owner

_Heads = msgspec.json.Decoder(dict[str, int])

Heads = Mapping[str, int]  # the position of each output, by the text of its place
Make = Callable[[Place, str], Journal]


class SeveralObjects(InObjects):
    remote = True

    def __init__(self, places: Sequence[Place], job: str, make: Make) -> None:
        self.places = places
        self.owner: Owner | None = None
        base = places[0].target.partition("{item}")[0].rpartition("/")[0]
        self.commits = ObjectStore(f"{base}/_{plain_name(job)}.commits", "-o")
        self._make = make
        self._parts: dict[str, ObjectParts] = {}
        self._writer = os.urandom(4).hex()
        self.key = f"{self.commits.url} {self._writer}"
        self._heads: dict[int, tuple[float, Heads]] = {0: (0.0, {})}  # since when, by position
        for place in places:
            if not place.is_template:
                self.part(place)

    def __repr__(self) -> str:
        return f"<SeveralObjects {', '.join(place.text for place in self.places)}>"

    def known(self) -> list[str]:
        """The texts of the places that have parts, or may have."""
        return list(self._parts)

    def parts(self) -> list[ObjectParts]:
        return list(self._parts.values())

    def part(self, place: Place) -> ObjectParts:
        name = place.text
        if name not in self._parts:
            part = self._make(place, self._writer)
            assert isinstance(part, ObjectParts)
            if self.owner is not None:
                part.claim(FileClaim(self.owner))
            self._parts[name] = part
        return self._parts[name]

    def claim(self, asked: FileClaim, *, replace_any: bool = False) -> None:
        for part in self._parts.values():
            part.claim(asked, replace_any=replace_any)
        self.owner = asked.owner

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        if committed not in self._heads or self.owner is None:
            raise SinkError(f"{self.commits.url}: this process has not written what {shown(committed)} means")
        self._heads = {position: known for position, known in self._heads.items() if position <= committed}
        if not rows:
            return committed
        heads = dict(self._heads[committed][1])
        for place, its_rows in by_place(self.places, rows).items():
            heads[place.text] = self.part(place).append(heads.get(place.text, 0), its_rows)
        position = (committed >> TAG) + 1 << TAG | random.getrandbits(TAG)
        self.commits.put(msgspec.json.encode(heads), commit_name(self.owner, self._writer, position))
        self._heads[position] = time.monotonic(), heads
        return position

    def tidy(self) -> None:
        """All that was written is committed. What came before is kept for as long as the store may go back to it."""
        for part in self._parts.values():
            part.tidy()
        before = time.monotonic() - KEPT
        old = [position for position, (since, _) in list(self._heads.items())[:-1] if since < before]
        if self.owner is not None and len(old) >= WORTH_IT:
            for position in old:
                del self._heads[position]
            with suppress(SinkAway):
                remove(self.commits, [commit_name(self.owner, self._writer, position) for position in old])


def commit_name(owner: Owner, writer: str, position: int) -> str:
    return f"{mark_of(owner)}-{writer}-{shown(position)}.json"


def heads_at(commits: ObjectStore, owner: Owner, positions: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """For each output, by the text of its place, the positions of its writers."""
    heads: dict[str, dict[str, int]] = {}
    for writer, position in positions.items():
        name = commit_name(owner, writer, position)
        data = commits.get(name)
        if data is None:
            raise SinkError(
                f"{commits.url}/{name} is missing, which says how far the outputs of this job are: it was removed;"
                " restore it, or start again with --fresh"
            )
        for text, head in _Heads.decode(data).items():
            heads.setdefault(text, {})[writer] = head
    return heads


def old_commits(listed: Iterable[str], owner: Owner, positions: Mapping[str, int]) -> list[str]:
    """The commits of the job that are not its last ones."""
    last = {commit_name(owner, writer, position) for writer, position in positions.items()}
    return [key for key in listed if key.startswith(f"{mark_of(owner)}-") and key not in last]
