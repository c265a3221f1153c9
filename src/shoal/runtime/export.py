"""Writes the rows of a job into files of other formats, without crawling.

A place that takes one kind of items (`-o ITEM=FILE`, `{item}`, `--item`) needs rows that say their kind. So each place
may be written from other outputs of the job than the next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import SinkError, UsageError
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.inspect.job import unknown_job
from shoal.inspect.sources import RowSource, Sources, given_sources, kind_in, sources_of
from shoal.jobs.note import encode_note, note_of, settings_of
from shoal.model import CHANGES
from shoal.model.counts import VISITS
from shoal.settings import Settings
from shoal.sink import lines_of
from shoal.sink.exporting import Exporter
from shoal.sink.outputs import Place, read_output
from shoal.sink.reading import ItemRow
from shoal.sink.row_meta import fields_of
from shoal.text.humanize import plural

if TYPE_CHECKING:
    from shoal.sink.postgres.reading import PostgresSource

_STEP = 1_000  # rows between two signs of progress
_SHOWN = 20  # kinds, in a message


class Taker(Struct, frozen=True):
    """A place, and what it takes."""

    place: Place
    kind: str = ""  # only rows of this kind; "": all
    asked: str = ""  # the option that asks for kinds; "": they do not matter


class Reading(Struct, frozen=True):
    """Sources that are read once, and the places that get their rows."""

    sources: tuple[RowSource, ...]
    takers: tuple[Taker, ...]

    @property
    def asked(self) -> str:
        return next((taker.asked for taker in self.takers if taker.asked), "")

    @property
    def kinds(self) -> frozenset[str] | None:
        """Those that are taken; None: all."""
        kinds = frozenset(taker.kind for taker in self.takers)
        return None if "" in kinds else kinds


class Export(Struct, frozen=True):
    """What is read and written."""

    job: str
    readings: tuple[Reading, ...]
    rows: int = 0  # of the job; 0: not known
    least: int = 0  # that there must be if all kinds are read
    handlers: frozenset[str] = frozenset()  # their names are kinds, too, unless they say item=
    kinds: frozenset[str] = frozenset()  # that outputs of the job name
    left_out: str = ""  # a sentence about rows that are not on this machine

    @property
    def sources(self) -> list[RowSource]:
        found: list[RowSource] = []
        for reading in self.readings:
            found += [source for source in reading.sources if source not in found]
        return found


class Written(Struct, frozen=True):
    files: Mapping[str, int]  # how many rows each has
    empty: tuple[str, ...] = ()  # kinds of which there was no row
    unsaid: tuple[str, ...] = ()  # files with rows that do not say their kind, which had to go to {item}


def takers_of(places: Sequence[Place], item: str) -> list[Taker]:
    """What each place takes. `item`: only rows of this kind are exported."""
    for place in places:
        if item and place.item not in ("", item):
            raise UsageError(
                f"-o {place.text}: nothing would be there with --item {item}: give one of the two"
            )
    return [_taker(place, item) for place in places]


def _taker(place: Place, item: str) -> Taker:
    asked = f"-o {place.text}" if place.item or place.is_template else ""
    return Taker(place, place.item or item, f"--item {item}" if item else asked)


async def find_rows(frontier: Frontier, name: str, files: Sequence[str], takers: Sequence[Taker]) -> Export:
    """Where the rows of a job are. `files`: those that a person names."""
    job = await frontier.job(name)
    if job is None:
        raise await unknown_job(frontier, name)
    export = Export(
        name,
        (),
        rows=job.counters.items,
        handlers=frozenset(note_of(job.spec).handlers or ()),
        kinds=frozenset(place.item for place in _outputs(job) if place.item),
    )
    if files:
        return of_files(export, given_sources(files, await frontier.journals(name)), takers)
    readings: list[Reading] = []
    least, kinds = job.counters.items, set(export.kinds)
    for taker in takers:
        sources, is_exact = await _find_sources(frontier, job, taker)
        check_sources(sources, name, given=False)
        least = least if is_exact or taker.kind else 0
        kinds |= {source.place.item for source in sources.files if source.place.item}
        # An output for another kind has no row of this one.
        wanted = tuple(one for one in sources.files if not taker.kind or one.place.item in ("", taker.kind))
        same = next((place for place, one in enumerate(readings) if one.sources == wanted), None)
        if same is None:
            readings.append(Reading(wanted, (taker,)))
        else:
            readings[same] = Reading(wanted, (*readings[same].takers, taker))
    return replace(export, readings=tuple(readings), least=least, kinds=frozenset(kinds))


def _outputs(job: Job) -> list[Place]:
    """Those for rows."""
    places = read_output(lines_of(note_of(job.spec).output) or None, stored=True)
    return [place for place in places if place.kind != "archive"]


def of_files(export: Export, found: Sources, takers: Sequence[Taker]) -> Export:
    """The rows of these files."""
    left_out = check_sources(found, export.job, given=True)
    return replace(export, readings=(Reading(found.files, tuple(takers)),), left_out=left_out)


async def _find_sources(frontier: Frontier, job: Job, taker: Taker) -> tuple[Sources, bool]:
    """The outputs to read, and whether they have all rows that the job has counted."""
    places = [place for place in _outputs(job) if place.item != CHANGES or taker.kind == CHANGES]
    if len(places) == 1 and places[0].kind == "database" and not places[0].item:
        # Rows with the same key are one row there: how many there must be is not known.
        return Sources((_database(places[0], job),)), False
    if taker.kind == CHANGES and not any(place.item == CHANGES for place in places):
        raise UsageError(
            f"{taker.asked}: job {job.spec.name} has no output for that: crawl with -o changes=FILE"
        )
    is_apart = taker.asked and taker.kind != CHANGES
    found = await sources_of(frontier, _told_apart(job) if is_apart else job, taker.kind)
    # In a database, newer versions have replaced rows.
    is_exact = VISITS not in job.counts or all(
        one.place.format not in ("sqlite", "duckdb") for one in found.files
    )
    return found, is_exact


def _told_apart(job: Job) -> Job:
    """The job without outputs of all rows that do not say their kinds, if another one does."""
    note, settings = note_of(job.spec), settings_of(job.spec)
    places = read_output(lines_of(note.output) or None, stored=True)
    mixed = [place for place in places if place.kind == "file" and not (place.item or place.tells_kinds)]
    is_said = settings is not None and "item" in fields_of(settings)
    apart = [place for place in places if place.kind == "file" and not place.item and place.tells_kinds]
    if is_said or not apart:
        return job
    # An output of changes is no source of items. It stays where it is: by the first one the log of all is found.
    lines = [(replace(place, item=CHANGES) if place in mixed else place).text for place in places]
    output = "\n".join(lines).encode(errors="surrogateescape")
    return replace(job, spec=replace(job.spec, settings=encode_note(replace(note, output=output))))


def _database(place: Place, job: Job) -> PostgresSource:
    from shoal.sink.postgres.address import read_address

    try:
        from shoal.sink.postgres.reading import PostgresSource
    except ModuleNotFoundError as error:
        raise UsageError(f"PostgreSQL needs {error.name}: pip install 'shoal[postgres]'") from None
    shown = replace(place, target=read_address(place.target).shown)
    return PostgresSource(shown, place.target, job.spec.name, expected=bool(job.counters.items))


async def check_places(frontier: Frontier, places: Sequence[Place]) -> None:
    """Refuses files that a job writes to: it would lose them."""
    mine = _files(places)
    for job in await frontier.jobs():
        taken = mine & _files(_outputs(job))
        if taken:
            raise UsageError(
                f"job {job.spec.name} writes its rows to {taken.pop()}: choose another file with -o"
            )


def _files(places: Sequence[Place]) -> set[str]:
    return {os.path.realpath(place.path) for place in places if place.kind == "file"}


def check_sources(found: Sources, job: str, *, given: bool) -> str:
    """Refuses to leave out rows that are not on this machine; or returns a sentence about them, if a person has named
    the files (`given`)."""
    if found.no_files:
        raise UsageError(
            f"the rows of job {job} are in no file, but went to standard output or to several places of an object store"
            " or a database: only files, databases, and one place of an object store can be exported"
        )
    if not found.elsewhere:
        return ""
    places = ", ".join(found.elsewhere[:3]) + (" …" if len(found.elsewhere) > 3 else "")
    if given:
        return f"rows of job {job} that are left out, because their files are not among those named: {places}"
    raise UsageError(
        f"job {job} has rows that are not on this machine, in {places}: copy the files of all machines here, with"
        f" the notes beside them (.FILE.id), and name them: shoal export {job} -o … FILE FILE"
    )


class _Met:
    """What was met in the rows."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.unsaid: dict[
            str, None
        ] = {}  # sources with rows that do not say their kind, though it is asked for


