"""Time is an input: nothing in the engine reads a clock that was not passed in."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """`time` is for what is stored or shown (epoch seconds), `monotonic` for measuring durations."""

    def time(self) -> float: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
