"""An output that is away: told once, and tried again after longer and longer pauses."""

from __future__ import annotations

import random
import time

from shoal.errors import SinkAway
from shoal.events import event

_FIRST, _LONGEST = 0.5, 5.0  # seconds


class Outage:
    def __init__(self) -> None:
        self._sink, self._reason = "", ""
        self._since = 0.0
        self._tries = 0

    def pause(self, error: SinkAway) -> float:
        """Seconds to wait before the next try."""
        if not self._tries:
            self._sink, self._since = error.sink, time.monotonic()
        if error.reason != self._reason:
            self._reason = error.reason
            event("sink_lost", sink=error.sink, reason=error.reason)
        longest: float = min(_LONGEST, _FIRST * 2 ** min(self._tries, 10))
        self._tries += 1
        return random.uniform(0.5, 1.0) * longest  # many workers do not return at once

    def end(self) -> None:
        if self._tries:
            self._tries, self._reason = 0, ""
            event("sink_back", sink=self._sink, seconds=time.monotonic() - self._since)