def write_rows(
    export: Export,
    settings: Settings,
    *,
    key: Sequence[str] = (),
    latest: bool = False,
    fresh: bool = False,
    tell: Callable[[int], object] = lambda _: None,
) -> Written:
    """`latest`: of rows with the same key the last one, and not the first. `fresh`: replaces files. `tell` is called
    now and then with the number of rows that were read."""
    takers = [taker for reading in export.readings for taker in reading.takers]
    exporter = Exporter([taker.place for taker in takers], settings, replace=fresh)
    met, before = _Met(), 0
    try:
        for reading in export.readings:
            number = 0
            for number, (kind, row) in enumerate(_chosen(reading, met, key, latest), 1):
                taking = [taker.place for taker in reading.takers if taker.kind in ("", kind)]
                exporter.add(kind, row, taking)
                if number % _STEP == 0:
                    tell(before + number)
            before += number
            if reading.kinds is None and not key and number < export.least:
                names = ", ".join(source.place.target for source in reading.sources) or "no file here"
                raise SinkError(
                    f"only {number:,} of {export.least:,} rows are in {names}: nothing is exported; was it changed?"
                )
        empty = [taker for taker in takers if taker.kind and not exporter.count(taker.place)]
        for taker in empty:
            _check_kind(export, taker, met.kinds)
        return Written(exporter.finish(), tuple(dict.fromkeys(one.kind for one in empty)), tuple(met.unsaid))
    finally:
        exporter.discard()


