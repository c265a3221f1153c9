"""A clock that moves only when a test says so."""

from __future__ import annotations


class ManualClock:
    """Both clocks of `shoal.clock.Clock`, moved by hand. They advance together; only the wall clock can jump."""

    def __init__(self, wall: float = 1_000_000_000.0, monotonic: float = 1_000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def time(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Time passes."""
        if seconds < 0:
            raise ValueError(
                f"advance({seconds}): time does not run backwards; jump_wall() sets the wall clock"
            )
        self._wall += seconds
        self._monotonic += seconds

    def jump_wall(self, seconds: float) -> None:
        """Somebody sets the machine's date: the wall clock jumps either way, no time passes."""
        self._wall += seconds

    def __repr__(self) -> str:
        return f"<ManualClock wall={self._wall} monotonic={self._monotonic}>"
