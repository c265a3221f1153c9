"""When to try again: full-jitter backoff, and what a server asks for with Retry-After. Pure."""

from __future__ import annotations

import random
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_MAX_EXPONENT = 62  # beyond any cap, and far below where floats overflow
_JITTER = 0.1  # share of a Retry-After that is added at random


def backoff(attempt: int, base: float, cap: float, rng: random.Random) -> float:
    """Full jitter: random in 0 … base * 2^(attempt - 1), at most `cap`. `attempt` counts from 1."""
    exponent = min(max(attempt, 1) - 1, _MAX_EXPONENT)
    return rng.uniform(0.0, min(cap, base * 2.0**exponent))


def retry_after(value: str | None, now: float, cap: float) -> float | None:
    """Seconds to wait by a Retry-After header (seconds or an HTTP date); None if it says nothing usable."""
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), cap)
    when = _http_date(value)
    return min(when - now, cap) if when is not None and when > now else None


def _http_date(value: str) -> float | None:
    try:
        when = parsedate_to_datetime(value)
        # Without a zone it would be read as local time; HTTP dates are GMT by definition.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def delay(
    attempt: int, *, base: float, cap: float, rng: random.Random, server_asks: float | None = None
) -> float:
    """How long to wait before the next attempt: never less than what the server asks for.

    The jitter on top keeps tasks that were turned away together from coming back together.
    """
    if server_asks:
        return server_asks + rng.uniform(0.0, max(base, server_asks * _JITTER))
    return backoff(attempt, base, cap, rng)
