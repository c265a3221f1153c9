"""What `-o` names: files by their suffix, databases, object stores and standard output.

rows.csv                     the rows as CSV
products=p.parquet           only items of that kind
{item}-{date}.jsonl.gz       a file for each kind of item
rows.dat:csv, -:csv          a format that the name does not tell
postgresql://HOST/DATABASE   tables of a database
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import SinkError, UsageError
from shoal.model import ARCHIVE, CHANGES
from shoal.text.humanize import read_span

if TYPE_CHECKING:
    from shoal.model import Row
    from shoal.settings import Settings
    from shoal.sink.journals import LocalJournal

Output: TypeAlias = str | Path | Sequence[str | Path] | None
# For each kind of item, the fields of its schema and their types.
Columns: TypeAlias = Mapping[str, Mapping[str, Any]]
Compression: TypeAlias = Literal["", "gz", "zst"]

COMPRESSIONS: tuple[Compression, ...] = ("gz", "zst")
SCHEMES = ("s3", "gs", "az")  # object stores

WARC = "warc"  # the format of the archive, which is named by a setting and not by -o

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_POSTGRES = re.compile(r"postgres(ql)?:(//|$)", re.IGNORECASE)
_ITEM = re.compile(r"([A-Za-z_][\w.-]*)=(?=.)")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class FileOptions(Struct, frozen=True):
    """What a journal of a file is made from."""

    path: Path
    key: str  # by which the store knows it
    format: str
    compression: Compression
    columns: Columns
    settings: Settings
    shown: str = ""  # its name in messages, if that is not the path


class Format(NamedTuple):
    suffixes: tuple[str, ...]  # the first is the usual one
    make: Callable[[FileOptions], LocalJournal]
    compressible: bool = False


def _text(options: FileOptions) -> LocalJournal:
    from shoal.sink.text.text_outputs import open_text_file

    return open_text_file(options)


def _parquet(options: FileOptions) -> LocalJournal:
    from shoal.sink.parquet.parquet_file import ParquetFile

    return ParquetFile(options.path, options.columns, options.key, shown=options.shown)


def _sqlite(options: FileOptions) -> LocalJournal:
    from shoal.sink.databases.sqlite_file import SqliteFile

    keep = history_span(options.settings)
    return SqliteFile(options.path, options.key, options.columns, history_keep=keep)


def _duckdb(options: FileOptions) -> LocalJournal:
    from shoal.sink.databases.duckdb_file import DuckdbFile

    return DuckdbFile(options.path, options.key, options.columns)


FORMATS: Mapping[str, Format] = {
    "jsonl": Format((".jsonl", ".ndjson", ".jl"), _text, compressible=True),
    "json": Format((".json",), _text, compressible=True),
    "csv": Format((".csv",), _text, compressible=True),
    "tsv": Format((".tsv", ".tab"), _text, compressible=True),
    "xml": Format((".xml",), _text, compressible=True),
    "parquet": Format((".parquet",), _parquet),
    "sqlite": Format((".sqlite", ".sqlite3", ".db"), _sqlite),
    "duckdb": Format((".duckdb",), _duckdb),
}


def history_span(settings: Settings) -> float | None:
    """How many seconds databases keep old versions of rows; None: for ever."""
    if not settings.history_keep:
        return None
    if not (seconds := read_span(settings.history_keep)):
        raise UsageError(f"history_keep = {settings.history_keep!r} is not a time: write 90d, 12h or 26w")
    return seconds


class Place(Struct, frozen=True):
    """One output."""

    kind: Literal["file", "stdout", "database", "objects", "archive"]
    target: str  # a path, an address, or -
    format: str = "jsonl"
    compression: Compression = ""
    item: str = ""  # only items of that kind; "": all
    is_rest: bool = False  # … or those that no other place takes
    is_told: bool = False  # its name does not tell the format

    @property
    def path(self) -> Path:
        return Path(self.target)

    @property
    def folder(self) -> Path:
        """The one that all its files are in, or in folders below it."""
        if self.kind == "archive":
            return self.path
        return Path(os.path.dirname(self.target.partition("{item}")[0]))

    @property
    def is_template(self) -> bool:
        return "{item}" in self.target

    @property
    def is_here(self) -> bool:
        """Whether its target is a path on this machine."""
        return self.kind == "file" or (self.kind == "archive" and not _SCHEME.match(self.target))

    def takes(self, table: str) -> bool:
        return self.item == table or not (self.item or table in (ARCHIVE, CHANGES))

    @property
    def tells_kinds(self) -> bool:
        """Whether the kind of each of its rows can be read from it."""
        return self.is_template or self.format in ("sqlite", "duckdb", "parquet")

    @property
    def keeps_times(self) -> bool:
        """Whether it knows when each row was last checked."""
        return self.format in ("sqlite", "postgresql")

    def for_item(self, table: str) -> Place:
        return replace(self, target=self.target.replace("{item}", plain_name(table)))

    @property
    def text(self) -> str:
        """As it is given and stored."""
        before = f"{self.item}=" if self.item else ""
        after = f":{self.format}" if self.is_told else ""
        if after and self.compression:
            after += f".{self.compression}"
        return before + self.target + after


def read_output(output: Output, *, stored: bool = False) -> tuple[Place, ...]:
    """The places that an output names. `stored`: it was written down by an earlier version, which wrote JSON Lines
    whatever the name of the file."""
    if output is None:
        return ()
    given = [output] if isinstance(output, str | Path) else output
    return tuple(_read(os.fspath(one), stored) for one in given)


class Wanted(Struct, frozen=True):
    """What an output takes besides items, of pages that are visited again."""

    changes: bool = False  # rows that say what has changed
    touches: bool = False  # rows that are unchanged: a database notes when they were checked


NOTHING_MORE = Wanted()


def wanted_by(output: Output) -> Wanted:
    places = read_output(output, stored=True)
    return Wanted(any(place.item == CHANGES for place in places), any(place.keeps_times for place in places))


def _read(text: str, stored: bool) -> Place:
    if "\n" in text or "\0" in text:
        raise UsageError(f"-o {text!r}: a name without line breaks, please")
    item = found[1] if (found := _ITEM.match(text)) else ""
    target = text[len(item) + 1 :] if item else text
    if _POSTGRES.match(target):
        return Place("database", target, "postgresql", item=item)
    target, format, compression = _told_format(target)
    is_told = bool(format)
    if item == ARCHIVE or format == WARC:
        if (item, format) != (ARCHIVE, WARC):
            raise UsageError(f"-o {text}: an archive is no place for rows: use --archive FOLDER")
        return Place("archive", target, format, compression, item, is_told=True)
    if target == "-":
        if is_told and not FORMATS[format].compressible:  # only text is
            raise UsageError(f"-o {text}: {format} cannot be printed; name a file")
        return Place("stdout", "-", format or "jsonl", compression, item, is_told=is_told)
    scheme = _SCHEME.match(target)
    if scheme is not None and scheme[1] not in SCHEMES:
        raise UsageError(f"no results of kind {scheme[1]!r}: {_possible()}")
    for name in _PLACEHOLDER.findall(target):
        if name not in ("job", "item", "date"):
            raise UsageError(f"-o {text}: {{{name}}} is not known; there are {{job}}, {{item}} and {{date}}")
    if not is_told:
        path = urlsplit(target).path if scheme else target
        if (known := _format_of(path)) is not None:
            format, compression = known
        elif stored:
            format = "jsonl"
        else:
            suffix = _suffix(path)
            if not scheme and os.path.isdir(path):
                raise UsageError(f"{path} is a directory: name a file")
            what = f"no format has the suffix {suffix!r}" if suffix else "it has no suffix"
            raise UsageError(f"-o {text}: {what}: {_possible()}")
    if compression and not FORMATS[format].compressible:
        raise UsageError(f"-o {text}: {format} cannot be written as .{compression}: leave that out")
    kind: Literal["file", "objects"] = "objects" if scheme else "file"
    return Place(kind, target, format, compression, item, is_told=is_told)


def _told_format(target: str) -> tuple[str, str, Compression]:
    """rows.dat:csv.gz is written as CSV, by gzip."""
    before, colon, last = target.rpartition(":")
    name, _, end = last.partition(".")
    if not colon or not before or name not in (*FORMATS, WARC) or end not in ("", *COMPRESSIONS):
        return target, "", ""
    compression: Compression = "gz" if end == "gz" else "zst" if end == "zst" else ""
    return before, name, compression


def _format_of(path: str) -> tuple[str, Compression] | None:
    """By the suffixes of a file's name."""
    name = path.lower()
    compression: Compression = ""
    for one in COMPRESSIONS:
        if name.endswith(f".{one}"):
            name, compression = name.removesuffix(f".{one}"), one
    for format, about in FORMATS.items():
        if name.endswith(about.suffixes):
            return format, compression
    return None


