"""Sinks: where the rows of a job go.

Either the frontier writes the rows inside the transaction that settles their pages (`journal`: a file), or the sink
writes them just before it (`write`: a database). After a crash in between, the page is fetched and written again, so
writing must be idempotent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.errors import UsageError
from shoal.sink.outputs import (
    FORMATS,
    FileOptions,
    Output,
    Place,
    history_span,
    make_folders,
    not_on_a_fleet,
    plain_name,
    read_output,
    with_rest,
)

if TYPE_CHECKING:
    from shoal.archive.members import Compression
    from shoal.frontier.protocol import Journal
    from shoal.model import Settlement
    from shoal.settings import Settings
    from shoal.sink.outputs import Columns
    from shoal.sink.ownership import FileClaim

__all__ = [
    "Output",
    "Sink",
    "describe",
    "describe_noted",
    "is_database",
    "lines_of",
    "local_files",
    "make_journal",
    "open_sink",
    "output_key",
]


class Sink(Protocol):
    """Where the rows of a job go.

    Either the frontier writes the rows, in the transaction that settles their pages (`journal`), or the sink writes
    them just before it (`write`). After a crash in between, the page is fetched and written again; so writing the
    same rows twice must change nothing.
    """

    @property
    def journal(self) -> Journal | None:
        """What the frontier appends rows to; None: the sink writes them."""
        ...

    @property
    def writes_first(self) -> bool:
        """Whether `write` has something to do. Always, if there is no journal."""
        ...

    async def open(self, asked: FileClaim | None = None) -> None:
        """Checks that rows can be written; raises SinkError if not. `asked`: for which job."""
        ...

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        """Makes the rows of these settlements durable. Tries again while the database is away. Returns what is to be
        settled: the same, but without rows that were refused: their items are rejected, or their pages dead letters."""
        ...

    async def close(self) -> None:
        """Called once, at the end of the process."""
        ...


def open_sink(
    output: Output,
    *,
    job: str,
    local: bool = True,
    settings: Settings | None = None,
    columns: Columns | None = None,
) -> Sink:
    """The sink for `output`: None is standard output. The caller opens it. Not `local`: the store is shared with other
    machines, where the same path is another file. `columns`: the schemas of items, as far as there are some."""
    from shoal.sink.file_sink import FileSink, SeveralSinks

    places = read_output(output)
    keep = history_span(settings) if settings is not None else None
    databases = [(place, _database(place.target, job, keep)) for place in places if place.kind == "database"]
    if len(places) == len(databases) == 1 and not places[0].item:
        return databases[0][1]
    journal = make_journal(output, job=job, local=local, settings=settings, columns=columns)
    if not databases:
        assert journal is not None
        return FileSink(journal)
    return SeveralSinks(databases, journal)


def _database(address: str, job: str, history_keep: float | None = None) -> Sink:
    try:
        from shoal.sink.postgres.sink import PostgresSink
    except ModuleNotFoundError as error:
        raise UsageError(f"PostgreSQL needs {error.name}: pip install 'shoal[postgres]'") from None
    return PostgresSink(address, job=job, history_keep=history_keep)


def make_journal(
    output: Output,
    *,
    job: str,
    local: bool = True,
    settings: Settings | None = None,
    columns: Columns | None = None,
    memory: Journal | None = None,
    log: str = "",
) -> Journal | None:
    """The journal of all that is not a database; None if there is nothing else. `memory`: instead of standard
    output. `log`: the name of the log of several outputs, if not the job's."""
    from shoal.settings import Settings as Defaults
    from shoal.sink.jsonl import StdoutJournal
    from shoal.sink.ownership import identity_of
    from shoal.sink.row_meta import meta_columns
    from shoal.sink.text.text_outputs import open_text_stream

    places = read_output(output)
    if not places:
        return StdoutJournal()

    options = settings or Defaults()
    # Schemas do not know the fields that say where a row is from.
    added = meta_columns(options, archive=bool(options.archive))
    schemas = {name: {**types, **added} for name, types in (columns or {}).items()}

    def make(place: Place, writer: str = "") -> Journal:
        fields = {name: types for name, types in schemas.items() if place.takes(name)}
        if place.kind == "stdout":
            return memory or open_text_stream(place.format, place.compression, fields, options)
        if place.kind == "objects":
            from shoal.sink.objects.object_outputs import make_objects

            return make_objects(place, job=job, local=local, columns=fields, settings=options, writer=writer)
        if place.kind == "archive":
            return _archive(place, job, options, local)
        key = os.path.abspath(place.path) if local else identity_of(place.path)
        return FORMATS[place.format].make(
            FileOptions(place.path, key, place.format, place.compression, fields, options)
        )

    others = [place for place in with_rest(places, job) if place.kind != "database"]
    if not others:
        return None
    make_folders(others)
    if len(others) == len(places) == 1 and not others[0].is_template:
        return make(others[0])
    from shoal.sink.journals import Several

    if not local and all(place.kind == "objects" for place in others):
        from shoal.sink.objects.object_several import SeveralObjects

        return SeveralObjects(others, job, make)
    folder = next((place.folder for place in others if place.is_here), Path())
    path = folder / f".{plain_name(log or job)}.commits"
    key = os.path.abspath(path) if local else identity_of(path)
    # The processes of a folder write in turn: they are one writer.
    writer = blake2b(key.encode(errors="surrogateescape"), digest_size=4).hexdigest()
    several = Several(path, key, others, partial(make, writer=writer))
    several.archive = next((_archive_folder(place, job) for place in others if place.kind == "archive"), None)
    several.remote = not local and any(place.kind == "objects" for place in others)
    return several


