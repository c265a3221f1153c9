"""The frontier's time, as a process knows it between two claims."""

from __future__ import annotations

from shoal.clock import Clock
from shoal.frontier.timebase import Timebase

_DRIFT = 1e-3  # seconds a second that two clocks may part


class FrontierClock(Timebase):
    """Until the first `sync` it goes by the clock of this machine."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._synced_at: float | None = None

    def sync(self, frontier_time: float) -> None:
        """Sets the clock by the answer to a claim. An answer is always a little late, so the one that came quickest is
        nearest to the truth. Were time to go back, a probe could seem to start before its time."""
        monotonic = self._clock.monotonic()
        offset = frontier_time - monotonic
        if self._synced_at is not None:
            offset = max(offset, self.offset - _DRIFT * (monotonic - self._synced_at))
        self.offset, self._synced_at = offset, monotonic
