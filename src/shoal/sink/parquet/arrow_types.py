"""Types of Arrow for items: of JSON values, merged where they differ, and arrays that are fitted to a merged type.

Nothing is lost and nothing fails: values of types that have no type in common become text, those that are no text as
JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

Type = Any  # pa.DataType; the package has no annotations
Array = Any  # pa.Array
# Told when two types have nothing in common: where (as in `offers[].price`), and both.
Clash = Callable[[str, Type, Type], None]

NULL, BOOL, INT, DOUBLE, TEXT = pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string()
EMPTY = "_empty"  # a field for structs without fields, which Parquet cannot write
_DEEPEST = 24  # levels of lists and structs. Beyond: text
_FIELDS = 500  # of a struct, with those of structs in it. Beyond: text, for the keys are rather data
_DIGITS = 38  # of a decimal. Beyond: text, because most readers know no longer ones
_INT64 = 2**63
_EXACT = 2**53  # integers up to this are exact as floats
_encode = msgspec.json.Encoder(enc_hook=str).encode


class _NotHeldError(Exception):
    """A value cannot be converted without loss."""


def no_clash(_where: str, _one: Type, _other: Type) -> None:
    pass


# -- from values to arrays


def array_of(values: list[object], name: str = "", clash: Clash = no_clash, *, plain: bool = True) -> Array:
    """An array of the narrowest type that holds all values. `plain`: they are as JSON has them."""
    kinds = set(map(type, values))
    deep = bool(kinds & {list, dict}) and any(_is_deeper(value, _DEEPEST) for value in values)
    if plain and not deep:
        try:
            array = pa.array(values)
        except (pa.ArrowException, OverflowError):
            pass  # values of several types, or integers of more than 64 bits
        else:
            if _fields(array.type) <= _FIELDS and not _truth_as_number(values, array.type):
                return array
    type_ = TEXT if deep else _common_type(values, name, clash)
    if _fields(type_) > _FIELDS:
        type_ = TEXT
    try:
        return pa.array([_converted(value, type_) for value in values], type_)
    except (_NotHeldError, pa.ArrowException, OverflowError):
        return pa.array([as_text(value) for value in values], TEXT)


def _truth_as_number(values: Iterable[Any], type_: Type) -> bool:
    """pyarrow takes True for 1.0 where there are floats."""
    if pa.types.is_floating(type_):
        return bool in set(map(type, values))
    if pa.types.is_list(type_):
        return _truth_as_number([one for value in values if value for one in value], type_.value_type)
    if pa.types.is_struct(type_):
        there = [value for value in values if value]
        return any(_truth_as_number([one.get(field.name) for one in there], field.type) for field in type_)
    return False


def _common_type(values: Iterable[object], name: str, clash: Clash) -> Type:
    types = (type_of(value, name, clash) for value in values)
    return reduce(lambda one, other: merge(one, other, name, clash), types, NULL)


def type_of(value: object, name: str = "", clash: Clash = no_clash) -> Type:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT if -_INT64 <= value < _INT64 else TEXT
    if isinstance(value, dict):
        return pa.struct([pa.field(key, type_of(one, f"{name}.{key}", clash)) for key, one in value.items()])
    if isinstance(value, list):
        return pa.list_(_common_type(value, f"{name}[]", clash))
    return _type_of_scalar(value)


def _type_of_scalar(value: object) -> Type:
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, datetime):
        return pa.timestamp("us", tz="UTC" if value.tzinfo else None)
    if isinstance(value, date):
        return pa.date32()
    if isinstance(value, bytes):
        return pa.binary()
    if isinstance(value, Decimal) and value.is_finite():
        _, digits, exponent = value.as_tuple()
        scale = max(0, -int(exponent))
        return _decimal(max(len(digits) + int(exponent), 1), scale)
    return TEXT


def _decimal(whole: int, scale: int) -> Type:
    return pa.decimal128(whole + scale, scale) if whole + scale <= _DIGITS else TEXT


def _converted(value: Any, type_: Type) -> object:
    """A value in the form that pyarrow takes for this type."""
    if value is None or type_ == NULL:
        return None
    if type_ == TEXT:
        return as_text(value)
    if type_ == DOUBLE and isinstance(value, int) and abs(value) > _EXACT:
        raise _NotHeldError
    if pa.types.is_struct(type_):
        return {field.name: _converted(value.get(field.name), field.type) for field in type_}
    if pa.types.is_list(type_):
        return [_converted(one, type_.value_type) for one in value]
    return value


def as_text(value: object) -> str | None:
    """A text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    data = _encode(value)
    return str(msgspec.json.decode(data)) if data[:1] == b'"' else data.decode()


