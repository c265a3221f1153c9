"""Parts of a Parquet file, and the file that is made of them.

A part is a Parquet file with the rows of one segment, in the folder of the spool, and named like the segment. `finish`
writes the one file that users expect: the rows of the last such file, and of the parts since. The file remembers how
many of its rows are before each segment that is still there. When rows of such a segment are taken back, because the
store went back, the next file takes only the rows before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from shoal.errors import SinkError
from shoal.events import event
from shoal.model import Row
from shoal.sink.durable import sync_folder
from shoal.sink.ownership import folder_of
from shoal.sink.parquet.arrow_types import NULL, TEXT, Type, stored
from shoal.sink.parquet.parquet_tables import (
    ITEM,
    LossError,
    Table,
    TableMaker,
    fitted,
    item_of,
    merged_columns,
    row_groups,
)
from shoal.sink.spool import Part
from shoal.sink.spool_folder import SpoolFolder

_NOTE = b"shoal"  # the key of our metadata
_PART = "part.tmp"  # a part that is being written
_READ = 1 << 20  # bytes
_ROWS = 1_000  # that are made to items at once
_PATIENCE = 60.0  # seconds that a reader waits for a part that is being written
_SHOWN = 60  # characters of a type
SAID = "_item"  # the field in which a row tells its kind of item, if it does


class _Place(Struct, frozen=True):
    """Where a segment begins."""

    stem: str
    start: int
    rows: int  # before it, in the file


class _Note(Struct, frozen=True):
    """What a file remembers."""

    end: int  # position of its last row
    items: list[str]  # the kinds of its items
    start: int = 0  # of a part
    item_column: str = ""  # the column that tells the kind of an item; "": there is one kind only, or …
    is_said: bool = False  # … all rows tell it themselves, in `_item` (the setting row_meta)
    places: list[_Place] = []
    digest: str = ""  # of the rows of the last segment


class _Source(Struct, frozen=True):
    """A Parquet file that rows are taken from."""

    path: Path
    note: _Note
    schema: Any
    rows: int
    stem: str = ""

    def tables(self) -> Iterator[Table]:
        """Its rows, a row group at a time, with a column for the kind of item."""
        left = self.rows
        with pq.ParquetFile(self.path, memory_map=False) as file:
            for number in range(file.num_row_groups):
                if left <= 0:
                    return
                table = file.read_row_group(number, use_threads=False).slice(0, left)
                left -= len(table)
                yield self._with_item(table)

    def items(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Its rows, each with its kind."""
        for table in self.tables():
            kinds = chain.from_iterable(chunk.to_pylist() for chunk in table.column(ITEM).chunks)
            for batch in table.drop_columns([ITEM]).to_batches(max_chunksize=_ROWS):
                yield from zip(islice(kinds, len(batch)), batch.to_pylist(), strict=True)

    def _with_item(self, table: Table) -> Table:
        if ITEM in table.column_names:
            return table
        if self.note.is_said:
            return table.append_column(ITEM, table.column(SAID).cast(TEXT))
        if column := self.note.item_column:
            return table.rename_columns([ITEM if name == column else name for name in table.column_names])
        return table.append_column(ITEM, pa.array([self.note.items[0]] * len(table), TEXT))


