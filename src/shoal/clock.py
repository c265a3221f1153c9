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
