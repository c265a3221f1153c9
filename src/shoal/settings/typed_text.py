"""Values that people type, by their type: read from text, and described in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import PurePath

from msgspec import inspect

from shoal.settings import COMMON_BOUNDS, HOST_KEYS

TRUE = frozenset({"true", "1", "yes", "on"})
FALSE = frozenset({"false", "0", "no", "off"})


def parse(info: inspect.Type, text: str) -> object:
    """The plain value that a text stands for; whether it is allowed, `msgspec.convert` knows. Raises ValueError for a
    text that stands for none."""
    if isinstance(info, inspect.UnionType):
        if text.lower() in ("none", ""):
            return None
        *others, last = (one for one in info.types if not isinstance(one, inspect.NoneType))
        for one in others:
            with suppress(ValueError):
                return parse(one, text)
        return parse(last, text)
    reads = _PARSERS.get(type(info))
    if reads is not None:
        return reads(text)
    if isinstance(info, inspect.LiteralType):
        return next((one for one in info.values if str(one) == text), text)
    if isinstance(info, inspect.EnumType):
        return next((one.value for one in info.cls if str(one.value) == text), text)
    if isinstance(info, _LISTS):
        if text.startswith("[") and text.endswith("]"):
            return _array(text)
        return [parse(info.item_type, item.strip()) for item in text.split(",") if item.strip()]
    return json.loads(text)


def _bool(text: str) -> bool:
    word = text.lower()
    if word not in TRUE | FALSE:
        raise ValueError(word)
    return word in TRUE


def _array(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        import tomllib

        return tomllib.loads(f"value = {text}")["value"]


_PARSERS: Mapping[type, Callable[[str], object]] = {
    inspect.BoolType: _bool,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.StrType: str,
    inspect.AnyType: str,
    inspect.DateType: str,
    inspect.DateTimeType: str,
    inspect.TimeType: str,
    inspect.TimeDeltaType: str,
    inspect.DecimalType: str,
    inspect.UUIDType: str,
    inspect.CustomType: str,
}
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


# -- what is allowed, in words


def describe(info: inspect.Type) -> str:
    if isinstance(info, _LISTS):
        return f"a list of {_several(info.item_type)}"
    match info:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number" + _bounds(info)
        case inspect.FloatType():
            return "a number" + _bounds(info)
        case inspect.DictType(value_type=inspect.IntType() as values):
            return "a table of whole numbers" + _bounds(values)
        case inspect.DictType(value_type=inspect.FloatType() as values):
            return "a table of numbers" + _bounds(values)
        case inspect.DictType(value_type=inspect.ListType()):
            return "a table of lists of strings"
        case inspect.DictType(value_type=inspect.DictType(value_type=inspect.AnyType())):
            return "a table of tables"
        case inspect.DictType(value_type=inspect.DictType()):
            return "a table of tables of strings"
        case inspect.DictType(value_type=inspect.UnionType()):
            return "a table of lists of addresses, or of tables"
        case inspect.DictType(value_type=inspect.StructType()):
            return f"a table of tables with {', '.join(HOST_KEYS)}"
        case inspect.DictType():
            return "a table of strings"
        case inspect.LiteralType(values=words):
            return " or ".join(map(str, words))
        case inspect.UnionType():
            return " or ".join(describe(one) for one in info.types)
        case inspect.EnumType(cls=choices):
            return " or ".join(str(one.value) for one in choices)
        case inspect.NoneType():
            return "none"
        case inspect.DateType():
            return "a date, as in 2031-05-30"
        case inspect.DateTimeType():
            return "a time, as in 2031-05-30T12:00:00Z"
        case inspect.DecimalType():
            return "a number"
        case inspect.UUIDType():
            return "a UUID"
        case inspect.CustomType(cls=kind) if issubclass(kind, PurePath):
            return "a path"
        case inspect.StrType(pattern=str() as pattern):
            return f"a string like {pattern}"
    return "a string"


def _several(item: inspect.Type) -> str:
    match item:
        case inspect.LiteralType(values=words):
            return ", ".join(map(str, words))
        case inspect.IntType():
            return "whole numbers"
        case inspect.FloatType():
            return "numbers"
    return "strings"


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    """Without the bounds that all numbers have: nobody meets them, and they would be in every message."""
    le = None if info.le in COMMON_BOUNDS else info.le
    if info.gt is not None:
        most = f" and at most {le:g}" if le is not None else ""
        return f", greater than {info.gt:g}{most}"
    most = f"at most {le:g}" if le is not None else ""
    if info.ge is None:
        return f", {most}" if most else ""
    return f", at least {info.ge:g}{' and ' if most else ''}{most}"


def common_bound(info: inspect.Type) -> int | None:
    """The bound of a number, or of the numbers in a list or a table, that `describe` leaves out."""
    match info:
        case inspect.IntType() | inspect.FloatType():
            return int(info.le) if info.le is not None and info.le in COMMON_BOUNDS else None
        case inspect.ListType():
            return common_bound(info.item_type)
        case inspect.DictType():
            return common_bound(info.value_type)
        case inspect.UnionType():
            return next((bound for one in info.types if (bound := common_bound(one)) is not None), None)
    return None
