"""The cleaning steps of a field: from the values that were found to those that are wanted. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import unescape
from typing import Any, TypeAlias

from msgspec import UNSET

from shoal.spider.declared.file_model import CleanTable, CleanWord

Values: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Values], Values]

_MOST = 10_000  # pieces that a text is split into


def cleaner(steps: Iterable[CleanWord | CleanTable]) -> Step | None:
    """All steps as one; None: there is none. What is no text passes the steps for texts unchanged."""
    made = [_step(one) for one in steps]
    if not made:
        return None

    def clean(values: Values) -> Values:
        for step in made:
            values = step(values)
        return values

    return clean


def _step(given: CleanWord | CleanTable) -> Step:
    if isinstance(given, str):
        return _LISTS[given] if given in _LISTS else partial(_each, _WORDS[given])
    for name in given.__struct_fields__:
        value = getattr(given, name)
        if value is not None and value is not UNSET:
            return _with_value(name, value)
    raise ValueError("a cleaning step has one key")


def _each(function: Callable[[str], str], values: Values) -> Values:
    return [function(one) if isinstance(one, str) else one for one in values]


_WORDS: Mapping[str, Callable[[str], str]] = {
    "strip": str.strip,
    "lower": str.lower,
    "upper": str.upper,
    "title": str.title,
    "squeeze": lambda text: " ".join(text.split()),
    "digits": lambda text: re.sub(r"\D", "", text),
    "unescape": unescape,
}


def _unique(values: Values) -> Values:
    seen: set[str] = set()
    return [one for one in values if not (repr(one) in seen or seen.add(repr(one)))]  # type: ignore[func-returns-value]


_LISTS: Mapping[str, Step] = {
    "unique": _unique,
    "sort": lambda values: sorted(values, key=str),
    "reverse": lambda values: values[::-1],
    "last": lambda values: values[-1:],
}


def _with_value(name: str, value: Any) -> Step:
    match name:
        case "split":
            return lambda values: [piece for one in values for piece in _split(one, value)]
        case "join":
            return lambda values: [value.join(str(one) for one in values)] if values else []
        case "map":
            return lambda values: [value.get(one, one) if isinstance(one, str) else one for one in values]
        case "remove":
            return partial(_each, partial(_removed, [value] if isinstance(value, str) else value))
        case "replace":
            return partial(_each, lambda text: text.replace(value[0], value[1]))
        case "before":
            return partial(_each, lambda text: text.partition(value)[0].strip())
        case "after":
            return partial(_each, lambda text: text.partition(value)[2].strip() if value in text else text)
        case "prefix":
            return partial(_each, lambda text: value + text)
        case "suffix":
            return partial(_each, lambda text: text + value)
        case "cut":
            return partial(_each, lambda text: text[:value])
    raise ValueError(f"no cleaning step {name}")


def _split(one: Any, sign: str) -> Values:
    if not isinstance(one, str):
        return [one]
    return [piece for piece in (part.strip() for part in one.split(sign, _MOST)) if piece]


def _removed(words: list[str], text: str) -> str:
    for word in words:
        if word:
            text = text.replace(word, "")
    return text.strip()
