"""Times of day in cron's five fields: minute, hour, day of the month, month, day of the week. In UTC, and pure.

    */15 * * * *        every quarter of an hour
    30 4 * * 1-5        at 4:30 on working days
    0 0 1,15 * *        at midnight on the 1st and the 15th

Fields are numbers, names of months and days (jan, mon), ranges, steps and lists of these. As in every cron, a time
matches if the day of the month or the day of the week does, when both are given.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from shoal.errors import UsageError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_YEARS = 8  # the longest gap between two 29ths of February


class Cron(Struct, frozen=True):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    any_day: bool  # the day of the month is *
    any_weekday: bool

    def after(self, time: float) -> float:
        """The first matching minute later than `time` (epoch seconds)."""
        at = datetime.fromtimestamp(time, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = at.year + _YEARS
        while at.year <= end:
            if at.month not in self.months or not self._is_day(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        raise UsageError("this date never comes; check the day and the month")

    def _is_day(self, at: datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return day and weekday
        return day or weekday


def parse_cron(text: str) -> Cron:
    words = text.lower().split()
    if len(words) != len(_FIELDS):
        raise UsageError(
            f"cron {text!r} has {len(words)} fields: write five, minute hour day month weekday, as in '30 4 * * 1-5'"
        )
    minutes, hours, days, months, weekdays = (
        _field(word, *field) for word, field in zip(words, _FIELDS, strict=True)
    )
    weekdays = frozenset(day % 7 for day in weekdays)
    return Cron(minutes, hours, days, months, weekdays, words[2] == "*", words[4] == "*")


def _field(text: str, name: str, lowest: int, highest: int, names: tuple[str, ...]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and (not _is_number(step) or int(step) == 0):
            raise _wrong(part, name, lowest, highest)
        if span == "*":
            first, last = lowest, highest
        else:
            low, dash, high = span.partition("-")
            first = _number(low, part, name, lowest, highest, names)
            last = _number(high, part, name, lowest, highest, names) if dash else first
            if slash and not dash:
                last = highest
        if first > last:
            raise _wrong(part, name, lowest, highest)
        values.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(values)


def _number(text: str, part: str, name: str, lowest: int, highest: int, names: tuple[str, ...]) -> int:
    if text in names:
        return names.index(text) + lowest
    if not _is_number(text) or not lowest <= int(text) <= highest:
        raise _wrong(part, name, lowest, highest)
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def _wrong(part: str, name: str, lowest: int, highest: int) -> UsageError:
    return UsageError(
        f"cron: {part!r} is no {name}: write numbers from {lowest} to {highest}, as in 5, 1-5 or */2"
    )
