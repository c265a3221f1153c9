"""The files of a job on this machine, and how much of each is committed.

What is beyond the committed position belongs to pages that are not done: it is not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import SinkError, UsageError
from shoal.frontier.protocol import Queue
from shoal.frontier.values import Job
from shoal.jobs.note import note_of
from shoal.model import CHANGES
from shoal.settings import Settings
from shoal.sink import describe_noted, lines_of
from shoal.sink.outputs import FORMATS, FileOptions, Place, plain_name, read_output, with_rest
from shoal.sink.ownership import noted_name
from shoal.sink.reading import ItemRow, last_lines, read_file

# Which of several outputs with the same rows is read: the one that keeps their values best, and is quick to read.
_BEST = ("jsonl", "json", "sqlite", "duckdb", "parquet", "xml", "csv", "tsv")


@runtime_checkable
class Kinds(Protocol):
    """A journal that knows the kind of each row."""

    def items(self, committed: int) -> Iterator[ItemRow]: ...


class RowSource(Protocol):
    @property
    def place(self) -> Place: ...

    def rows(self) -> Iterator[ItemRow]:
        """All rows, with their kinds as far as those are known."""
        ...


class Source(Struct, frozen=True):
    """A file with rows."""

    place: Place
    committed: int | None  # None: not known, so it is read to its end

    @property
    def path(self) -> Path:
        return self.place.path

    def rows(self) -> Iterator[ItemRow]:
        place = self.place
        if self.committed is None:
            for item, row in read_file(place.path, place.format, place.compression):
                yield place.item or item, row
            return
        journal = FORMATS[place.format].make(
            FileOptions(
                place.path, os.path.abspath(place.path), place.format, place.compression, {}, Settings()
            )
        )
        try:
            if isinstance(journal, Kinds):
                yield from journal.items(self.committed)
                return
            for row in journal.read(self.committed):
                yield place.item, row
        finally:
            journal.close()


def kind_in(row: Any) -> str:
    """The kind of item, if the row says it (the setting `row_meta`)."""
    return str(row.get("_item") or "") if isinstance(row, dict) else ""


class ObjectSource(Struct, frozen=True):
    """The parts in an object store that have the rows of a job."""

    place: Place
    positions: Mapping[str, int]
    job: str

    def rows(self) -> Iterator[ItemRow]:
        from shoal.sink.objects.object_parts import counted, positions_at, read_manifest
        from shoal.sink.objects.object_store import ObjectStore

        store = ObjectStore(self.place.target, "-o")
        if writers := positions_at(store.url, self.positions):
            keys = list(counted(store.sizes(), writers, store.url))
        else:  # rows go through a spool: at the end of a run all of them are there
            manifest = read_manifest(store)
            if manifest is None or manifest.job != self.job:
                raise SinkError(
                    f"{store.url} lists its parts when the run of job {self.job} ends: export it then"
                )
            keys = [part.name for part in manifest.parts]
        with TemporaryDirectory(prefix="shoal-") as folder:
            path = Path(folder) / "part"
            for key in keys:
                path.write_bytes(store.get(key) or b"")
                yield from read_file(path, self.place.format, self.place.compression)


class Sources(Struct, frozen=True):
    files: tuple[RowSource, ...]  # together they have every row once
    elsewhere: tuple[str, ...] = ()  # outputs of the job that are not on this machine
    no_files: bool = False  # its rows went to a database, an object store or standard output


async def sources_of(frontier: Queue, job: Job, item: str = "") -> Sources:
    """The files that have the rows of a job; with `item`, at least those of this kind."""
    name, output = job.spec.name, note_of(job.spec).output
    positions = dict(await frontier.journals(name))
    places = read_output(lines_of(output) or None, stored=True)
    if not any(place.kind == "file" for place in places):
        if len(places) == 1 and places[0].kind == "objects":
            return Sources((ObjectSource(places[0], positions, name),))
        return Sources((), no_files=True)
    several = with_rest(places, name)
    alone = len(several) == 1 and not places[0].is_template
    path = places[0].path if alone else _log(several, name)
    key = key_here(path, positions)
    others = tuple(_shown(one) for one in positions if one != key)
    if key is None:
        return Sources((), others)
    if alone:
        return Sources((Source(places[0], positions[key]),), others)
    if not item and any(place.kind != "file" and not place.item for place in several):
        only = all(place.item or place.is_rest for place in several if place.kind == "file")
        others += (describe_noted(output),) if only else ()
    return Sources(tuple(_covering(several, _parts(path, positions[key]), item)), others)


def _log(places: Sequence[Place], job: str) -> Path:
    """The log of several outputs (see `make_journal`, which would make folders)."""
    here = [place for place in places if place.kind != "database" and place.is_here]
    return here[0].folder / f".{plain_name(job)}.commits"


def given_sources(files: Sequence[str], positions: Mapping[str, int]) -> Sources:
    """Files that a person names: the parts of several machines. How far they are committed is known of those that
    have their note beside them, or are where the job writes them."""
    found = []
    known: set[str] = set()
    for place in read_output(files):
        if place.kind != "file" or not place.path.is_file():
            raise UsageError(f"{place.target} is not a file here: name the files that the rows are in")
        key = key_here(place.path, positions)
        found.append(Source(place, None if key is None else positions[key]))
        known |= {key} if key is not None else set()
    return Sources(tuple(found), tuple(_shown(one) for one in positions if one not in known))


def key_here(path: Path, positions: Mapping[str, int]) -> str | None:
    """The key by which the store knows the file: its path, or, in a fleet, the name in the note beside it."""
    if (key := os.path.abspath(path)) in positions:
        return key
    name = noted_name(path)
    return next((key for key in positions if name and key.endswith(f" {name}")), None)


def _shown(key: str) -> str:
    return key.rpartition(" ")[0] or key


def _parts(log: Path, committed: int) -> dict[Place, int]:
    """How far each output was at that commit, by the log that several outputs have."""
    try:
        line = last_lines(log, committed, 1)
        positions = msgspec.json.decode(line[0], type=dict[str, int]) if line else {}
    except (OSError, msgspec.DecodeError):
        raise SinkError(f"{log} does not say how far the outputs of this job are: restore it") from None
    parts = {}
    for name, position in positions.items():
        [place] = read_output([name], stored=True)
        if place.kind == "file":
            parts[replace(place, target=os.path.join(log.parent, place.target))] = position
    return parts


def _covering(places: Sequence[Place], parts: Mapping[Place, int], item: str) -> Iterator[Source]:
    """Files that have each row once: those of one output with all rows if there is one, or else of one for each kind of
    item. `item`: only rows of this kind are needed."""
    # What has changed on pages is no row of an item: it is read only if it is asked for.
    files = [place for place in places if place.kind == "file" and (place.item != CHANGES or item == CHANGES)]
    if item and (own := [place for place in files if place.item == item]):
        chosen = [_best(own)]
    elif everything := [place for place in files if not place.item and not place.is_rest]:
        chosen = [_best(everything)]
    else:
        kinds = {place.item: place for place in sorted(files, key=_rank, reverse=True)}
        chosen = list(kinds.values())
    for place in chosen:
        pattern = _pattern(place)
        for part, committed in parts.items():
            if found := pattern.fullmatch(os.path.abspath(part.path)):
                kind = found["item"] if place.is_template else place.item
                yield Source(replace(part, item=kind, is_rest=place.is_rest), committed)


def _best(places: Sequence[Place]) -> Place:
    return min(places, key=_rank)


def _rank(place: Place) -> int:
    return _BEST.index(place.format) if place.format in _BEST else len(_BEST)


def _pattern(place: Place) -> re.Pattern[str]:
    """Which files the output has."""
    before, *after = os.path.abspath(place.target).split("{item}")
    pieces = (
        [f"(?P<item>.+?){re.escape(after[0])}", *(f".+?{re.escape(one)}" for one in after[1:])]
        if after
        else []
    )
    return re.compile(re.escape(before) + "".join(pieces))
