"""Reads rows from files of any format, by whomever they were written.

A file that a job writes is read by its journal, which knows how far it is committed. Here a file counts as complete.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec

from shoal.errors import SinkError, UsageError
from shoal.limits import ROW_BYTES
from shoal.sink.text.compression import COMPRESSIONS, Plain
from shoal.sink.text.formats.delimited import MORE

# The kind of item, "" if the file does not tell, and the row.
ItemRow: TypeAlias = tuple[str, Any]

_PIECE = 1 << 16  # bytes
_BATCH = 1_000  # rows that are read from a table at once
_PACKAGES = {"pyarrow": "parquet", "duckdb": "duckdb"}  # and the extra that installs them


def read_file(path: Path, format: str, compression: str = "") -> Iterator[ItemRow]:
    """All rows of a file."""
    with _complaining(path):
        if format in _TABLES:
            yield from _TABLES[format](path)
            return
        unpack = COMPRESSIONS[f".{compression}"]() if compression else Plain()
        with open(path, "rb") as file:
            for row in _TEXTS[format](unpack.reader(file)):
                yield "", row


@contextmanager
def _complaining(path: Path) -> Iterator[None]:
    """Readers raise errors of many kinds. All of them mean that the file is damaged, or of another format."""
    try:
        yield
    except (GeneratorExit, SinkError):
        raise
    except ModuleNotFoundError as error:
        extra = _PACKAGES.get((error.name or "").partition(".")[0], error.name)
        raise UsageError(f"to read {path}, install {error.name}: pip install 'shoal[{extra}]'") from None
    except OSError as error:
        raise SinkError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise SinkError(
            f"cannot read {path}: {error}; is it complete, and of the format that its name says?"
        ) from error


def _json_lines(text: BinaryIO) -> Iterator[Any]:
    for number, line in enumerate(text, 1):
        try:
            if line.strip():
                yield msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            if not line.endswith(b"\n"):
                return  # a copy that was made while it was written: the rest of the row is missing
            raise ValueError(f"line {number}: {error}") from None


def _json_array(text: BinaryIO) -> Iterator[Any]:
    """Ours have one row a line, and need little memory."""
    first = text.readline()
    if first.strip() == b"[":
        second = text.readline()
        try:
            if second.strip() != b"]":
                msgspec.json.decode(second.rstrip(b",\r\n"))
        except msgspec.DecodeError:
            first += second
        else:
            for line in chain([second], text):
                if line.strip() == b"]":
                    return
                yield msgspec.json.decode(line.rstrip(b",\r\n"))
            raise ValueError("the end is missing")
    value = msgspec.json.decode(first + text.read())
    yield from value if isinstance(value, list) else [value]


def _delimited(text: BinaryIO, delimiter: str) -> Iterator[Any]:
    csv.field_size_limit(ROW_BYTES)  # the usual limit is less than a long text
    lines = io.TextIOWrapper(text, "utf-8-sig", newline="")
    try:
        for row in csv.DictReader(lines, delimiter=delimiter, restkey="…", strict=True):
            found = {name: value for name, value in row.items() if value}  # a cell that is empty says nothing
            extra = found.pop(MORE, None)
            yield found | msgspec.json.decode(extra) if extra else found
    finally:
        lines.detach()  # it would close what others close


def _xml(text: BinaryIO) -> Iterator[Any]:
    from shoal.sink.text.formats.xml import Xml

    return Xml().read(text)


def _parquet(path: Path) -> Iterator[ItemRow]:
    pyarrow: Any = import_module("pyarrow.parquet")  # it has no types
    with pyarrow.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH):
            yield from (("", row) for row in batch.to_pylist())


def _sqlite(path: Path) -> Iterator[ItemRow]:
    import apsw

    from shoal.sink.databases.sqlite_tables import SqliteTables

    with closing(apsw.Connection(os.path.abspath(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        db.execute("BEGIN")
        tables = SqliteTables(db, {})
        if (position := tables.load()) is not None:
            yield from tables.read(position)
            return
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            if not str(name).startswith("sqlite_"):
                cursor = db.execute(f"SELECT * FROM {_quoted(str(name))}")
                names = [column[0] for column in cursor.description]
                yield from ((str(name), dict(zip(names, row, strict=True))) for row in cursor)


def _duckdb(path: Path) -> Iterator[ItemRow]:
    import duckdb

    from shoal.sink.databases.duckdb_tables import DuckdbTables

    with closing(duckdb.connect(str(path), read_only=True)) as db:
        tables = DuckdbTables(db, {})
        if (position := tables.load()) is not None:
            yield from tables.read(position)
            return
        for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            cursor = db.execute(f"SELECT * FROM {_quoted(name)}")
            names = [column[0] for column in cursor.description or ()]
            while found := cursor.fetchmany(_BATCH):
                yield from ((name, dict(zip(names, row, strict=True))) for row in found)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_TEXTS: Mapping[str, Callable[[BinaryIO], Iterator[Any]]] = {
    "jsonl": _json_lines,
    "json": _json_array,
    "csv": partial(_delimited, delimiter=","),
    "tsv": partial(_delimited, delimiter="\t"),
    "xml": _xml,
}
_TABLES: Mapping[str, Callable[[Path], Iterator[ItemRow]]] = {
    "parquet": _parquet,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}


def last_lines(path: Path, end: int, most: int) -> list[bytes]:
    """The last lines of the first `end` bytes of a file, the last one first."""
    found: list[bytes] = []
    rest, size = b"", _PIECE
    with open(path, "rb") as file:
        while end > 0 and len(found) < most:
            start = max(0, end - size)
            piece = os.pread(file.fileno(), end - start, start) + rest
            rest, *lines = piece.split(b"\n") if start else [b"", *piece.split(b"\n")]
            found += [line for line in reversed(lines) if line]
            end, size = start, 2 * size  # a line may be very long
    return found[:most]
