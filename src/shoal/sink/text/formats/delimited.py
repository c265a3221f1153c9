"""CSV and TSV: a line of names, then a line for each row, all with the same number of cells (RFC 4180).

Text is written as it is, None as nothing, anything else as JSON. What has no column of its own is in the column
`_more`, an object in JSON. Which columns there are is the file's affair (`sink/text/delimited_files.py`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import BinaryIO

import msgspec

from shoal.errors import SinkError
from shoal.limits import CSV_COLUMNS
from shoal.model import Row
from shoal.sink.text.formats import as_fields

MORE = "_more"

_BOM = "\ufeff"
_LINE_END = "\r\n"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what spreadsheets take for one, some after white space
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")

Fields = dict[str, object]


class Delimited:
    def __init__(self, delimiter: str = ",", *, escape_formulas: bool = False, bom: bool = False) -> None:
        self._delimiter = delimiter
        self._escapes = escape_formulas
        self._bom = bom

    def header(self, columns: Sequence[str], bom: bool | None = None) -> bytes:
        """The first line. `bom`: whether it begins with a byte-order mark; None: as the settings say."""
        mark = self._bom if bom is None else bom
        return (_BOM.encode() if mark else b"") + self._lines([columns])

    def columns(self, text: BinaryIO) -> tuple[list[str], bool]:
        """The columns of a file, and whether it begins with a byte-order mark."""
        lines = _decoded(text)
        first = next(lines, "")
        has_bom = first.startswith(_BOM)
        return next(self._reader(chain([first.removeprefix(_BOM)], lines)), []), has_bom

    def fields(self, item: Fields) -> Fields:
        """The fields by the names of their columns. Names may come from pages, as values do."""
        return {_safe_name(name): value for name, value in item.items()} if self._escapes else item

    def encode(self, items: Iterable[Fields], columns: Sequence[str]) -> bytes:
        """The items as lines. What has no column goes to `_more`, which must be there then."""
        known = frozenset(columns) - {MORE}
        lines = []
        for item in items:
            if not item.keys() <= known:
                item = _with_more(item, known)
            get = item.get
            if self._escapes:
                lines.append([_safe_text(get(name)) for name in columns])
            else:
                lines.append([v if type(v := get(name, "")) is str else _text(v) for name in columns])
        return self._lines(lines)

    def widened(self, chunks: Iterable[bytes], by: int) -> Iterator[bytes]:
        """Lines with so many empty cells more. Inside quotes a line end is part of a cell."""
        line_end = _LINE_END.encode()
        wider = self._delimiter.encode() * by + line_end
        inside, held = 0, b""
        for chunk in chunks:
            *pieces, held = (held + chunk).split(line_end)
            lines: list[bytes] = []
            for piece in pieces:
                inside ^= piece.count(b'"') & 1
                lines += (piece, line_end if inside else wider)
            yield b"".join(lines)
        yield held

    def read(self, text: BinaryIO, types: Mapping[str, object]) -> Iterator[Fields]:
        """The rows. A cell is text unless the type of its field says otherwise; empty cells are left out."""
        csv.field_size_limit(1 << 30)
        columns, _ = self.columns(text)
        for line in self._reader(_decoded(text)):
            cells = zip(columns, line, strict=True)
            row: Fields = {name: _value(cell, types.get(name, str)) for name, cell in cells if cell}
            extra: Fields = msgspec.json.decode(str(row.pop(MORE, "{}")))
            yield row | extra

    def _reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self._delimiter, strict=True)

    def _lines(self, lines: Iterable[Sequence[str]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator=_LINE_END).writerows(lines)
        return text.getvalue().encode()


class DelimitedStream:
    """Rows that are printed. The line of names cannot be taken back, so there are no columns for new fields."""

    head = b""
    tail = b""

    def __init__(self, format: Delimited, given: Mapping[str, Iterable[str]]) -> None:
        self._format = format
        self._given = format.fields(dict.fromkeys(chain.from_iterable(given.values())))
        self._columns: list[str] = []

    def encode(self, rows: Sequence[Row], first: bool) -> bytes:
        items = [self._format.fields(as_fields(msgspec.json.decode(row.data))) for row in rows]
        if not items:
            return b""
        header = b""
        if first:
            self._columns = self._first_columns(items)
            header = self._format.header(self._columns)
        known = frozenset(self._columns)
        for item in items:
            if MORE not in known and not item.keys() <= known:
                name = next(name for name in item if name not in known)
                raise SinkError(
                    f"cannot print the field {name!r}: it has no column, and the line of names is printed already; name"
                    " the columns with the setting `columns`"
                )
        return header + self._format.encode(items, self._columns)

    def _first_columns(self, items: Iterable[Fields]) -> list[str]:
        """A column for what comes later, unless the columns are given."""
        names = dict.fromkeys(name for item in items for name in item if name != MORE)
        if self._given and names.keys() <= self._given.keys():
            return list(self._given)
        return [*dict.fromkeys([*self._given, *names][:CSV_COLUMNS]), MORE]

    def read(self, text: BinaryIO) -> Iterator[Fields]:
        return self._format.read(text, {})


def _decoded(text: BinaryIO) -> Iterator[str]:
    return (line.decode() for line in text)


def _with_more(item: Fields, known: frozenset[str]) -> Fields:
    extra = {name: value for name, value in item.items() if name not in known}
    return {**{name: value for name, value in item.items() if name in known}, MORE: extra}


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode()


def _safe_text(value: object) -> str:
    """Text that a spreadsheet would take for a formula begins with an apostrophe. Numbers are none."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return _text(value)


def _safe_name(name: str) -> str:
    """Different names stay different: so one that begins with an apostrophe gets another."""
    return f"'{name}" if name.startswith((*_FORMULA, "'")) else name


def _value(cell: str, type: object) -> object:
    if type is str:
        return cell
    try:
        return msgspec.json.decode(cell)
    except msgspec.DecodeError:
        return cell
