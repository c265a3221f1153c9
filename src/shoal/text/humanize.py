"""Numbers as people read them."""

from __future__ import annotations

import re
from decimal import Decimal

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def read_span(text: str) -> float | None:
    """ "30s", "10m", "2h", "1d", "1w" in seconds; None: it is none of these."""
    span = _SPAN.fullmatch(text.strip())
    return None if span is None else float(span[1]) * _SECONDS[span[2]]


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, noun: str, nouns: str = "") -> str:
    """ "1 page", "2 pages"; `nouns` where an s is not enough."""
    return f"1 {noun}" if number == 1 else f"{count(number)} {nouns or noun + 's'}"


def rate(per_second: float) -> str:
    return f"{per_second:,.1f}" if per_second < 100 else f"{per_second:,.0f}"


def speed(per_second: float | None) -> str:
    """ "4", "0.33", "1,250"; "-" where there is no limit."""
    return "-" if per_second is None else about(per_second)


def about(number: float) -> str:
    """ "4", "0.33", "1,250": two digits, or all of a larger number. Never with an exponent."""
    return f"{number:,.0f}" if number >= 100 else f"{Decimal(f'{number:.2g}'):f}"


def latency(seconds: float | None) -> str:
    """ "-", "4.2 ms", "81 ms", "1.25 s"."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def duration(seconds: float | None) -> str:
    """ "-", "8.2 s", "1:05", "2:00:00", "3 d 4 h"."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def span(seconds: float) -> str:
    """ "0.4 s", "41 s", "10 min", "3 h", "4 d": for sentences, where the exact second does not matter."""
    if seconds < 1:
        return f"{max(seconds, 0.0):.1f} s"
    for most, length, unit in ((90, 1, "s"), (90 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def size(octets: int) -> str:
    """ "812 B", "1.5 MB": decimal units, as disks and networks count."""
    value = float(octets)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def percent(share: float | None) -> str:
    """Rounded down, so that 100 % means all."""
    return "-" if share is None else f"{int(share * 1000) / 10:.1f} %"


def by_count(counts: dict[str, int], limit: int = 6) -> str:
    """ "timeout 12 · http_503 7", most frequent first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} {count(number)}" for name, number in ranked[:limit]]
    if len(ranked) > limit:
        shown.append(f"{len(ranked) - limit} more")
    return " · ".join(shown)


def printable(text: str) -> str:
    """Safe for a terminal: control and formatting characters, which could forge text, become U+FFFD."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
