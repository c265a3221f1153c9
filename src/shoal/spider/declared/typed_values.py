"""From what was found on a page to a value of the type that a field has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from shoal.html.page_links import join
from shoal.html.records.availability import availability_of
from shoal.html.records.currencies import code_of
from shoal.html.records.dates import iso_date
from shoal.html.records.prices import parse_price
from shoal.settings.typed_text import FALSE
from shoal.spider.declared.file_model import FieldType
from shoal.spider.declared.written_numbers import number_in

Convert: TypeAlias = Callable[[Any, str], Any]

_MOST = 10_000  # characters of a text that is to be a number, a date or a word
_DIGITS = 100  # of a number
_WORDS: Mapping[FieldType, str] = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "price": "a price",
    "currency": "a currency",
    "availability": "an availability",
    "date": "a date",
    "datetime": "a time",
    "url": "a URL",
    "json": "JSON",
}
PYTHON_TYPES: Mapping[FieldType, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "decimal": Decimal,
    "price": Decimal,
    "currency": str,
    "availability": str,
    "bool": bool,
    "date": date,
    "datetime": datetime,
    "url": str,
    "html": str,
    "json": Any,
}


class Unreadable(ValueError):
    """A value is not of the type that it should have."""


def converter(kind: FieldType | None, format_: str | None) -> Convert:
    """The function that makes a value of that type; it raises Unreadable. Without a type a value stays as it is. It is
    given the value, and what URLs are relative to."""
    if kind is None:
        return lambda value, base: value
    read = _reader(kind, format_)

    def convert(value: Any, base: str) -> Any:
        try:
            result = join(base, str(value).strip()) if read is None else read(value)
        except (ValueError, OverflowError, InvalidOperation, RecursionError):
            result = None
        if result is None:
            shown = " ".join(str(value)[:100].split())
            shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
            raise Unreadable(f'"{shown}" is not {_WORDS.get(kind, kind)}')
        return result

    return convert


def _reader(kind: FieldType, format_: str | None) -> Callable[[Any], Any] | None:
    """None: for URLs, which need a base."""
    readers: dict[FieldType, Callable[[Any], Any] | None] = {
        "str": _str,
        "html": _str,
        "int": lambda value: _int(value, format_),
        "float": lambda value: _float(value, format_),
        "decimal": lambda value: _number(value, format_),
        "price": lambda value: _price(value, format_),
        "currency": _currency,
        "availability": _availability,
        "bool": _bool,
        "date": lambda value: _date(value, format_),
        "datetime": lambda value: _datetime(value, format_),
        "url": None,
        "json": _json,
    }
    return readers[kind]


def _text(value: Any) -> str:
    return (value if isinstance(value, str) else str(value))[:_MOST].strip()


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _number(value: Any, sample: str | None, *, whole: bool = False) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        number = Decimal(str(value))
        return number if number.is_finite() else None
    found = number_in(_text(value), whole=whole, sample=sample)
    return None if found is None or len(found.as_tuple().digits) > _DIGITS else found


def _int(value: Any, sample: str | None) -> int | None:
    found = _number(value, sample, whole=True)
    return None if found is None or found != found.to_integral_value() else int(found)


def _float(value: Any, sample: str | None) -> float | None:
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d{1,30}(?:\.\d{1,30})?[eE][-+]?\d{1,3}\s*", value):
        return float(value)
    found = _number(value, sample)
    return None if found is None else float(found)


def _price(value: Any, sample: str | None) -> Decimal | None:
    if sample or not isinstance(value, str):
        return _number(value, sample)
    found = parse_price(_text(value))
    return None if found is None else Decimal(found.text)


def _currency(value: Any) -> str | None:
    text = _text(value)
    if re.fullmatch(r"[A-Za-z]{3}", text):
        return text.upper()
    found = parse_price(text)
    return found.currency if found is not None and found.currency else code_of(text)


def _availability(value: Any) -> str | None:
    if isinstance(value, bool):
        return "in_stock" if value else "out_of_stock"
    return availability_of(_text(value))


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in (*FALSE, "")
    return bool(value)


def _date(value: Any, format_: str | None) -> date | None:
    found = _datetime(value, format_)
    return None if found is None else found.date()


def _datetime(value: Any, format_: str | None) -> datetime | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
    text = _text(value)
    if format_:
        return datetime.strptime(text, format_)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError):
            return read(text)
    found = iso_date(text)  # "30 May 2031"
    return None if found is None else datetime.fromisoformat(found)


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
