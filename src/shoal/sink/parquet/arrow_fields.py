"""What the annotations of a schema say about columns: their types, and how a value is read that JSON writes as text."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import reduce
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
import pyarrow as pa
from msgspec import Struct

from shoal.sink.parquet.arrow_types import BOOL, DOUBLE, INT, NULL, TEXT, Type, merge, type_of

Read = Callable[[Any], object]  # from a value of JSON; raises if it is not of this form


class Field(Struct, frozen=True):
    type: Any = NULL  # if no value says otherwise; null: unknown
    read: Read | None = None  # None: as JSON has it


UNKNOWN = Field()


def _read_datetime(value: str) -> datetime:
    read = datetime.fromisoformat(value)
    return read.astimezone(UTC) if read.tzinfo else read


_SCALARS: tuple[tuple[tuple[type, ...], Field], ...] = (
    ((bool,), Field(BOOL)),
    ((int,), Field(INT)),
    ((float,), Field(DOUBLE)),
    ((datetime,), Field(pa.timestamp("us", tz="UTC"), _read_datetime)),
    ((date,), Field(pa.date32(), date.fromisoformat)),
    ((Decimal,), Field(pa.decimal128(38, 9), Decimal)),
    ((bytes, bytearray, memoryview), Field(pa.binary(), lambda value: b64decode(value, validate=True))),
    ((str, UUID, time, timedelta), Field(TEXT)),
)


def field_of(annotation: object, depth: int = 0) -> Field:
    """What is known of a column whose field has this annotation."""
    origin, args = get_origin(annotation), get_args(annotation)
    if depth > 8 or annotation is NoneType:  # a class that holds itself
        return UNKNOWN
    if origin is Annotated:
        return field_of(args[0], depth)
    if origin is Literal:
        return Field(_type_for(args))
    if origin is Union or origin is UnionType:
        return _union([field_of(one, depth) for one in args if one is not NoneType])
    plain = origin or annotation
    if not isinstance(plain, type):
        return UNKNOWN
    if issubclass(plain, Enum):
        return Field(_type_for([one.value for one in plain]))
    for classes, field in _SCALARS:
        if issubclass(plain, classes):
            return field
    if issubclass(plain, Mapping) and not hasattr(plain, "__annotations__"):
        return UNKNOWN  # its keys are data
    if issubclass(plain, Collection) and not hasattr(plain, "__annotations__"):
        return _list(plain, args, depth)
    return _struct(plain, depth)


def _type_for(values: Collection[object]) -> Type:
    return reduce(merge, map(type_of, values), NULL)


def _union(fields: list[Field]) -> Field:
    if len(fields) == 1:
        return fields[0]
    if not fields or any(field.read is not None or field.type == NULL for field in fields):
        return UNKNOWN
    return Field(reduce(merge, [field.type for field in fields]))


def _list(plain: type, args: tuple[object, ...], depth: int) -> Field:
    if not args or (issubclass(plain, tuple) and args[1:] != (...,)):
        return UNKNOWN
    inside = field_of(args[0], depth + 1)
    read = inside.read
    if read is None:
        return Field(pa.list_(inside.type))
    return Field(pa.list_(inside.type), lambda value: [None if one is None else read(one) for one in value])


def _struct(plain: type, depth: int) -> Field:
    fields = {name: field_of(one, depth + 1) for name, one in fields_of(plain).items()}
    if not fields:
        return UNKNOWN
    reads = {name: field.read for name, field in fields.items() if field.read is not None}
    type_ = pa.struct([pa.field(name, field.type) for name, field in fields.items()])

    def read(value: dict[str, Any]) -> object:
        new = dict(value)
        for name, its in reads.items():
            if new.get(name) is not None:
                new[name] = its(new[name])
        return new

    return Field(type_, read if reads else None)


def fields_of(plain: type) -> dict[str, object]:
    """The fields of a class of items as they are named in JSON, with their annotations; {}: it has none that are
    known."""
    if isinstance(plain, type) and issubclass(plain, Struct):
        if plain.__struct_config__.array_like:
            return {}
        return {field.encode_name: field.type for field in msgspec.structs.fields(plain)}
    if issubclass(plain, tuple):
        return {}
    try:
        hints = get_type_hints(plain, include_extras=True)
    except (NameError, TypeError):
        return {}
    if hasattr(plain, "model_fields"):
        return {name: hints[name] for name in plain.model_fields if name in hints}
    return {
        name: one for name, one in hints.items() if get_origin(one) is not type and not name.startswith("__")
    }
