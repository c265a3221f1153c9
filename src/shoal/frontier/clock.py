"""The frontier's own time: epoch seconds that never jump.

The wall clock is read once; from then on only the monotonic clock moves this time. If somebody sets the wall clock an
hour forward or back, no retry comes early and no lease expires.
"""

from __future__ import annotations

from shoal.clock import Clock

_DRIFT = 1e-3  # seconds a second that two clocks may drift apart


class Timebase:
    def __init__(self, clock: Clock, offset: float | None = None) -> None:
        self._clock = clock
        self.offset = clock.time() - clock.monotonic() if offset is None else offset

    def now(self) -> float:
        return self._clock.monotonic() + self.offset


class FrontierClock(Timebase):
    """The clock of a process that uses a frontier: `now` is the frontier's time, set by the answers to claims, and
    before the first `sync` that of this machine. `time` and `monotonic` are those of the machine."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._synced_at: float | None = None

    def time(self) -> float:
        return self._clock.time()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sync(self, frontier_time: float) -> None:
        """Sets the clock by the answer to a claim. Every answer arrives a little late, so the quickest one is the most
        exact. The clock never goes back: a probe must not seem to start before its time."""
        monotonic = self._clock.monotonic()
        offset = frontier_time - monotonic
        if self._synced_at is not None:
            offset = max(offset, self.offset - _DRIFT * (monotonic - self._synced_at))
        self.offset, self._synced_at = offset, monotonic
