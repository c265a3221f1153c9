"""Clocks, and dates as servers write them. Time is an argument: nothing in the engine reads a clock that was not passed
in."""

from __future__ import annotations

import time as system
from datetime import UTC
from typing import Protocol


class Clock(Protocol):
    """`time` is for what is stored or shown (epoch seconds), `monotonic` for measuring durations."""

    def time(self) -> float: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    time = staticmethod(system.time)
    monotonic = staticmethod(system.monotonic)


class PageClock:
    """The time at which the page was fetched that is handled now."""

    monotonic = staticmethod(system.monotonic)

    def __init__(self) -> None:
        self.at = 0.0

    def time(self) -> float:
        return self.at


def http_date(text: str) -> float | None:
    """The date of a header such as Last-Modified, in epoch seconds; None if it is none."""
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(text)
        # Without a zone it would be read as local time; HTTP dates are GMT by definition.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
