"""Items as rows of JSON Lines, and their keys; those that are rejected, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass
from decimal import Decimal
from hashlib import blake2b
from reprlib import Repr
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.limits import PAGE_ROWS, REJECTED_ITEM, ROW_BYTES
from shoal.model import REJECTED, Failure, ItemNote, Row, Task, items_of
from shoal.sink.row_meta import PageMeta
from shoal.spider.handlers import JunkError
from shoal.spider.schemas import Invalid, Schema
from shoal.spider.spider import Handler
from shoal.text import error_line, one_line


def _plain(value: object) -> object:
    """What msgspec cannot write by itself."""
    if hasattr(value, "__pydantic_serializer__"):
        return value.model_dump(mode="json") if hasattr(value, "model_dump") else vars(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
# Sets and dicts differ in order: the same key must give the same bytes.
_KEY_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="deterministic")
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)  # ValueError: also lone surrogates
_MISSING = object()
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 1_000
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxtuple = _SHORT.maxset = 100


class ItemRejected(Exception):
    """An item cannot be written, or its schema refuses it. The message is the reason."""


class Rejected(Struct, frozen=True):
    """An item that is not written."""

    place: int  # among the items of its page
    reason: str
    table: str  # what kind of item it was to be; "": nobody knows


class Encoded(Struct, frozen=True):
    rows: tuple[Row, ...]
    rejected: tuple[Rejected, ...]


class KeptItem(Struct, frozen=True):
    """An item as it is kept if it is rejected."""

    data: bytes
    is_json: bool  # False: it cannot be read back


def encode_rows(
    items: Iterable[object], handler: Handler, at: float = 0.0, table: str = "", meta: PageMeta | None = None
) -> Encoded:
    """The items of a page as rows, and which of them are rejected. `table`: what kind of items they are, if that is
    known. `meta`: what rows say about their page."""
    rows: list[Row] = []
    rejected: list[Rejected] = []
    size = 0
    for place, item in enumerate(items):
        try:
            rows.append(encode_row(item, handler, at, table, meta))
            size += len(rows[-1].data)
        except ItemRejected as error:
            rejected.append(Rejected(place, str(error), table or _table_of(item, handler)))
        if size > PAGE_ROWS:
            raise JunkError(
                f"handler {handler.name!r} yielded items of more than {PAGE_ROWS:,} bytes for one page"
            )
    return Encoded(tuple(rows), tuple(rejected))


def encode_row(
    item: object, handler: Handler, at: float = 0.0, table: str = "", meta: PageMeta | None = None
) -> Row:
    """The item as one line, with its key if the handler has one. `at`: when the page was requested."""
    data = _encoded(item)
    kind = handler.item or handler.name
    if handler.schemas:
        schema, checked = _checked(item, data, handler, table)
        kind = schema.table
        if checked is not item:
            item, data = checked, _encoded(checked)
    added = 0
    if meta is not None:
        length = len(data)
        data = _with_meta(data, meta, kind)
        added = len(data) - length
    data += b"\n"
    if not handler.key:
        return Row(data, None, kind, at=at, meta=added)
    values = _key_values(item, handler.key)
    return Row(data, _hash([handler.name, *values]), kind, handler.key, _text(values), at, added)


def _encoded(item: object) -> bytes:
    try:
        data = _ENCODER.encode(item)
    except _UNWRITABLE as error:
        raise ItemRejected(f"it is not JSON: {_culprit(item, error)}") from None
    if len(data) > ROW_BYTES:
        raise ItemRejected(f"it has {len(data):,} bytes as JSON; {ROW_BYTES:,} are the most")
    return data


def _with_meta(data: bytes, meta: PageMeta, kind: str) -> bytes:
    """Raises ItemRejected rather than replace what the item says itself."""
    if not data.startswith(b"{"):
        raise ItemRejected("it has no fields, so that row_meta cannot add its own")
    if b'"_' in data:
        taken = msgspec.json.decode(data).keys() & set(meta.names)
        if taken:
            name = min(taken)
            raise ItemRejected(
                f"its field {name!r} is one that row_meta adds: rename it, or leave {name[1:]!r} out of row_meta"
            )
    return data[:-1] + (b"," if len(data) > 2 else b"") + meta.fields(kind) + b"}"


def without_meta(row: Row) -> bytes:
    """The row as its item was, without the final line break."""
    if not row.meta:
        return row.data.rstrip(b"\n")
    return row.data[: -2 - row.meta] + b"}"


def _checked(item: object, data: bytes, handler: Handler, table: str) -> tuple[Schema, object]:
    """The schema that the item keeps to, and the item as that leaves it."""
    for schema in handler.schemas:
        if schema.owns(item):
            return schema, _check(schema.checked_object, item, data)
    if not isinstance(item, Mapping):
        names = " or ".join(schema.type.__name__ for schema in handler.schemas)
        raise ItemRejected(f"it is a {type(item).__name__}, and not a {names}")
    schemas = [schema for schema in handler.schemas if schema.table == table] or handler.schemas
    reasons: list[str] = []
    for schema in schemas:
        try:
            return schema, _check(schema.checked_mapping, item, data)
        except ItemRejected as error:
            reasons.append(str(error))
    if len(schemas) == 1:
        raise ItemRejected(reasons[0])
    told = [f"no {schema.type.__name__}: {reason}" for schema, reason in zip(schemas, reasons, strict=True)]
    raise ItemRejected(f"it is {'; and '.join(told)}")


def _check(check: Callable[[Any, bytes], object], item: object, data: bytes) -> object:
    try:
        return check(item, data)
    except Invalid as error:
        raise ItemRejected(str(error)) from None
    except Exception as error:  # of a validator of the user's
        raise ItemRejected(f"its check failed: {error_line(error)}") from None


def _table_of(item: object, handler: Handler) -> str:
    if not handler.schemas:
        return handler.item or handler.name
    own = [schema.table for schema in handler.schemas if schema.owns(item)]
    return own[0] if own else handler.schemas[0].table if len(handler.schemas) == 1 else ""


def as_json(item: object) -> bytes | None:
    """The item, if it can be kept whole."""
    try:
        data = _ENCODER.encode(item)
    except _UNWRITABLE:
        return None
    return data if len(data) <= REJECTED_ITEM else None


def kept_item(item: object) -> KeptItem:
    """The item as JSON; if it is not JSON or too large, what can be said of it in that room."""
    if (data := as_json(item)) is not None:
        return KeptItem(data, True)
    try:
        shown: object = {str(name): _shown(value) for name, value in _fields(item)}
        data = _ENCODER.encode(shown or _SHORT.repr(item))
    except Exception:  # such as names of fields that are no text
        data = msgspec.json.encode(f"a {type(item).__name__} that cannot be shown")
    return KeptItem(data[:REJECTED_ITEM], False)


def _shown(value: object) -> object:
    try:
        _ENCODER.encode(value)
    except _UNWRITABLE:
        try:
            return _SHORT.repr(value)
        except Exception:  # of the user's own __repr__
            return f"a {type(value).__name__} that cannot be shown"
    return value


def _key_values(item: object, names: tuple[str, ...]) -> list[object]:
    values: list[object] = []
    for name in names:
        value = item.get(name, _MISSING) if isinstance(item, Mapping) else getattr(item, name, _MISSING)
        if value is _MISSING:
            raise ItemRejected(f"its key field {name!r} is missing")
        if value is None or (isinstance(value, Sized) and not len(value)):
            # All items with an empty key would count as one, and all but the first would be lost.
            raise ItemRejected(f"its key field {name!r} is empty")
        if not _is_finite(value):
            # JSON writes them as null, so they would all be one, too.
            raise ItemRejected(
                f"its key field {name!r} is or holds a number that is not finite (NaN or infinity)"
            )
        values.append(value)
    return values


def _is_finite(value: object) -> bool:
    if isinstance(value, str):
        return True
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
            return f"field {name!r} is of type {type(value).__name__} ({its_error})"
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


def rejected_task(task: Task, kept: KeptItem, reason: str, note: ItemNote, at: float) -> Task:
    """The task that keeps a rejected item of a page, or of an item that was replayed."""
    failure = Failure(REJECTED, one_line(reason), at=at, attempt=task.attempt)
    if task.item is not None:  # it is rejected again
        return replace(task, body=kept.data, item=note).failed(failure)
    item = Task(
        task.url,
        task.handler,
        host=items_of(task.host),
        lane=task.lane,
        priority=task.priority,
        depth=task.depth,
        parent=task.id,
        body=kept.data,
        pool=task.pool,
        options=task.options,
        meta=task.meta,
        item=note,
    )
    return item.failed(failure)
