"""Dates and times as pages hold them, as ISO 8601. Pure."""

from __future__ import annotations

import re
from datetime import date, datetime

_LONGEST = 100  # characters of a date
_ISO_LIKE = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
    r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*(Z|UTC|GMT|[+-]\d{2}:?\d{2}|[+-]\d{1,2})?)?",
    re.IGNORECASE,
)


def iso_date(value: object) -> str | None:
    """A date ("2026-05-01") or a time ("2026-05-01T10:00:00+02:00") by ISO 8601; None if it cannot be read."""
    if isinstance(value, dict):
        value = value.get("@value")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()[:_LONGEST]
    try:
        return _read(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _read(text: str) -> str | None:
    if len(text) == 10 and text[4] == text[7] == "-":
        return date.fromisoformat(text).isoformat()
    found = _ISO_LIKE.fullmatch(text)
    if found is not None:
        return _from_numbers(found)
    return None


def _from_numbers(found: re.Match[str]) -> str:
    year, month, day, hour, minute, second, zone = found.groups()
    day_read = date(int(year), int(month), int(day))
    if hour is None:
        return day_read.isoformat()
    time = datetime(*day_read.timetuple()[:3], int(hour), int(minute), int(second or 0)).isoformat()
    return time + _offset(zone)


def _offset(zone: str | None) -> str:
    if not zone:
        return ""
    if zone.upper() in ("Z", "UTC", "GMT"):
        return "+00:00"
    sign, digits = zone[0], zone[1:].replace(":", "")
    digits = digits.zfill(2).ljust(4, "0")
    return f"{sign}{digits[:2]}:{digits[2:]}"