class ParquetParts:
    """The shipper of a spool for a Parquet file. `shown`: its name in the log. `told`: the columns of which the log has
    said that they are mixed."""

    def __init__(
        self, path: Path, columns: Mapping[str, Mapping[str, object]], shown: str, told: set[str]
    ) -> None:
        self._path = path
        self._folder = folder_of(path)
        self._shown = shown
        self._told = told
        self._maker = TableMaker(columns, self._clash)

    def _clash(self, name: str, one: Type, other: Type) -> None:
        """A column has values of two types that have nothing in common."""
        if name not in self._told and len(self._told) < 100:
            self._told.add(name)
            event("column_mixed", sink=self._shown, column=name, one=_shown(one), other=_shown(other))

    # -- parts

    def ship(self, part: Part, rows: Iterator[Row]) -> None:
        tables = list(self._maker.tables(rows))
        types = merged_columns([table.schema for table in tables], self._clash)
        items = sorted({kind for table in tables for kind in table.column(ITEM).unique().to_pylist()})
        note = _Note(part.end, items, part.start, is_said=all(map(_is_said, tables)))

        def groups(types: Mapping[str, Type]) -> Iterator[Table]:
            return row_groups(piece for table in tables for piece in fitted(table, types))

        _write(self._part(part.stem), self._folder / _PART, groups, types, note)

    def unship(self, part: Part) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._part(part.stem))

    def _part(self, stem: str) -> Path:
        return self._folder / f"{stem}.parquet"

    # -- the file

    def finish(self, position: int, parts: Sequence[Part]) -> None:
        earlier = self._earlier()
        files = self._parts()
        if earlier is None or not self._is_current(earlier.note, position, parts):
            sources, places = self._chain(earlier, files, position, parts)
            self._write_file(sources, places, position, parts)
        # Also what a crash left: the file is whole and durable.
        for path in (*(file.path for file in files), self._folder / _PART, _new(self._path.resolve())):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def read(self, folder: SpoolFolder, committed: int) -> Iterator[tuple[str, dict[str, object]]]:
        """The rows up to a position, in order, each with its kind. Segments are read rather than parts: they have what
        was written."""
        with folder.shipping(_PATIENCE) as free:
            if not free:
                raise SinkError(f"{self._path}: another process has been writing it for a while; try again")
            segments = {segment.start: segment for segment in folder.segments()}
            earlier, files = self._earlier(), {file.note.start: file for file in self._parts()}
            known = {segment.stem for segment in segments.values()} | {file.stem for file in files.values()}
            places = [place for place in earlier.note.places if place.stem in known] if earlier else []
            begin = max(places, key=lambda place: place.start, default=_Place("", 0, 0))
            if earlier is not None:
                yield from msgspec.structs.replace(earlier, rows=begin.rows).items()
            position = begin.start
            while position < committed:
                if (segment := segments.get(position)) is not None:
                    position = min([start for start in segments if start > position], default=committed)
                    rows = folder.rows(segment, min(position, committed))
                    yield from ((row.table, item_of(row)) for row in rows)
                elif (file := files.get(position)) is not None:
                    position = file.note.end
                    yield from file.items()
                else:
                    raise self._broken()

    def _earlier(self) -> _Source | None:
        """The file that this job wrote before."""
        try:
            if not self._path.stat().st_size:
                return None
        except FileNotFoundError:
            return None
        source = _open(self._path)
        if source is None:
            raise SinkError(
                f"{self._path} is not from this job, and holds something else: move it away, and run the same command"
                " again; nothing is lost"
            )
        return source

    def _parts(self) -> list[_Source]:
        found = [_open(path, path.stem) for path in self._folder.glob("*.parquet")]
        if None in found:
            raise self._broken()
        return sorted((one for one in found if one is not None), key=lambda one: one.note.start)

    def _is_current(self, note: _Note, position: int, parts: Sequence[Part]) -> bool:
        """Whether the file holds all rows up to the position. It may hold more, if another process has seen later
        commits than this one."""
        if not parts or not note.places or note.places[-1].stem != parts[-1].stem or note.end < position:
            return False
        return note.digest == self._digest(parts[-1], note.end)

    def _digest(self, part: Part, end: int) -> str:
        """Of the rows of a segment up to a position; "": it has less."""
        digest, left = blake2b(digest_size=16), end - part.start
        with next(self._folder.glob(f"{part.stem}.[js]*")).open("rb") as file:
            while left and (data := file.read(min(left, _READ))):
                digest.update(data)
                left -= len(data)
        return digest.hexdigest() if not left else ""

    def _chain(
        self, earlier: _Source | None, files: list[_Source], position: int, parts: Sequence[Part]
    ) -> tuple[list[_Source], list[_Place]]:
        """Where all rows are, from the first one to the position; and how many are before the segments still there."""
        known = {file.stem for file in files} | {part.stem for part in parts}
        places = (
            [place for place in earlier.note.places if place.stem in known] if earlier is not None else []
        )
        if earlier is not None and not places:
            raise self._broken()
        begin = max(places, key=lambda place: place.start, default=_Place("", 0, 0))
        sources = (
            [msgspec.structs.replace(earlier, rows=begin.rows)] if earlier is not None and begin.rows else []
        )
        at, rows = begin.start, begin.rows
        for file in files:
            if file.note.start < begin.start:
                continue  # left by a crash: the file has its rows
            if file.note.start != at:
                raise self._broken()
            places.append(_Place(file.stem, at, rows))
            sources.append(file)
            at, rows = file.note.end, rows + file.rows
        if at != position:
            raise self._broken()
        if parts and parts[-1].start == position:
            places.append(_Place(parts[-1].stem, position, rows))
        kept = {part.stem for part in parts}
        unique = {place.stem: place for place in places if place.stem in kept}
        return sources, sorted(unique.values(), key=lambda place: place.start)

    def _broken(self) -> SinkError:
        return SinkError(
            f"{self._path}, or a file in {self._folder}, was changed or removed: rows that this job has written are"
            " missing; restore it, or start again with --fresh"
        )

    def _write_file(
        self, sources: list[_Source], places: list[_Place], position: int, parts: Sequence[Part]
    ) -> None:
        schemas = [source.schema for source in sources]
        if not sources:
            if (empty := self._maker.empty()) is None:
                # A table without columns is no file that can be read. There is one if the store went back.
                self._path.unlink(missing_ok=True)
                return
            schemas = [empty.schema]
        declared = self._maker.declared_types()
        types = merged_columns(schemas, self._clash)
        types = {name: declared.get(name, NULL) if type_ == NULL else type_ for name, type_ in types.items()}
        items = sorted({item for source in sources for item in source.note.items})
        # A table needs a column: rows without any field would be lost.
        is_said = bool(sources) and all(source.note.is_said for source in sources)
        is_needed = not is_said and (len(items) > 1 or list(types) == [ITEM])
        column = _item_column(types) if is_needed else ""
        digest = self._digest(parts[-1], position) if parts else ""
        note = _Note(position, items, item_column=column, is_said=is_said, places=places, digest=digest)

        def tables(types: Mapping[str, Type]) -> Iterator[Table]:
            for source in sources:
                for table in source.tables():
                    yield from fitted(table, types)

        target = self._path.resolve()
        _write(target, _new(target), tables, types, note, column)


