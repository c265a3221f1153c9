"""How often a page is visited, as people write it: `1h`, `auto`, `auto 10m-7d`, `never`."""

from __future__ import annotations

import re

from msgspec import Struct

from shoal.text.humanize import read_span

_DAY = 86_400.0


class Pace(Struct, frozen=True):
    """How often a page is visited."""

    shortest: float  # seconds
    longest: float
    auto: bool = False  # between the two, as often as it changes

    def held(self, wait: float) -> float:
        return max(self.shortest, min(self.longest, wait))


_AUTO = re.compile(r"auto(?: +([^-]{1,20})-([^-]{1,20}))?", re.ASCII)


def _span(text: str) -> float:
    seconds = read_span(text) or 0.0
    if not 1.0 <= seconds <= 10_000 * _DAY:
        raise ValueError(f"{text[:40]!r} is not a time: write it like 30s, 10m, 2h, 7d or 4w")
    return seconds


def read_pace(text: str, shortest: float | str, longest: float | str) -> Pace | None:
    """What `revisit` says; None: never. The bounds hold for "auto" without bounds of its own."""
    text = text.strip()
    if text in ("", "never"):
        return None
    if not text.startswith("auto"):
        try:
            return Pace(_span(text), _span(text))
        except ValueError:
            raise ValueError(
                f"{text[:40]!r} is not a time to visit again: write 1h (1s is the least), auto, auto 10m-7d or never"
            ) from None
    found = _AUTO.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not understood: write auto, or auto 10m-7d with bounds")
    low = _span(found[1]) if found[1] else _seconds(shortest)
    high = _span(found[2]) if found[2] else _seconds(longest)
    if low > high:
        raise ValueError(f"{text[:40]!r}: the shorter time comes first, as in auto 10m-7d")
    return Pace(low, high, auto=True)


def _seconds(value: float | str) -> float:
    return _span(value) if isinstance(value, str) else value
