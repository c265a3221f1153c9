"""How fast an answer arrives, and whether that is too slow.

It is judged when something arrives, not while nothing does: a server may think for a while before it sends a page, or
between its headers and its body, and silence has a limit of its own (`read_timeout`). A server that drips sends a
little again and again, to be never silent and never done.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.fetch.failures import TooSlowError

GRACE = 5.0  # seconds after the first byte in which any speed will do


class Meter:
    """Of one connection or exchange. `min_rate` is in bytes a second; 0 lifts the limit."""

    def __init__(self, min_rate: float, now: Callable[[], float]) -> None:
        self._min_rate = min_rate
        self._now = now
        self.reset()

    def reset(self) -> None:
        """Another answer begins."""
        self._received = 0
        self._since: float | None = None
        self._seconds = 0.0

    def is_too_slow(self, received: int) -> bool:
        """Told whenever so many bytes have arrived: whether they came too slowly."""
        self._received += received
        if self._since is None:
            self._since = self._now()
            return False
        self._seconds = self._now() - self._since
        return self._seconds > GRACE and self._received < self._min_rate * self._seconds

    def error(self) -> TooSlowError:
        return TooSlowError(self._received, self._seconds)
