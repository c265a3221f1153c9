"""Tables that hold items, and their columns: names that a database takes, and types that hold the values.

A column has the type of its first value. When a value comes that this type does not hold, the column gets a wider one,
so that no value is changed. Pure: the database's own module does what is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import is_dataclass
from enum import Enum, StrEnum
from functools import cache
from itertools import count
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

import msgspec
from msgspec import Struct

NUMBER = "_row"  # the column of a row's number, which grows with each row
REST = "_more"  # the column for the fields that have no column
CHECKED = "_checked_at"  # the column for when a row was last found on its page
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MARKS = ("__attrs_attrs__", "__pydantic_validator__")  # classes of items, too
_LONGEST_NAME = 200  # characters
EXACT = 2**53  # integers up to this are exact as floats
_INT64 = 2**63


class Kind(StrEnum):
    """What a value of JSON is to a database."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    LONG = "long"  # an integer of 64 bits that a float does not hold exactly
    HUGE = "huge"  # an integer of more than 64 bits, which is written as text
    REAL = "real"
    TEXT = "text"
    NESTED = "nested"  # a list or an object, which is written as JSON


class Type(StrEnum):
    """The type of a column. The value is its name in SQL."""

    UNKNOWN = "UNKNOWN"  # no value yet
    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    REAL = "REAL"
    NUMERIC = "NUMERIC"
    TEXT = "TEXT"
    JSON = "JSON"
    ANY = "ANY"


_HELD: dict[Type, frozenset[Kind]] = {
    Type.UNKNOWN: frozenset({Kind.NULL}),
    Type.BOOLEAN: frozenset({Kind.NULL, Kind.BOOLEAN}),
    Type.INTEGER: frozenset({Kind.NULL, Kind.INTEGER, Kind.LONG}),
    Type.REAL: frozenset({Kind.NULL, Kind.REAL, Kind.INTEGER}),
    Type.NUMERIC: frozenset({Kind.NULL, Kind.REAL, Kind.INTEGER, Kind.LONG}),
    Type.TEXT: frozenset({Kind.NULL, Kind.TEXT, Kind.NESTED, Kind.HUGE}),
    Type.JSON: frozenset({Kind.NULL, Kind.NESTED}),
    Type.ANY: frozenset(Kind),
}
# A column of type X becomes the first of these that also holds the value.
_WIDER: dict[Type, tuple[Type, ...]] = {
    Type.UNKNOWN: (Type.BOOLEAN, Type.INTEGER, Type.REAL, Type.JSON, Type.TEXT),
    Type.BOOLEAN: (Type.ANY,),
    Type.INTEGER: (Type.NUMERIC, Type.ANY),
    Type.REAL: (Type.NUMERIC, Type.ANY),
    Type.NUMERIC: (Type.ANY,),
    Type.TEXT: (Type.ANY,),
    Type.JSON: (Type.TEXT, Type.ANY),
}


class Column(Struct):
    name: str
    type: Type


class Table(Struct):
    item: str  # what kind of items it holds
    name: str
    columns: dict[str, Column]  # by the item's field
    taken: set[str]  # names of columns, in lower case
    history: str = ""  # the table of its changes; "": there is none
    checked: str = ""  # the column for when a row was checked; "": there is none


def kind_of(value: object) -> Kind:
    if isinstance(value, str):
        return Kind.TEXT
    if value is None:
        return Kind.NULL
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int):
        if -EXACT <= value <= EXACT:
            return Kind.INTEGER
        return Kind.LONG if -_INT64 <= value < _INT64 else Kind.HUGE
    return Kind.REAL if isinstance(value, float) else Kind.NESTED


@cache
def widened(type_: Type, kind: Kind) -> Type:
    """The type for a column of this type that is to hold a value of this kind."""
    if kind in _HELD[type_]:
        return type_
    return next(wider for wider in _WIDER[type_] if kind in _HELD[wider])


def type_of(annotation: object) -> Type:
    """The type of a column by the annotation of its field, in the form in which items are written, as JSON."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return type_of(get_args(annotation)[0])
    if origin is Literal:
        return _type_for_all(widened(Type.UNKNOWN, kind_of(value)) for value in get_args(annotation))
    if origin is Union or origin is UnionType:
        return _type_for_all(type_of(one) for one in get_args(annotation) if one is not NoneType)
    plain = origin or annotation
    if not isinstance(plain, type):
        return Type.UNKNOWN
    return _type_of_class(plain)


def _type_of_class(plain: type[Any]) -> Type:
    from datetime import date, time, timedelta
    from decimal import Decimal
    from uuid import UUID

    if issubclass(plain, Enum):
        return _type_for_all(widened(Type.UNKNOWN, kind_of(one.value)) for one in plain)
    if issubclass(plain, bool):
        return Type.BOOLEAN
    if issubclass(plain, int):
        return Type.INTEGER
    if issubclass(plain, float):
        return Type.REAL
    if issubclass(plain, str | bytes | bytearray | date | time | timedelta | Decimal | UUID):
        return Type.TEXT
    is_nested = issubclass(plain, Mapping | Sequence | Set | Struct) or is_dataclass(plain)
    if is_nested or is_typeddict(plain) or any(hasattr(plain, name) for name in _MARKS):
        return Type.JSON
    return Type.UNKNOWN


def _type_for_all(types: Any) -> Type:
    """The type if it is the same for all, else unknown: the values decide."""
    found = set(types)
    if found == {Type.INTEGER, Type.REAL}:
        return Type.REAL
    return found.pop() if len(found) == 1 else Type.UNKNOWN


def free_name(wanted: str, taken: Collection[str], *, empty: str) -> str:
    """A name for `wanted` that is not `taken`, where case does not count (as in SQL). `taken` is in lower case. NUL and
    other control characters become `_`. An empty name becomes `empty`."""
    name = _CONTROL.sub("_", wanted)[:_LONGEST_NAME] or empty
    if name.casefold() not in taken:
        return name
    return next(other for n in count(2) if (other := f"{name}_{n}").casefold() not in taken)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def item_of(table: Table, values: Sequence[Any]) -> dict[str, object]:
    """The item in a row: the values of the table's columns, in order."""
    item: dict[str, object] = {}
    for (name, column), value in zip(table.columns.items(), values, strict=True):
        if name == REST:
            item |= _decoded(value, column.type) or {}
        else:
            item[name] = _decoded(value, column.type)
    return item


def _decoded(value: Any, type_: Type) -> Any:
    if value is None:
        return None
    if type_ is Type.JSON:
        return msgspec.json.decode(value)
    return bool(value) if type_ is Type.BOOLEAN else value
