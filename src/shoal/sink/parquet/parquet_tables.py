"""Tables of Arrow from rows, and their columns merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from shoal.limits import MB
from shoal.model import Row
from shoal.sink.parquet.arrow_fields import Field, field_of
from shoal.sink.parquet.arrow_types import (
    NULL,
    TEXT,
    Clash,
    Type,
    array_of,
    as_text,
    fit,
    loaded,
    merge,
    stored,
)

Table = Any  # pa.Table
Item = dict[str, Any]

ITEM = "_shoal_item"  # the column with the kind of item
VALUE = "value"  # the column of rows that are no objects
MORE = "_more"  # the column with the fields beyond the limit, as JSON
COLUMNS = 1_000  # of a table: enough for every schema; names that are data would fill the memory
_CHUNK = 2 * MB  # bytes of JSON that are made to values at once: they take ten times that as objects
_GROUP = 16 * MB  # bytes of a row group, as Arrow has them
_CELLS = 1_000_000  # values of a table, those that are missing included

_decode = msgspec.json.Decoder().decode


class LossError(Exception):
    """The values of a column do not fit into its merged type without loss."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class TableMaker:
    """Makes tables of rows. `columns`: for each kind of item, its fields and their annotations, as far as known."""

    def __init__(self, columns: Mapping[str, Mapping[str, object]], clash: Clash) -> None:
        self._clash = clash
        self.fields: dict[str, dict[str, Field]] = {
            table: {name: field_of(annotation) for name, annotation in fields.items()}
            for table, fields in columns.items()
        }

    def tables(self, rows: Iterable[Row]) -> Iterator[Table]:
        chunk: list[Row] = []
        size = 0
        for row in rows:
            chunk.append(row)
            size += len(row.data)
            if size >= _CHUNK:
                yield from self._tables([row.table for row in chunk], [item_of(row) for row in chunk])
                chunk, size = [], 0
        if chunk:
            yield from self._tables([row.table for row in chunk], [item_of(row) for row in chunk])

    def _tables(self, kinds: list[str], items: list[Item]) -> Iterator[Table]:
        names = dict.fromkeys(chain(self._declared(set(kinds)), chain.from_iterable(items)))
        if len(items) > 1 and len(items) * len(names) > _CELLS:
            half = len(items) // 2
            yield from self._tables(kinds[:half], items[:half])
            yield from self._tables(kinds[half:], items[half:])
            return
        self._read_texts(kinds, items)
        arrays = {name: self._array(name, items, kinds) for name in names}
        yield pa.table({ITEM: pa.array(kinds, TEXT).dictionary_encode().cast(TEXT), **arrays})

    def _declared(self, kinds: set[str]) -> Iterator[str]:
        return chain.from_iterable(fields for kind, fields in self.fields.items() if kind in kinds)

    def _read_texts(self, kinds: list[str], items: list[Item]) -> None:
        """Replaces texts by what the schema says they are: times, decimals, bytes."""
        reads = {
            kind: [
                (name, field.read)
                for name, field in self.fields.get(kind, {}).items()
                if field.read is not None
            ]
            for kind in set(kinds)
        }
        for kind, item in zip(kinds, items, strict=True):
            for name, read in reads[kind]:
                if item.get(name) is not None:
                    with suppress(ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
                        item[name] = read(item[name])

    def _array(self, name: str, items: list[Item], kinds: list[str]) -> Any:
        fields = [
            self.fields[kind][name] for kind in dict.fromkeys(kinds) if name in self.fields.get(kind, {})
        ]
        values = [item.get(name) for item in items]
        array = array_of(values, name, self._clash, plain=all(field.read is None for field in fields))
        type_ = array.type
        for field in fields:
            if field.read is None:
                type_ = merge(field.type, type_, name, self._clash)
        try:
            return fit(array, type_)
        except pa.ArrowInvalid:  # a large integer where a float is declared
            return array

    def empty(self) -> Table | None:
        """A table without rows, if the schema says what its columns are."""
        names = list(dict.fromkeys(self._declared(set(self.fields))))
        return pa.table({name: pa.array([], NULL) for name in names}) if names else None

    def declared_types(self) -> dict[str, Type]:
        """For columns that have no value at all."""
        types: dict[str, Type] = {}
        for fields in self.fields.values():
            for name, field in fields.items():
                types[name] = merge(types.get(name, NULL), field.type)
        return types


def item_of(row: Row) -> Item:
    item = _decode(row.data)
    return item if isinstance(item, dict) else {VALUE: item}


def merged_columns(schemas: Iterable[Any], clash: Clash) -> dict[str, Type]:
    """The columns of a table that holds all of these, in the order in which they come."""
    types: dict[str, Type] = {}
    for schema in schemas:
        for field in schema:
            if field.name in types or len(types) < COLUMNS:
                types[field.name] = merge(types.get(field.name, NULL), loaded(field.type), field.name, clash)
            else:
                types[MORE] = TEXT
    return types


def fitted(table: Table, types: Mapping[str, Type]) -> Iterator[Table]:
    """The table with these columns, in pieces that are not too large."""
    most = max(1, _CELLS // len(types))
    for start in range(0, len(table), most):
        yield _fitted(table.slice(start, most), types)


def _fitted(table: Table, types: Mapping[str, Type]) -> Table:
    # To look a column up by its name in a table takes as long as the table has columns.
    columns = dict(zip(table.column_names, table.columns, strict=True))
    arrays = {}
    for name, type_ in types.items():
        try:
            arrays[name] = _column(columns.get(name), stored(type_), len(table))
        except pa.ArrowInvalid:
            raise LossError(name) from None
    if extra := [name for name in columns if name not in types]:
        arrays[MORE] = _more(table, extra)
    return pa.table(arrays)


def _column(column: Any, type_: Type, length: int) -> Any:
    if column is None:
        return pa.nulls(length, type_)
    if column.type == type_:
        return column
    return pa.chunked_array([fit(chunk, type_) for chunk in column.chunks], type_)


def _more(table: Table, names: list[str]) -> Any:
    """The values of these columns as one: the names that have a value, as JSON."""
    before = table.column(MORE).to_pylist() if MORE in table.column_names else [None] * len(table)
    extras = [_decode(text) if text else {} for text in before]
    for name in names:
        for extra, value in zip(extras, table.column(name).to_pylist(), strict=True):
            if value is not None:
                extra[name] = value
    return pa.array([as_text(extra) if extra else None for extra in extras], TEXT)


def row_groups(tables: Iterable[Table]) -> Iterator[Table]:
    """Small tables put together: a row group is as large as readers like it."""
    waiting: list[Table] = []
    cells = size = 0
    for table in tables:
        more = len(table) * table.num_columns
        if waiting and (cells + more > 4 * _CELLS or size + table.nbytes > _GROUP):
            yield pa.concat_tables(waiting)
            waiting, cells, size = [], 0, 0
        waiting.append(table)
        cells, size = cells + more, size + table.nbytes
    if waiting:
        yield pa.concat_tables(waiting)
