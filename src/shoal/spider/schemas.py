"""Schemas of items: what `@spider.handler(item=Product)` makes of a class.

An item is checked in the form in which it is written, as JSON: the same check serves a dict, an object whose types
nobody has checked, and an item that was kept and comes back. What is written is what the check gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
from msgspec import Struct

from shoal.errors import SpiderError
from shoal.text import error_line

if TYPE_CHECKING:
    from shoal.spider.spider import Spider

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ERRORS_SHOWN = 5  # of one item
_FOREIGN_SUFFIX = re.compile(r" - at `(\$.*)`$")


class Invalid(Exception):
    """An item does not have the form that its schema wants."""


class Schema(Struct, frozen=True):
    """One class of items."""

    type: Any
    table: str  # its name, in the way of tables: BookReview is book_review
    check: Callable[[bytes], object]  # from the item's JSON to the checked item; raises Invalid
    fields: frozenset[str] | None = None  # the names that an item may have; None: the class decides
    has_objects: bool = True  # False: a TypedDict, whose items are dicts
    is_checked: bool = False  # its objects were checked when they were made

    def owns(self, item: object) -> bool:
        return self.has_objects and isinstance(item, self.type)

    def checked_object(self, item: object, data: bytes) -> object:
        """An object of this class, or of one below it, which may have more fields."""
        if self.is_checked:
            return item
        kind: type = type(item)
        return (self if kind is self.type else _schema(kind)).check(data)

    def checked_mapping(self, item: Mapping[Any, object], data: bytes) -> object:
        self._check_names(item)
        return self.check(data)

    def _check_names(self, item: Mapping[Any, object]) -> None:
        """Refuses fields that the class does not have: they would be left out without a word."""
        if self.fields is None or item.keys() <= self.fields:
            return
        name = next(name for name in item if name not in self.fields)
        near = get_close_matches(str(name), self.fields, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise Invalid(f"{self.type.__name__} has no field {name!r}{hint}")


def schemas_of(given: object) -> tuple[Schema, ...]:
    """The schemas that `item=` names: a class, several, or a union of classes."""
    if isinstance(given, UnionType) or get_origin(given) is Union:
        classes: Iterable[object] = get_args(given)
    else:
        classes = given if isinstance(given, list | tuple) else [given]
    found = tuple(_schema(_class(one)) for one in classes)
    if not found:
        raise SpiderError("item=[] names no class")
    tables = [schema.table for schema in found]
    if len(set(tables)) < len(tables):
        raise SpiderError(f"item= names two classes for the table {max(tables, key=tables.count)!r}")
    return found


def table_of(name: str) -> str:
    return _WORD.sub("_", name).lower()


def _class(given: object) -> type:
    if not isinstance(given, type):
        raise SpiderError(f"item={given!r}: give the name of a table, or a class of items")
    return given


@lru_cache(256)
def _schema(type_: type) -> Schema:
    name = type_.__name__
    if hasattr(type_, "__pydantic_validator__"):
        return Schema(type_, table_of(name), _by_pydantic(type_), is_checked=True)
    if not _is_known(type_):
        raise SpiderError(
            f"item={name}: it is no dataclass, TypedDict, msgspec Struct, attrs class or pydantic model"
        )
    try:
        fields, has_objects = _field_names(type_), not is_typeddict(type_)
        return Schema(type_, table_of(name), _by_msgspec(type_), fields, has_objects)
    except (TypeError, NameError, ValueError) as error:
        raise SpiderError(f"item={name}: its fields cannot be checked: {error_line(error)}") from None


def _is_known(type_: type) -> bool:
    is_struct = issubclass(type_, Struct)
    return is_struct or is_dataclass(type_) or is_typeddict(type_) or hasattr(type_, "__attrs_attrs__")


def _field_names(type_: type) -> frozenset[str] | None:
    info = msgspec.inspect.type_info(type_)
    fields = getattr(info, "fields", None)
    if fields is None or getattr(info, "array_like", False):
        return None
    names = {field.encode_name for field in fields}
    tag = getattr(info, "tag_field", None)
    return frozenset(names | {tag} if tag else names)


def _by_msgspec(type_: type) -> Callable[[bytes], object]:
    decode: Callable[[bytes], object] = msgspec.json.Decoder(type_, strict=False).decode
    has_defaults = _has_defaults(msgspec.inspect.type_info(type_), set())

    def check(data: bytes) -> object:
        try:
            item = decode(data)
        except msgspec.ValidationError as error:
            raise Invalid(_FOREIGN_SUFFIX.sub(_at, str(error))) from None
        if has_defaults:
            _fill_defaults(item)
        return item

    return check


def _has_defaults(info: object, seen: set[object]) -> bool:
    """Whether there are dataclasses with defaults in a type: in its fields, in lists, in unions."""
    if not isinstance(info, msgspec.inspect.Type):
        return any(_has_defaults(one, seen) for one in info) if isinstance(info, tuple) else False
    if isinstance(info, msgspec.inspect.DataclassType | msgspec.inspect.StructType):
        if info.cls in seen:
            return False
        seen.add(info.cls)
        if isinstance(info, msgspec.inspect.DataclassType) and any(not f.required for f in info.fields):
            return True
        return any(_has_defaults(one.type, seen) for one in info.fields)
    return any(_has_defaults(getattr(info, name), seen) for name in info.__struct_fields__)


def _fill_defaults(item: object) -> None:
    """msgspec leaves the defaults of a dataclass in the class, and so out of what it writes of the object."""
    waiting = [item]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list | tuple | set | frozenset):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif is_dataclass(one) and not isinstance(one, type):
            values = {field.name: getattr(one, field.name) for field in dataclass_fields(one)}
            if hasattr(one, "__dict__"):
                vars(one).update(values)
            waiting += values.values()


def _at(match: re.Match[str]) -> str:
    """msgspec's path `$.offers[0].price` as the name of a field."""
    return f" (field {match[1].removeprefix('$').removeprefix('.')})"


