"""Items as rows of JSON Lines, and their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from hashlib import blake2b

import msgspec

from shoal.handling import JunkError
from shoal.model import Row
from shoal.spider import Handler

_ENCODER = msgspec.json.Encoder()
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)  # ValueError: also lone surrogates
_MISSING = object()


def encode_row(item: object, handler: Handler) -> Row:
    """The item as one line, with the hash of its key if the handler has one."""
    try:
        data = _ENCODER.encode(item) + b"\n"
    except _UNWRITABLE as error:
        raise JunkError(
            f"handler {handler.name!r} yielded an item that is not JSON: {_culprit(item, error)}"
        ) from None
    return Row(data, _key(item, handler) if handler.key else None)


def _key(item: object, handler: Handler) -> int:
    """63 bits of the handler's name and the key's values: equal for equal keys, in every process and run."""
    values: list[object] = [handler.name]
    for name in handler.key or ():
        value = item.get(name, _MISSING) if isinstance(item, dict) else getattr(item, name, _MISSING)
        if value is _MISSING:
            raise JunkError(f"handler {handler.name!r} yielded an item without its key field {name!r}")
        if value is None or value == "":
            # All items with an empty key would count as one, and all but the first be lost.
            raise JunkError(f"handler {handler.name!r} yielded an item whose key field {name!r} is empty")
        values.append(value)
    return int.from_bytes(blake2b(_ENCODER.encode(values), digest_size=8).digest(), "big") >> 1


def _culprit(item: object, error: Exception) -> str:
    """Which field it is that cannot be written."""
    for name, value in _fields(item):
        try:
            _ENCODER.encode({name: value})
        except _UNWRITABLE as its_error:
            return f"field {name!r} is a {type(value).__name__} ({its_error})"
    return str(error)


def _fields(item: object) -> Iterator[tuple[object, object]]:
    if isinstance(item, dict):
        yield from item.items()
    elif isinstance(item, msgspec.Struct):
        yield from ((name, getattr(item, name)) for name in item.__struct_fields__)
    elif is_dataclass(item):
        yield from ((field.name, getattr(item, field.name)) for field in fields(item))