def _new(target: Path) -> Path:
    """Where a file is written before it takes its place."""
    return target.with_name(f".{target.name}.new")


def _item_column(types: Mapping[str, Type]) -> str:
    """A name for the column with the kind of item that no field has."""
    name = SAID
    while name in types:
        name += "_"
    return name


def _is_said(table: Table) -> bool:
    """Whether all rows tell the kind of their item themselves."""
    if SAID not in table.column_names:
        return False
    return bool(table.column(SAID).to_pylist() == table.column(ITEM).to_pylist())


def _open(path: Path, stem: str = "") -> _Source | None:
    """A Parquet file of ours; None: it is something else."""
    try:
        with pq.ParquetFile(path) as file:
            note = msgspec.json.decode((file.metadata.metadata or {})[_NOTE], type=_Note)
            names = {note.item_column: ITEM} if note.item_column else {}
            fields = [field.with_name(names.get(field.name, field.name)) for field in file.schema_arrow]
            first = pa.field(ITEM, TEXT)  # also where all rows are of one kind, and need no such column
            others = [field for field in fields if field.name != ITEM]
            return _Source(path, note, pa.schema([first, *others]), file.metadata.num_rows, stem)
    except (pa.ArrowInvalid, KeyError, msgspec.DecodeError):
        return None


def _write(
    target: Path,
    temporary: Path,
    tables: Callable[[Mapping[str, Type]], Iterator[Table]],
    types: Mapping[str, Type],
    note: _Note,
    item_column: str = ITEM,
) -> None:
    """Writes a file, whole or not at all. `item_column`: what the column with the kind of item is called; "": it is
    left out."""
    while True:
        try:
            _write_tables(temporary, tables(types), types, note, item_column)
            break
        except LossError as error:  # known only now that all values have been seen
            types = {**types, error.name: TEXT}
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)  # the disk may be full
            raise
    os.replace(temporary, target)
    sync_folder(target.parent)


def _write_tables(
    path: Path, tables: Iterable[Table], types: Mapping[str, Type], note: _Note, item_column: str
) -> None:
    names = {name: item_column if name == ITEM else name for name in types if name != ITEM or item_column}
    schema = pa.schema([pa.field(new, stored(types[name])) for name, new in names.items()])
    schema = schema.with_metadata({_NOTE: msgspec.json.encode(note)})
    with path.open("wb") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for table in tables:
                named = table.select(list(names)).rename_columns(list(names.values()))
                writer.write_table(named, row_group_size=len(named))
                pa.default_memory_pool().release_unused()  # else the process grows by several row groups
        file.flush()
        os.fsync(file.fileno())


def _shown(type_: Type) -> str:
    """A type in a few words."""
    text = str(type_)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