def _by_pydantic(type_: Any) -> Callable[[bytes], object]:
    from pydantic_core import ValidationError

    validate = type_.__pydantic_validator__.validate_json

    def check(data: bytes) -> object:
        try:
            return validate(data)
        except ValidationError as error:
            raise Invalid(_errors_of(error)) from None

    return check


def _errors_of(error: Any) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = []
    for one in found[:_ERRORS_SHOWN]:
        where = ".".join(str(part) for part in one["loc"])
        said.append(f"{one['msg']} (field {where})" if where else one["msg"])
    more = len(found) - len(said)
    return "; ".join(said) + (f"; and {more} more" if more else "")


def kinds_of(spider: Spider) -> list[str]:
    """The kinds of items that its handlers make: names of tables."""
    kinds: list[str] = []
    for handler in spider.handlers.values():
        own = [schema.table for schema in handler.schemas]
        kinds += own or [handler.item or handler.name]
    return list(dict.fromkeys(kinds))


def columns_of(spider: Spider) -> dict[str, dict[str, Any]]:
    """For each table whose items have a schema, its fields and their types."""
    columns: dict[str, dict[str, Any]] = {}
    for handler in spider.handlers.values():
        for schema in handler.schemas:
            columns.setdefault(schema.table, {}).update(_types(schema.type))
    return columns


def _types(kind: Any) -> dict[str, Any]:
    """Fields are in the order of the class; base classes come first."""
    if hasattr(kind, "model_fields"):  # pydantic
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    try:
        hints = get_type_hints(kind, include_extras=False)
    except (NameError, TypeError):  # a name that only type checkers know
        hints = {}
    fields = getattr(msgspec.inspect.type_info(kind), "fields", ())
    return {field.encode_name: hints.get(field.name, Any) for field in fields}
