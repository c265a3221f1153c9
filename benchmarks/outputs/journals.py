"""The journal of an output that is a file, by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal.sink.compression import Gzip, Zstandard
from shoal.sink.delimited_files import DelimitedFile
from shoal.sink.formats.delimited import Delimited
from shoal.sink.formats.json_array import JsonArray
from shoal.sink.formats.jsonl import JsonLinesFormat
from shoal.sink.formats.xml import Xml
from shoal.sink.sqlite_file import SqliteFile
from shoal.sink.text_files import TextFile

_FORMATS: Mapping[str, Callable[[Path], Any]] = {
    "jsonl": lambda path: TextFile(path, JsonLinesFormat()),
    "jsonl.gz": lambda path: TextFile(path, JsonLinesFormat(), Gzip()),
    "jsonl.zst": lambda path: TextFile(path, JsonLinesFormat(), Zstandard()),
    "json": lambda path: TextFile(path, JsonArray()),
    "json.gz": lambda path: TextFile(path, JsonArray(), Gzip()),
    "csv": lambda path: DelimitedFile(path, Delimited()),
    "csv.gz": lambda path: DelimitedFile(path, Delimited(), Gzip()),
    "tsv.zst": lambda path: DelimitedFile(path, Delimited("\t"), Zstandard()),
    "xml": lambda path: TextFile(path, Xml()),
    "xml.zst": lambda path: TextFile(path, Xml(), Zstandard()),
    "sqlite": SqliteFile,
}
SUFFIXES = tuple(_FORMATS)


def open_journal(path: Path) -> Any:
    return _FORMATS[path.name.partition(".")[2]](path)
