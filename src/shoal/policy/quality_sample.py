"""What the rows of one page show: how many they are, which fields are filled, how large numbers are. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shoal.model import Row

ROWS = ""  # stands for the page itself among its fields: filled if it has rows, and their number
_LOOKED_AT = 50  # rows of a page; the first ones tell enough
_INNER = 8  # fields of a field; with more, it is a table of its own, whose names differ from page to page
_DEPTH = 3
_LARGEST = 30.0  # decimal digits that are told apart
_NUMBER = re.compile(r"[^\d.,]{0,4}(\d[\d.,'\u00a0\u202f ]{0,20})[^\d]{0,4}")
_FRACTION = re.compile(r"[.,](\d{1,2})$")
_MARKS = re.compile(r"[.,'\u00a0\u202f ]")


class FieldSeen(Struct, frozen=True):
    """A field in the rows of one page."""

    filled: float  # share of the rows
    numeric: float = 0.0  # share of the rows in which it is a number
    number: float | None = None  # mean size of these numbers
    named: bool = True  # rows have its name, even if it is empty
    before: float | None = None  # as `number`, at the page's last visit; None: not known


class PageSample(Struct, frozen=True):
    """One page, for one kind of rows."""

    unit: str  # see `unit_of`
    fields: Mapping[str, FieldSeen]
    job: int = 0  # a number that stands for the run
    again: bool = False  # the page was visited before: by this job, or as one that a second look is taken at
    revisit: bool = False  # … by this job, and its rows of then are known
    code: int = 0  # a number that stands for the handler's code
    at: float = 0.0

    @property
    def rows(self) -> int:
        number = self.fields[ROWS].number
        return 0 if number is None else round(number_of(number))


def unit_of(spider: str, handler: str, table: str = "") -> str:
    """What is watched together: the rows of one kind that a handler yields."""
    parts = (spider, handler) if table in ("", handler) else (spider, handler, table)
    return "/".join(part.replace("/", "|") for part in parts)


def samples_of(
    spider: str, handler: str, rows: Sequence[Row], known: Iterable[str] = (), usual: str = ""
) -> list[PageSample]:
    """A sample for each kind of rows. `known`: units of the host; those of the handler without rows on this page have a
    sample, too. `usual`: the kind of rows that needs no name of its own."""
    prefix = unit_of(spider, handler)
    by_unit: dict[str, list[Mapping[str, Any]]] = {}
    counts: dict[str, int] = {}
    for row in rows:
        unit = prefix if row.table in ("", handler, usual) else unit_of(spider, handler, row.table)
        counts[unit] = counts.get(unit, 0) + 1
        if counts[unit] <= _LOOKED_AT:
            by_unit.setdefault(unit, []).append(_fields_of(row))
    own = [unit for unit in known if unit == prefix or unit.startswith(f"{prefix}/")]
    for unit in own if own or counts else [prefix]:
        counts.setdefault(unit, 0)
    return [
        PageSample(unit, {ROWS: _rows_seen(number), **_seen(by_unit.get(unit, []))})
        for unit, number in counts.items()
    ]


def _rows_seen(number: int) -> FieldSeen:
    return FieldSeen(1.0, 1.0, _size(number)) if number else FieldSeen(0.0)


def _seen(rows: Sequence[Mapping[str, Any]]) -> dict[str, FieldSeen]:
    found: dict[str, FieldSeen] = {}
    for name in {name: None for row in rows for name in row}:
        values = [row.get(name) for row in rows]
        numbers = [size for value in values if (size := size_of(value)) is not None]
        found[name] = FieldSeen(
            sum(map(is_filled, values)) / len(rows),
            len(numbers) / len(rows),
            sum(numbers) / len(numbers) if numbers else None,
        )
    return found


def _fields_of(row: Row) -> dict[str, Any]:
    """The fields of a row by name; those inside a field as "offer.price"."""
    try:
        data = msgspec.json.decode(row.data)
    except msgspec.DecodeError:
        return {}
    if not isinstance(data, dict):
        return {}
    found: dict[str, Any] = {}
    for name, value in data.items():
        if name.startswith("_") and row.meta:
            continue  # where the row is from, by row_meta
        found[name] = value
        if isinstance(value, dict) and len(value) <= _INNER:
            found |= {f"{name}.{inner}": one for inner, one in value.items()}
    return found


def is_filled(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a field says something. 0 and false do."""
    if value is None or value == "":
        return False
    if isinstance(value, str):
        return not value.isspace()
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return any(is_filled(one, depth - 1) for one in inner) if depth else bool(value)
    return True


def size_of(value: Any) -> float | None:
    """The size of a number, also of one in a short text such as "1.299,00 €"; None: it is no number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _size(value) if isinstance(value, int) or math.isfinite(value) else None
    if not isinstance(value, str) or not 0 < len(value) <= 32:
        return None
    read = _NUMBER.fullmatch(value.strip())
    if read is None:
        return None
    digits = read[1].rstrip(" .,'\u00a0\u202f")
    cents = _FRACTION.search(digits)
    whole = _MARKS.sub("", digits[: cents.start()] if cents else digits)
    try:
        number = float(f"{whole or 0}.{cents[1] if cents else 0}")
    except ValueError:  # digits of a script that float does not read
        return None
    return _size(number)


def _size(number: float) -> float:
    """The decimal logarithm of the number and 1. So 0, 1 and 2 are near each other, as 1000 and 1001 are: a counter
    that begins, or a stock that is empty, has not become a thousand times as large or small."""
    return min(math.log10(1 + abs(number)), _LARGEST)


def number_of(size: float) -> float:
    return max(0.0, 10 ** min(size, 2 * _LARGEST) - 1)
