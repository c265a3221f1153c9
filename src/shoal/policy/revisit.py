"""When a page is visited again."""

from __future__ import annotations

import re

from msgspec import Struct

from shoal.humanize import read_span

_BOUNDS = re.compile(r"auto(?:\s+([^\s-]+)\s*-\s*([^\s-]+))?")


class Pace(Struct, frozen=True):
    """What `revisit` means: never sooner than `shortest`, never later than `longest`, and in between as often as the
    page changes."""

    shortest: float
    longest: float

    @property
    def auto(self) -> bool:
        return self.shortest < self.longest


class RevisitPlan(Struct, frozen=True, omit_defaults=True):
    """What is known about all pages of a host that are visited again and again."""


NO_PLAN = RevisitPlan()


def read_pace(text: str, shortest: float, longest: float) -> Pace | None:
    """None: the page is not visited again. The bounds are those of `auto`. Raises ValueError."""
    text = text.strip()
    if text in ("", "never"):
        return None
    if (bounds := _BOUNDS.fullmatch(text)) is not None:
        if bounds[1] is None:
            return Pace(shortest, longest)
        low, high = read_span(bounds[1]), read_span(bounds[2])
        if low and high and low <= high:
            return Pace(low, high)
    elif seconds := read_span(text):
        return Pace(seconds, seconds)
    raise ValueError(f"{text[:40]!r} is no time: write 1h, auto, auto 10m-7d, or never")


def is_pace(text: object) -> bool:
    """Whether it can stand for a pace."""
    try:
        return isinstance(text, str) and (read_pace(text, 1, 2) or True) is not None
    except ValueError:
        return False


def learned(rate: bytes, *, changed: bool, waited: float, plan: RevisitPlan = NO_PLAN) -> bytes:
    return rate


def wait(pace: Pace, rate: bytes, plan: RevisitPlan = NO_PLAN, *, budget: float = 0.0) -> float:
    return pace.shortest