def _is_deeper(value: object, levels: int) -> bool:
    inside: Iterable[object]
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    else:
        return False
    return not levels or any(_is_deeper(one, levels - 1) for one in inside)


# -- types


def merge(one: Type, other: Type, name: str = "", clash: Clash = no_clash) -> Type:
    """The type for a column that has values of both types: a wider one, else text."""
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    if {one, other} == {INT, DOUBLE}:
        return DOUBLE
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        merged = _merge_structs(one, other, name, clash)
        return merged if _fields(merged) <= _FIELDS else TEXT
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(merge(one.value_type, other.value_type, f"{name}[]", clash))
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return _decimal(whole, max(one.scale, other.scale))
    clash(name, one, other)
    return TEXT


def _merge_structs(one: Type, other: Type, name: str, clash: Clash) -> Type:
    types = {field.name: field.type for field in one}
    for field in other:
        types[field.name] = merge(types.get(field.name, NULL), field.type, f"{name}.{field.name}", clash)
    return pa.struct(list(types.items()))


def _fields(type_: Type) -> int:
    """How many fields a type has in all structs inside it."""
    if pa.types.is_list(type_):
        return _fields(type_.value_type)
    if not pa.types.is_struct(type_):
        return 0
    return sum(1 + _fields(field.type) for field in type_)


def stored(type_: Type) -> Type:
    """The type as Parquet can write it."""
    if pa.types.is_list(type_):
        return pa.list_(stored(type_.value_type))
    if not pa.types.is_struct(type_):
        return type_
    return pa.struct([pa.field(f.name, stored(f.type)) for f in type_] or [pa.field(EMPTY, NULL)])


def loaded(type_: Type) -> Type:
    """The type that was stored in this one."""
    if pa.types.is_list(type_):
        return pa.list_(loaded(type_.value_type))
    if not pa.types.is_struct(type_):
        return type_
    return pa.struct([pa.field(f.name, loaded(f.type)) for f in type_ if (f.name, f.type) != (EMPTY, NULL)])


# -- from one type to a wider one


def fit(array: Array, type_: Type) -> Array:
    """The array as one of a type that `merge` gave for it and others. Raises ArrowInvalid if digits would be lost."""
    if array.type == type_:
        return array
    if array.type == NULL:
        return pa.nulls(len(array), type_)
    if type_ == TEXT:
        return pa.array([as_text(value) for value in fit(array, loaded(array.type)).to_pylist()], TEXT)
    if pa.types.is_struct(type_):
        children = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        fitted = [
            fit(children[field.name], field.type)
            if field.name in children
            else pa.nulls(len(array), field.type)
            for field in type_
        ]
        return pa.StructArray.from_arrays(fitted, fields=list(type_), mask=array.is_null())
    if pa.types.is_list(type_):
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        ends = pc.cumulative_sum(lengths)
        offsets = pa.array(chain([0], ends.to_pylist()), pa.int32())
        values = fit(array.flatten(), type_.value_type)
        return pa.ListArray.from_arrays(offsets, values, type=type_, mask=array.is_null())
    return array.cast(type_)