def _suffix(path: str) -> str:
    return "".join(Path(path).suffixes[-2:])


def known_suffixes() -> list[str]:
    return [suffix for format in FORMATS.values() for suffix in format.suffixes]


def _possible() -> str:
    compressible = [format.suffixes[0] for format in FORMATS.values() if format.compressible]
    more = f" ({', '.join(compressible)} also as .gz and .zst)" if compressible else ""
    return (
        f"name a file such as rows.jsonl ({' '.join(known_suffixes())}){more}, FILE:FORMAT, - for standard output, "
        f"postgresql://HOST/DATABASE, or {' '.join(f'{scheme}://' for scheme in SCHEMES)}"
    )


def split_suffixes(path: str) -> tuple[str, str]:
    """books.csv.gz: books, .csv.gz"""
    known = [f"{suffix}{end}" for suffix in known_suffixes() for end in (".zst", ".gz", "")]
    for suffix in known:
        if path.lower().endswith(suffix):
            return path[: -len(suffix)], path[-len(suffix) :]
    return os.path.splitext(path)


def expand(output: Output, job: str, date: str | None = None) -> tuple[str, ...]:
    """The output as texts, with {job} and, if it is known, {date} filled in. If each place is for one kind of items,
    the rest goes to a file of its own."""
    places = read_output(output)
    texts = []
    for place in places:
        target = place.target
        if place.kind != "database":
            target = target.replace("{job}", plain_name(job))
            target = target.replace("{date}", date) if date is not None else target
        texts.append(replace(place, target=target).text)
    _check_apart(read_output(texts))
    return tuple(texts)


