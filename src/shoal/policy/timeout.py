"""How long to wait for a host, as RFC 6298 does it for packets. Pure.

The timeout is the smoothed latency plus four times its deviation, at least three times the latency, and between
`min_timeout` and `total_timeout`. A timeout doubles the next one until an answer comes; requests that time out together
count as one. A host that has not answered yet gets `first_timeout`, and twice that after its first timeout.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.protocol import TIMEOUTS, Limits, Observation
from shoal.settings import Settings

_LATENCY_GAIN = 1 / 8
_DEVIATION_GAIN = 1 / 4
_DEVIATIONS = 4
_LATENCIES = 3
_FIRST_DOUBLED = 2
_MAX_DOUBLINGS = 20  # beyond any total_timeout


class TimeoutState(Struct, frozen=True, omit_defaults=True):
    latency: float | None = None  # smoothed; None: no answer yet
    deviation: float = 0.0
    doublings: int = 0
    doubled_at: float = 0.0


class TimeoutPolicy:
    name = "timeout"
    State = TimeoutState

    def __init__(self, settings: Settings) -> None:
        self._most = settings.total_timeout
        self._least = settings.min_timeout
        self._first = settings.first_timeout

    def observe(self, state: TimeoutState, seen: Observation) -> TimeoutState:
        if seen.kind in TIMEOUTS:
            if seen.started < state.doubled_at:
                return state
            doublings = min(state.doublings + 1, _MAX_DOUBLINGS)
            return replace(state, doublings=doublings, doubled_at=seen.ended)
        # Fast error pages would make it shorter than pages need.
        return _timed(state, seen) if seen.kind == "ok" else state

    def limits(self, state: TimeoutState, now: float) -> Limits:
        most = self._most if state.latency is not None else min(self._most, _FIRST_DOUBLED * self._first)
        plain = self._plain(state)
        return Limits(timeout=prolonged(plain, state.doublings, most), longest_timeout=most)

    def _plain(self, state: TimeoutState) -> float:
        if state.latency is None:
            return self._first
        spread = state.latency + _DEVIATIONS * state.deviation
        return max(self._least, spread, _LATENCIES * state.latency)


def prolonged(timeout: float, cut_off: int, most: float) -> float:
    """The timeout, doubled for every time it was not enough."""
    return min(most, timeout * 2.0 ** min(cut_off, _MAX_DOUBLINGS))


def _timed(state: TimeoutState, seen: Observation) -> TimeoutState:
    elapsed = seen.elapsed
    # An answer that was on its way before the timeout does not end the doubling.
    doublings = 0 if seen.started >= state.doubled_at else state.doublings
    if state.latency is None:
        return TimeoutState(elapsed, elapsed / 2, doublings, state.doubled_at)
    error = elapsed - state.latency
    deviation = state.deviation + (abs(error) - state.deviation) * _DEVIATION_GAIN
    return TimeoutState(state.latency + error * _LATENCY_GAIN, deviation, doublings, state.doubled_at)
