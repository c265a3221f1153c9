"""Compares what stands in a TOML file with the model: all that is wrong, each with its path. Pure.

msgspec says only the first thing that is wrong, and not at which key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, inspect

from shoal.settings import Settings
from shoal.settings.typed_text import describe
from shoal.spider.declared.file_model import FileTable, SiteTable
from shoal.spider.declared.positions import Path

_SHOWN = 40  # characters of a wrong value
_SECRETS = frozenset({"headers", "proxies", "proxy", "session_headers", "session_key", "plugin_options"})


class Problem(Struct, frozen=True):
    """Something that is wrong in the file."""

    path: Path
    said: str
    is_warning: bool = False
    is_unknown: bool = False  # the last part of the path should not be there

    @property
    def subject(self) -> str:
        """The path as people write it: handler.product.fields.price."""
        return ".".join(str(part) for part in (self.path[:-1] if self.is_unknown else self.path))


def file_problems(table: Mapping[str, object]) -> Iterator[Problem]:
    """What is wrong with the keys and values of a file."""
    yield from _struct(table, _info(FileTable), (), _settings())


def unknown(path: Path, word: str, names: list[str], what: str = "key") -> Problem:
    """`word` is none of the names."""
    near = get_close_matches(word, names, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {_some(names)}" if names else "there is none"
    return Problem(path, f'unknown {what} "{_short(word)}"; {hint}')


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


@cache
def _info(type_: Any) -> inspect.StructType:
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType)
    return info


@cache
def _settings() -> dict[str, inspect.Type]:
    return {field.encode_name: field.type for field in _info(Settings).fields}


def _struct(
    value: object, info: inspect.StructType, path: Path, more: Mapping[str, inspect.Type] | None = None
) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, info)
        return
    fields = {field.encode_name: field.type for field in info.fields}
    if issubclass(info.cls, SiteTable):
        more = _settings()
    for key, inner in value.items():
        at = (*path, key)
        if key in fields:
            yield from _value(inner, fields[key], at)
        elif more is not None and key in more:
            yield from _setting(key, inner, more[key], at)
        else:
            yield Problem(at, unknown(at, key, [*fields, *(more or ())]).said, is_unknown=True)
    for field in info.fields:
        if field.required and field.encode_name not in value:
            yield Problem(path, f'"{field.encode_name}" is missing')


def _value(value: object, info: inspect.Type, path: Path) -> Iterator[Problem]:
    match info:
        case inspect.UnionType():
            yield from _union(value, info, path)
        case inspect.StructType():
            yield from _struct(value, info, path)
        case inspect.ListType(item_type=inner):
            if not isinstance(value, list):
                yield _wrong(path, value, info)
                return
            if not _has_size(value, info):
                yield _wrong(path, value, info)
            for number, one in enumerate(value):
                yield from _value(one, inner, (*path, number))
        case inspect.DictType(value_type=inner, key_type=keys):
            if not isinstance(value, Mapping):
                yield _wrong(path, value, info)
                return
            for key, one in value.items():
                if isinstance(keys, inspect.LiteralType) and key not in keys.values:
                    words = [str(word) for word in keys.values]
                    yield Problem((*path, key), unknown(path, key, words).said, is_unknown=True)
                else:
                    yield from _value(one, inner, (*path, key))
        case _:
            if not _is(value, info):
                yield _wrong(path, value, info)


def _union(value: object, info: inspect.UnionType, path: Path) -> Iterator[Problem]:
    for one in info.types:
        is_table = isinstance(one, inspect.StructType | inspect.DictType) and isinstance(value, Mapping)
        if is_table or (isinstance(one, inspect.ListType) and isinstance(value, list)):
            yield from _value(value, one, path)
            return
    plain = (one for one in info.types if not isinstance(one, inspect.NoneType))
    if not any(_is(value, one) for one in plain):
        yield _wrong(path, value, info)


def _setting(key: str, value: object, info: inspect.Type, path: Path) -> Iterator[Problem]:
    """Settings are checked as in a settings file; tables for hosts and pools where they are read."""
    if key in ("host", "proxies"):
        if not isinstance(value, Mapping):
            yield Problem(path, f"must be {describe(info)}")
        return
    try:
        result = msgspec.convert(value, _setting_types()[key])
    except msgspec.ValidationError:
        result = math.nan
    if isinstance(result, float) and not math.isfinite(result):
        shown = "" if key in _SECRETS else f"{_shown(value)} is not allowed; "
        yield Problem(path, f"{shown}it must be {describe(info)}")


@cache
def _setting_types() -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(Settings)}


def _is(value: object, info: inspect.Type) -> bool:
    """Whether a plain value is of a plain type."""
    match info:
        case inspect.AnyType():
            return True
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType(ge=least):
            return (
                isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)
            )
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.StrType(min_length=least):
            return isinstance(value, str) and len(value) >= (least or 0)
        case inspect.LiteralType(values=words):
            return isinstance(value, str) and value in words
    return False


def _has_size(value: list[object], info: inspect.ListType) -> bool:
    least, most = info.min_length or 0, info.max_length
    return least <= len(value) and (most is None or len(value) <= most)


# -- in words


def _wrong(path: Path, value: object, info: inspect.Type) -> Problem:
    words = _words(info)
    if isinstance(value, str) and (literal := _literals(info)):
        near = get_close_matches(value, literal, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(literal)}"
        return Problem(path, f"{_shown(value)} is not allowed; {hint}")
    return Problem(path, f"{_shown(value)} is not allowed; it must be {words}")


def _literals(info: inspect.Type) -> list[str]:
    types = info.types if isinstance(info, inspect.UnionType) else (info,)
    if any(isinstance(one, inspect.StrType) for one in types):
        return []
    return [str(word) for one in types if isinstance(one, inspect.LiteralType) for word in one.values]


def _words(info: inspect.Type) -> str:
    match info:
        case inspect.UnionType(types=types):
            return " or ".join(_words(one) for one in types if not isinstance(one, inspect.NoneType))
        case inspect.StructType():
            return f"a table ({_some([field.encode_name for field in info.fields])})"
        case inspect.DictType():
            return "a table"
        case inspect.ListType(min_length=int() as least, max_length=most) if least == most:
            return f"a list of {least}"
        case inspect.ListType():
            return "a list"
        case inspect.StrType(min_length=int()):
            return "a text that is not empty"
        case inspect.StrType():
            return "a text"
    return describe(info)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{_short(value)}"' if isinstance(value, str) else _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