def _check_apart(places: Sequence[Place]) -> None:
    """Refuses places that write to the same file: each has a position of its own."""
    seen: dict[str, Place] = {}
    for place in places:
        target = os.path.realpath(place.target) if place.kind == "file" else place.target
        # A database has a table for each kind of item.
        target = place.text if place.kind == "database" else target
        if (other := seen.setdefault(target, place)) is not place:
            both = f"-o {other.text} and -o {place.text} are the same place"
            raise UsageError(
                f"{both}: name another, or write all kinds of items there with -o {place.target}"
            )


def with_archive(output: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """The output with the archive that the settings name."""
    folder = settings.archive
    if not folder:
        return output
    scheme = _SCHEME.match(folder)
    if scheme is not None and scheme[1] not in SCHEMES:
        possible = " ".join(f"{scheme}://" for scheme in SCHEMES)
        raise UsageError(f"--archive {folder}: name a folder, or an address of {possible}")
    if scheme is not None and settings.cache:
        raise UsageError(
            f"--cache {folder}: a cache is a folder on this machine; --archive takes such an address"
        )
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"--archive {folder}: that is a file; name a folder")
    compression: Compression = "zst" if settings.archive_compression == "zstd" else "gz"
    place = Place("archive", folder, WARC, compression, ARCHIVE, is_told=True)
    return (*output, place.text)


def not_on_a_fleet(place: Place) -> UsageError:
    return UsageError(
        f"--archive {place.target}: a fleet archives in folders on its machines, because files for an object store grow"
        " on a disk that must stay: name a folder, and copy its files afterwards"
    )


def with_rest(places: Sequence[Place], job: str) -> tuple[Place, ...]:
    """If every place is for items of one kind, those of other kinds go to a file of their own: none is lost."""
    rows = [place for place in places if place.kind != "archive"]
    if not rows or not all(place.item for place in rows):
        return tuple(places)
    name, beside = f"{plain_name(job)}.jsonl", places[0]
    if any(os.path.basename(place.target) == name for place in places):
        name = f"{plain_name(job)}-other.jsonl"
    if beside.kind == "objects":
        folder = beside.target.rpartition("/")[0]
        return (*places, Place("objects", f"{folder}/{name}", is_rest=True))
    folder = str(beside.path.parent) if beside.kind == "file" else ""
    return (*places, Place("file", os.path.join(folder, name), is_rest=True))


def make_folders(places: Sequence[Place]) -> None:
    """Makes the folders of files, such as those of `{job}/rows.csv`."""
    for place in places:
        if place.is_here:
            try:
                place.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SinkError(
                    f"cannot make the folder of {place.path}: {error.strerror or error}"
                ) from None


def plain_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".") or "rows"


def by_place(places: Sequence[Place], rows: Sequence[Row]) -> dict[Place, list[Row]]:
    """Which rows each place takes."""
    taken: dict[Place, list[Row]] = {}
    for row in rows:
        for place in _takers(places, row):
            one = place.for_item(row.table) if place.is_template else place
            its_rows = taken.setdefault(one, [])
            if not its_rows or its_rows[-1] is not row:  # {item} may be the name of another output
                its_rows.append(row)
    return taken


def _takers(places: Sequence[Place], row: Row) -> list[Place]:
    named = [place for place in places if not place.is_rest and place.takes(row.table)]
    found = named or [place for place in places if place.is_rest and row.table != CHANGES]
    return [place for place in found if place.keeps_times] if row.touch else found
