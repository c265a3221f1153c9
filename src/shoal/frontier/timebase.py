"""The frontier's own time: epoch seconds that never jump.

Wall time is read once, to anchor; from then on only the monotonic clock moves it. So a wall clock that is set an
hour forward or back neither releases retries early nor expires every lease at once.
"""

from __future__ import annotations

from shoal.clock import Clock


class Timebase:
    def __init__(self, clock: Clock, offset: float | None = None) -> None:
        self._clock = clock
        self.offset = clock.time() - clock.monotonic() if offset is None else offset

    def now(self) -> float:
        return self._clock.monotonic() + self.offset
