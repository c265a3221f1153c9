"""Writes the rows of a job into files of other formats, without crawling."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from shoal.errors import SinkError, UsageError
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.inspect.job import unknown_job
from shoal.inspect.sources import RowSource, Sources, given_sources, kind_in, sources_of
from shoal.jobs.note import note_of
from shoal.model import CHANGES
from shoal.model.counts import VISITS
from shoal.settings import Settings
from shoal.sink import lines_of
from shoal.sink.exporting import Exporter
from shoal.sink.outputs import Place, read_output
from shoal.sink.reading import ItemRow

if TYPE_CHECKING:
    from shoal.sink.postgres.reading import PostgresSource

_STEP = 1_000  # rows between two signs of progress


async def find_sources(frontier: Frontier, name: str, files: Sequence[str], item: str) -> tuple[Sources, int]:
    """The files to read, and how many rows the job has."""
    job = await frontier.job(name)
    if job is None:
        raise await unknown_job(frontier, name)
    if files:
        return given_sources(files, await frontier.journals(name)), job.counters.items
    found = await sources_of(frontier, job, item)
    places = read_output(lines_of(note_of(job.spec).output) or None, stored=True)
    places = tuple(place for place in places if place.item != CHANGES or item == CHANGES)
    if len(places) == 1 and places[0].kind == "database" and not places[0].item:
        # Rows with the same key are one row there: how many there must be is not known.
        return Sources((_database(places[0], job),)), 0
    if VISITS in job.counts and any(one.place.format in ("sqlite", "duckdb") for one in found.files):
        return found, 0  # newer versions have replaced rows
    return found, job.counters.items


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
        taken = mine & _files(read_output(lines_of(note_of(job.spec).output) or None, stored=True))
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


def write_rows(
    sources: Sequence[RowSource],
    places: Sequence[Place],
    settings: Settings,
    *,
    item: str = "",
    key: Sequence[str] = (),
    latest: bool = False,
    replace: bool = False,
    least: int = 0,
    tell: Callable[[int], object] = lambda _: None,
) -> dict[str, int]:
    """Returns the rows of each file. `latest`: of rows with the same key the last one, and not the first. `least`: how
    many rows there must be. `tell` is called now and then with the number of rows that were read."""
    exporter = Exporter(places, settings, replace=replace)
    try:
        rows: Iterator[ItemRow] = (row for source in sources for row in _rows(source, item))
        if latest:
            rows = _last(sources, item, key)
        elif key:
            rows = _once(rows, key)
        number = 0
        for number, (kind, row) in enumerate(rows, 1):
            exporter.add(kind, row)
            if number % _STEP == 0:
                tell(number)
        if number < least:
            names = ", ".join(source.place.target for source in sources) or "no file here"
            raise SinkError(
                f"only {number:,} of {least:,} rows are in {names}: nothing is exported; was it changed?"
            )
        return exporter.finish()
    finally:
        exporter.discard()


def _rows(source: RowSource, item: str) -> Iterator[ItemRow]:
    """The rows with their kinds, as far as they say it."""
    for kind, row in source.rows():
        kind = kind or kind_in(row)
        if item and not kind:
            raise UsageError(
                f"--item {item}: the rows in {source.place.target} do not say which kind of item they are; crawl with"
                " row_meta = true, or with an output for each kind (-o ITEM=FILE)"
            )
        if item in ("", kind):
            yield kind, row


def _once(rows: Iterator[ItemRow], key: Sequence[str]) -> Iterator[ItemRow]:
    """The first row of each key; rows without these fields are all kept."""
    met: set[bytes] = set()
    for kind, row in rows:
        if (mark := _mark(kind, row, key)) is not None:
            if mark in met:
                continue
            met.add(mark)
        yield kind, row


def _last(sources: Sequence[RowSource], item: str, key: Sequence[str]) -> Iterator[ItemRow]:
    """The last row of each key, in their order. They are read twice, so that few bytes a row are in memory."""
    places: dict[bytes, int] = {}
    for place, (kind, row) in enumerate(row for source in sources for row in _rows(source, item)):
        if (mark := _mark(kind, row, key)) is not None:
            places[mark] = place
    for place, (kind, row) in enumerate(row for source in sources for row in _rows(source, item)):
        mark = _mark(kind, row, key)
        if mark is None or places.get(mark) == place:
            yield kind, row


def _mark(kind: str, row: Any, key: Sequence[str]) -> bytes | None:
    """A hash of the key; None: the row does not have these fields."""
    values = [row.get(name) for name in key] if isinstance(row, dict) else []
    if all(value is None for value in values):
        return None
    return blake2b(msgspec.json.encode([kind, values]), digest_size=16).digest()
