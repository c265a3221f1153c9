"""Dates of sitemaps and feeds: W3C date and time (ISO 8601), RFC 822, and what is written instead of them."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_tz

from msgspec import Struct

_LONGEST = 64  # characters
_ISO = re.compile(
    r"(\d{4})(?:-?(\d{2})(?:-?(\d{2})(?:[T\s]+(\d{2}):?(\d{2})(?::?(\d{2})(?:[.,]\d{1,9})?)?\s*+(Z|[+-]\d{2}:?\d{2}|[+-]\d{2}|UTC|GMT)?)?)?)?",
    re.IGNORECASE,
)
_ZONES = timedelta(hours=14), timedelta(hours=12)  # how far the day of a place is ahead of and behind UTC
_SECOND = timedelta(seconds=1)


class Moment(Struct, frozen=True):
    """A date as written may be any moment from `earliest` to `latest` (seconds since the epoch)."""

    earliest: float
    latest: float


def read_date(text: str) -> Moment | None:
    """None: it is no date."""
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    try:
        found = _ISO.fullmatch(text)
        return _iso(found) if found else _rfc822(text)
    except (ValueError, OverflowError):
        return None


def _iso(found: re.Match[str]) -> Moment | None:
    year, month, day, hour, minute, second, zone = found.groups()
    begin = datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)
    if hour is None:
        months = (0 if month else 11) + begin.month
        days = 1 if day else monthrange(begin.year, months)[1]
        end = begin.replace(month=months) + timedelta(days=days) - _SECOND
        return _anywhere(begin, end)
    at = begin + timedelta(hours=int(hour), minutes=int(minute), seconds=int(second or 0))
    if int(hour) > 24 or int(minute) > 59 or int(second or 0) > 60:
        return None
    if zone is None:
        return _anywhere(at, at)
    exact = at.replace(tzinfo=_zone(zone)).timestamp()
    return Moment(exact, exact)


def _anywhere(begin: datetime, end: datetime) -> Moment:
    """Nobody says in which time zone it is."""
    ahead, behind = _ZONES
    return Moment(begin.timestamp() - ahead.total_seconds(), end.timestamp() + behind.total_seconds())


def _zone(text: str) -> timezone:
    if text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-size if text[0] == "-" else size)


def _rfc822(text: str) -> Moment | None:
    read = parsedate_tz(text)
    if read is None:
        return None
    at = datetime(*read[:6], tzinfo=UTC)
    if read[9] is None:
        return _anywhere(at, at)
    exact = at.timestamp() - read[9]
    return Moment(exact, exact)