def _check_kind(export: Export, taker: Taker, met: set[str]) -> None:
    """Refuses a kind of which there is no row, unless the job names it somewhere: it may be misspelt."""
    # Where kinds have other names than handlers, the name of a handler says nothing.
    there = sorted((met | export.kinds) - {""})
    known = export.kinds | export.handlers if export.handlers.issuperset(there) else export.kinds
    if taker.kind in known or not (met or export.rows):
        return
    close = get_close_matches(taker.kind.lower(), there, 1)
    rows = f"{plural(export.rows, 'row')}, " if export.rows else "rows, but "
    raise UsageError(
        f"{taker.asked}: job {export.job} has {rows}none of them of the kind {taker.kind}: is it spelt so? "
        + (f"did you mean {close[0]}? " if close else "")
        + (f"there are {', '.join(there[:_SHOWN])}" if there else "")
    )


def _chosen(reading: Reading, met: _Met, key: Sequence[str], latest: bool) -> Iterator[ItemRow]:
    if latest:
        return _last(reading, met, key)
    return _once(_rows(reading, met), key) if key else _rows(reading, met)


def _rows(reading: Reading, met: _Met) -> Iterator[ItemRow]:
    """The rows that somebody takes, with their kinds, as far as they say it."""
    kinds, asked = reading.kinds, reading.asked
    for source in reading.sources:
        for kind, row in source.rows():
            kind = kind or kind_in(row) or source.place.item
            if asked and not kind:
                _allow_unsaid(reading, source)
                met.unsaid[source.place.target] = None
            met.kinds.add(kind)
            if kinds is None or kind in kinds:
                yield kind, row


def _allow_unsaid(reading: Reading, source: RowSource) -> None:
    """Raises UsageError, unless the file has only what other outputs did not take, and nobody asks for one kind."""
    asked = next((taker.asked for taker in reading.takers if taker.kind), "")
    if asked or not source.place.is_rest:
        raise UsageError(
            f"{asked or reading.asked}: the rows in {source.place.target} do not say which kind of item they are; crawl"
            " with row_meta = true, or with an output for each kind (-o ITEM=FILE)"
        )


def _once(rows: Iterator[ItemRow], key: Sequence[str]) -> Iterator[ItemRow]:
    """The first row of each key; rows without these fields are all kept."""
    met: set[bytes] = set()
    for kind, row in rows:
        if (mark := _mark(kind, row, key)) is not None:
            if mark in met:
                continue
            met.add(mark)
        yield kind, row


def _last(reading: Reading, met: _Met, key: Sequence[str]) -> Iterator[ItemRow]:
    """The last row of each key, in their order. They are read twice, so that few bytes a row are in memory."""
    places: dict[bytes, int] = {}
    for place, (kind, row) in enumerate(_rows(reading, met)):
        if (mark := _mark(kind, row, key)) is not None:
            places[mark] = place
    for place, (kind, row) in enumerate(_rows(reading, met)):
        mark = _mark(kind, row, key)
        if mark is None or places.get(mark) == place:
            yield kind, row


def _mark(kind: str, row: Any, key: Sequence[str]) -> bytes | None:
    """A hash of the key; None: the row does not have these fields."""
    values = [row.get(name) for name in key] if isinstance(row, dict) else []
    if all(value is None for value in values):
        return None
    return blake2b(msgspec.json.encode([kind, values]), digest_size=16).digest()
