"""Clocks. Time is an argument: nothing in the engine reads a clock that was not passed in."""

from __future__ import annotations

import time as system
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
