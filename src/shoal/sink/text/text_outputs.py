"""Text formats by their names: as files, and on standard output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.sink.jsonl import JsonLines, StdoutJournal
from shoal.sink.text.compression import COMPRESSIONS, Compression, Plain
from shoal.sink.text.delimited_files import DelimitedFile
from shoal.sink.text.formats import Format
from shoal.sink.text.formats.delimited import Delimited, DelimitedStream
from shoal.sink.text.formats.json_array import JsonArray
from shoal.sink.text.formats.jsonl import JsonLinesFormat
from shoal.sink.text.text_files import TextFile

if TYPE_CHECKING:
    from shoal.settings import Settings
    from shoal.sink.outputs import Columns, FileOptions

_DELIMITERS = {"csv": ",", "tsv": "\t"}


def open_text_file(options: FileOptions) -> TextFile | DelimitedFile:
    if options.format == "jsonl" and not options.compression:
        return JsonLines(options.path, options.key)
    compression = _compression(options.compression)
    if options.format not in _DELIMITERS:
        return TextFile(options.path, _format(options.format), compression, options.key)
    types = {name: type for fields in options.columns.values() for name, type in fields.items()}
    format, given = _delimited(options.format, options.settings), _given(options.columns, options.settings)
    return DelimitedFile(
        options.path, format, compression, options.key, given=given, types=types, shown=options.shown
    )


def open_text_stream(format: str, compression: str, columns: Columns, settings: Settings) -> StdoutJournal:
    if format not in _DELIMITERS:
        return StdoutJournal(_format(format), _compression(compression))
    stream = DelimitedStream(_delimited(format, settings), _given(columns, settings))
    return StdoutJournal(stream, _compression(compression))


def _format(name: str) -> Format:
    if name == "xml":
        from shoal.sink.text.formats.xml import Xml

        return Xml()
    return JsonArray() if name == "json" else JsonLinesFormat()


def _compression(name: str) -> Compression:
    return COMPRESSIONS[f".{name}"]() if name else Plain()


def _delimited(format: str, settings: Settings) -> Delimited:
    escape = settings.csv_formulas == "escape"
    return Delimited(_DELIMITERS[format], escape_formulas=escape, bom=settings.csv_bom)


def _given(columns: Mapping[str, Mapping[str, Any]], settings: Settings) -> dict[str, list[str]]:
    """For each kind of item, the columns that the settings name, and the other fields of its schema."""
    tables = dict.fromkeys([*settings.columns, *columns])
    return {
        table: list(dict.fromkeys([*settings.columns.get(table, ()), *columns.get(table, ())]))
        for table in tables
    }
