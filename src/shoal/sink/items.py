"""Items as rows of JSON Lines, and their keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass
from decimal import Decimal
from hashlib import blake2b

import msgspec

from shoal.limits import PAGE_ROWS, ROW_BYTES
from shoal.model import Row
from shoal.spider.handlers import JunkError
from shoal.spider.spider import Handler


def _plain(value: object) -> object:
    """What msgspec cannot write by itself."""
    if hasattr(value, "__pydantic_serializer__"):
        return value.model_dump(mode="json") if hasattr(value, "model_dump") else vars(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
# Sets and dicts differ in order: the same key must give the same bytes.
_KEY_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="deterministic")
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)  # ValueError: also lone surrogates
_MISSING = object()


def encode_rows(items: Iterable[object], handler: Handler, at: float = 0.0) -> tuple[Row, ...]:
    """The items of a page as rows."""
    rows: list[Row] = []
    size = 0
    for item in items:
        rows.append(encode_row(item, handler, at))
        size += len(rows[-1].data)
        if size > PAGE_ROWS:
            raise JunkError(
                f"handler {handler.name!r} yielded items of more than {PAGE_ROWS:,} bytes for one page"
            )
    return tuple(rows)


def encode_row(item: object, handler: Handler, at: float = 0.0) -> Row:
    """The item as one line, with its key if the handler has one. `at`: when the page was requested."""
    try:
        data = _ENCODER.encode(item) + b"\n"
    except _UNWRITABLE as error:
        raise JunkError(
            f"handler {handler.name!r} yielded an item that is not JSON: {_culprit(item, error)}"
        ) from None
    if len(data) > ROW_BYTES:
        raise JunkError(
            f"handler {handler.name!r} yielded an item of {len(data):,} bytes; {ROW_BYTES:,} are the most"
        )
    table = handler.item or handler.name
    if not handler.key:
        return Row(data, None, table, at=at)
    values = _key_values(item, handler, handler.key)
    return Row(data, _hash([handler.name, *values]), table, handler.key, _text(values), at)


def _key_values(item: object, handler: Handler, names: tuple[str, ...]) -> list[object]:
    values: list[object] = []
    for name in names:
        value = item.get(name, _MISSING) if isinstance(item, Mapping) else getattr(item, name, _MISSING)
        if value is _MISSING:
            raise JunkError(f"handler {handler.name!r} yielded an item without its key field {name!r}")
        if value is None or (isinstance(value, Sized) and not len(value)):
            # All items with an empty key would count as one, and all but the first would be lost.
            raise JunkError(f"handler {handler.name!r} yielded an item whose key field {name!r} is empty")
        if not _is_finite(value):
            # JSON writes them as null, so they would all be one, too.
            raise JunkError(
                f"handler {handler.name!r} yielded an item whose key field {name!r} is or holds a number that is not "
                "finite (NaN or infinity)"
            )
        values.append(value)
    return values


def _is_finite(value: object) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value)) and all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_finite, value))
    return all(_is_finite(one) for _, one in _fields(value))


def _hash(values: list[object]) -> int:
    """63 bits of the handler's name and the key's values: equal for equal keys, in every process and run."""
    return int.from_bytes(blake2b(_KEY_ENCODER.encode(values), digest_size=8).digest(), "big") >> 1


def _text(values: list[object]) -> str:
    """The key as text: a single string as it is, anything else as JSON."""
    if len(values) == 1:
        return values[0] if isinstance(values[0], str) else _KEY_ENCODER.encode(values[0]).decode()
    return _KEY_ENCODER.encode(values).decode()


def _culprit(item: object, error: Exception) -> str:
    """The field that cannot be written."""
    for name, value in _fields(item):
        try:
            _ENCODER.encode({name: value})
        except _UNWRITABLE as its_error:
            return f"field {name!r} is a {type(value).__name__} ({its_error})"
    return str(error)


def _fields(item: object) -> Iterator[tuple[object, object]]:
    if isinstance(item, Mapping):
        yield from item.items()
    elif isinstance(item, msgspec.Struct):
        yield from ((name, getattr(item, name)) for name in item.__struct_fields__)
    elif is_dataclass(item):
        yield from ((field.name, getattr(item, field.name)) for field in fields(item))
    else:  # attrs, pydantic
        named = [field.name for field in getattr(type(item), "__attrs_attrs__", ())]
        yield from ((name, getattr(item, name)) for name in named or getattr(type(item), "model_fields", []))