def _archive(place: Place, job: str, settings: Settings, local: bool) -> Journal:
    compression: Compression = "zstd" if place.compression == "zst" else "gzip"
    limit = settings.archive_file_size
    if place.is_here:
        from shoal.sink.warc_files import ArchiveJournal

        return ArchiveJournal(place.path, job, compression=compression, limit=limit)
    if not local:
        raise not_on_a_fleet(place)
    from shoal.sink.objects.object_archive import ObjectArchive
    from shoal.sink.objects.object_store import ObjectStore

    store = ObjectStore(place.target, "--archive")
    return ObjectArchive(store, job, compression=compression, limit=limit)


def _archive_folder(place: Place, job: str) -> Path:
    """Where its files are written."""
    if place.is_here:
        return place.path
    from shoal.sink.objects.object_archive import spool_folder

    return spool_folder(place.target.rstrip("/"), job)


def is_database(output: Output) -> bool:
    """Whether all rows go to databases, and none to a file."""
    places = read_output(output)
    return bool(places) and all(place.kind == "database" for place in places)


def local_files(output: Output) -> list[Path]:
    """The files that are known before the first row comes."""
    return [place.path for place in read_output(output) if place.kind == "file" and not place.is_template]


def describe(output: Output) -> str:
    """The output as it may be shown: without user and password."""
    places = [place for place in read_output(output, stored=True) if place.kind != "archive"]
    return ", ".join(map(_described, places)) or "stdout"


def _described(place: Place) -> str:
    if place.kind == "stdout":
        return "stdout"
    if place.kind != "database":
        return place.text
    from shoal.sink.postgres.address import read_address

    return (f"{place.item}=" if place.item else "") + read_address(place.target).shown


def describe_noted(note: bytes) -> str:
    """The output that a job notes."""
    return describe(lines_of(note) or None)


def lines_of(note: bytes) -> list[str]:
    return [line for line in note.decode(errors="surrogateescape").split("\n") if line]


def output_key(output: Output, *, here: bool = True) -> bytes:
    """What a job stores about its output. For a database, the address without its password: processes have that in
    their environment. Not `here`: on other machines a path means what it means there."""
    lines = [line for place in read_output(output, stored=True) if (line := _stored(place, here))]
    return "\n".join(lines).encode(errors="surrogateescape")


def _stored(place: Place, here: bool) -> str:
    from msgspec.structs import replace

    if place.kind == "stdout":
        return "" if place.text == "-" else place.text
    if place.kind == "database":
        from shoal.sink.postgres.address import read_address

        return replace(place, target=read_address(place.target).key).text
    if place.is_here and here:
        return replace(place, target=os.path.abspath(place.target)).text
    return place.text
