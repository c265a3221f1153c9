"""Dates, times and durations as pages hold them, as ISO 8601. Pure.

Nearly all are ISO 8601 already; the rest has slashes, names of months in English, or is as in e-mails. "01/02/2026" is
left out, because nobody can say which is the month.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime

_LONGEST = 100  # characters of a date
_TIME = (
    r"(?:(?:T|,|\s|at|um|@)+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*(am|pm|a\.m\.|p\.m\.)?\s*"
    r"(Z|UTC|GMT|[+-]\d{2}:?\d{2}(?::?\d{2})?|[+-]\d{1,2}|[A-Z]{2,4}T)?)?"
)
_NUMBERS = re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_TIME}", re.IGNORECASE)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T?(\d{2})(\d{2})(\d{2})?(Z)?)?")
_MONTH_YEAR = re.compile(r"(\d{4})(?:-(\d{2}))?")
_DAY_FIRST = re.compile(
    rf"(?:[a-z]+,?\s+)?(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+([a-z]{{3,9}})\.?,?\s+(\d{{4}}){_TIME}", re.I
)
_MONTH_FIRST = re.compile(
    rf"(?:[a-z]+,?\s+)?([a-z]{{3,9}})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}}){_TIME}", re.IGNORECASE
)
_DOTS = re.compile(rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){_TIME}", re.IGNORECASE)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTH = {name: number for number, name in enumerate(_MONTHS.split(), 1)}
_SECONDS = range(10**8, 10**10)  # of Unix time: 1973 to 2286
_DURATION = re.compile(
    r"P(?=.)(?:\d+(?:[.,]\d+)?Y)?(?:\d+(?:[.,]\d+)?M)?(?:\d+(?:[.,]\d+)?W)?(?:\d+(?:[.,]\d+)?D)?"
    r"(?:T(?:\d+(?:[.,]\d+)?H)?(?:\d+(?:[.,]\d+)?M)?(?:\d+(?:[.,]\d+)?S)?)?"
)
_HOURS = re.compile(r"(\d{1,3})\s*(?:h|hr|hrs|hours?|std|stunden?|heures?)\b", re.IGNORECASE)
_MINUTES = re.compile(r"(\d{1,4})\s*(?:m|min|mins|minutes?|minuten)\b", re.IGNORECASE)


def iso_date(value: object) -> str | None:
    """A date ("2026-05-01") or a time ("2026-05-01T10:00:00+02:00") by ISO 8601; None if it cannot be read."""
    if isinstance(value, dict):
        value = value.get("@value")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()[:_LONGEST] if isinstance(value, str) else format(value, ".0f")[:20]
    try:
        return _read(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _read(text: str) -> str | None:
    if len(text) == 10 and text[4] == text[7] == "-":
        return date.fromisoformat(text).isoformat()
    if found := _NUMBERS.fullmatch(text):
        year, _, month, day, *time = found.groups()
        return _written(int(year), int(month), int(day), time)
    if found := _MONTH_YEAR.fullmatch(text):
        return text if 1 <= int(found[2] or 1) <= 12 else None
    if found := _COMPACT.fullmatch(text):
        year, month, day, hour, minute, second, zone = found.groups()
        return _written(int(year), int(month), int(day), [hour, minute, second, None, zone])
    if text.isdecimal():
        seconds = int(text) // (1000 if len(text) == 13 else 1)
        return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds in _SECONDS else None
    return _in_words(text)


def _in_words(text: str) -> str | None:
    if found := _DOTS.fullmatch(text):
        day, month, year, *time = found.groups()
        return _written(int(year), int(month), int(day), time)
    if found := _DAY_FIRST.fullmatch(text):
        day, name, year, *time = found.groups()
    elif found := _MONTH_FIRST.fullmatch(text):
        name, day, year, *time = found.groups()
    else:
        return parsedate_to_datetime(text).isoformat() if "," in text else None
    month = _MONTH.get(name[:3].lower())
    return None if month is None else _written(int(year), month, int(day), time)


def _written(year: int, month: int, day: int, time: list[str | None]) -> str:
    hour, minute, second, half, zone = time
    if hour is None:
        return date(year, month, day).isoformat()
    hours = int(hour)
    if half:
        hours = hours % 12 + (12 if half.lower().startswith("p") else 0)
    next_day = hours == 24 and int(minute or 0) == 0
    moment = datetime(year, month, day, 0 if next_day else hours, int(minute or 0), min(int(second or 0), 59))
    return (moment + timedelta(days=next_day)).isoformat() + _offset(zone)


def _offset(zone: str | None) -> str:
    """Names of zones other than UTC are left out: "CST" is in America, China and Cuba."""
    if not zone:
        return ""
    if zone.upper() in ("Z", "UTC", "GMT"):
        return "+00:00"
    if zone[0] not in "+-":
        return ""
    digits = zone[1:].replace(":", "")
    digits = (digits.zfill(2) if len(digits) <= 2 else digits).ljust(4, "0")
    return f"{zone[0]}{digits[:2]}:{digits[2:4]}" if int(digits[:2]) < 24 and int(digits[2:4]) < 60 else ""


def iso_duration(value: object) -> str | None:
    """ "PT1H30M", also for "1 hour 30 min" and for a number of minutes; None if it cannot be read."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"PT{value:.0f}M" if 0 < value < 1e6 else None
    if not isinstance(value, str):
        return None
    text = value.strip()[:_LONGEST]
    if _DURATION.fullmatch(text.upper()) and text[-1:].upper() != "T":
        return text.upper()
    hours, minutes = _HOURS.search(text), _MINUTES.search(text)
    if not hours and not minutes:
        return f"PT{int(text)}M" if text.isascii() and text.isdecimal() and len(text) < 6 else None
    return "PT" + (f"{int(hours[1])}H" if hours else "") + (f"{int(minutes[1])}M" if minutes else "")
