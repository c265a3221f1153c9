"""How fast an answer arrives, and whether that is too slow.

It is judged when something arrives, not while nothing does: a server may think for a while before it sends a page, or
between its headers and its body, and silence has a limit of its own (`read_timeout`). A server that drips sends a
little again and again, to be never silent and never done.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.fetch.failures import TooSlowError

GRACE = 5.0  # seconds over which the rate is measured; the first bytes may take so long in any case
_DRIPS = 4  # arrivals at least: few of them, with silence between, are a server that thinks


class Meter:
    """Of one connection or exchange. `min_rate` is in bytes a second; 0 lifts the limit.

    The rate is that of the last seconds: else a server that begins with a large piece could drip for as long as it
    likes."""

    def __init__(self, min_rate: float, now: Callable[[], float]) -> None:
        self._min_rate = min_rate
        self._now = now
        self.reset()

    def reset(self) -> None:
        """Another answer begins."""
        self._since: float | None = None
        self._seconds = 0.0
        self._received = self._arrivals = 0

    def is_too_slow(self, received: int) -> bool:
        """Told whenever so many bytes have arrived: whether they came too slowly."""
        self._received += received
        self._arrivals += 1
        now = self._now()
        if self._since is None:
            self._since = now
        self._seconds = now - self._since
        if self._seconds <= GRACE:
            return False
        if self._received >= self._min_rate * self._seconds:
            self._since, self._received, self._arrivals = now, 0, 0
            return False
        return self._arrivals >= _DRIPS

    def error(self) -> TooSlowError:
        return TooSlowError(self._received, self._seconds)
