"""Slows requests to a host that answers "too many requests", and speeds up again gently. Pure.

A 429 (or a 503 with Retry-After) doubles the host's interval, up to 32 times. Requests that started before the slower
rate was in force count as one, because they are refused together. After a quiet time, which is longer for a host that
did this before, every answer takes back a tenth of the excess. Without the quiet time the crawl would exceed the host's
limit again and again.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.protocol import Limits, Observation
from shoal.settings import Settings

UNLIMITED_BASE = 0.1  # the interval to multiply where none is configured
MAX_FACTOR = 32.0
_RECOVERY = 0.9  # of the excess is left after one answer
_RECOVERED = 1.05  # is as good as 1
_QUIET = 60.0  # seconds before recovery begins, for every slow-down so far
_MAX_QUIET = 600.0
_FORGET = 3600.0  # seconds without a complaint, and the state starts again


class RateState(Struct, frozen=True, omit_defaults=True):
    factor: float = 1.0
    base: float = 0.0  # the interval that is multiplied
    in_force: float = 0.0  # requests that started earlier did not go by the slower rate
    blocked_until: float = 0.0
    answers: int = 0  # complaints since the host was last forgotten
    slowdowns: int = 0  # … and how often they made a difference
    status: str = ""  # the last of them: "429"

    @property
    def knows_from(self) -> float:
        """Only requests that started after this show whether the slow-down was enough."""
        return max(self.in_force, self.blocked_until)


class RatePolicy:
    name = "rate"
    State = RateState

    def __init__(self, settings: Settings) -> None:
        self._base = 1 / settings.rate if settings.rate else UNLIMITED_BASE
        self._retry_after_cap = settings.retry_after_cap

    def observe(self, state: RateState, seen: Observation) -> RateState:
        if seen.kind == "http_429" or (seen.kind == "http_503" and seen.retry_after is not None):
            return self._slowed(state, seen)
        if state.slowdowns and seen.answered and seen.started >= state.knows_from:
            return self._recovered(state, seen.ended - state.knows_from)
        return state

    def limits(self, state: RateState, now: float) -> Limits:
        interval = self._interval(state) if state.factor > 1 else None
        return Limits(
            interval=interval, blocked_until=state.blocked_until or None, why=self._why(state, interval, now)
        )

    def _slowed(self, state: RateState, seen: Observation) -> RateState:
        blocked_until = state.blocked_until
        if seen.retry_after is not None:
            asked = min(max(0.0, seen.retry_after), self._retry_after_cap)
            blocked_until = max(blocked_until, seen.ended + asked)
        complaint = replace(
            state,
            blocked_until=blocked_until,
            answers=state.answers + 1,
            status=seen.kind.removeprefix("http_"),
        )
        if seen.started < state.knows_from:
            return complaint
        base = max(self._base, seen.interval) if state.factor == 1 else state.base
        factor = min(MAX_FACTOR, state.factor * 2)
        # A worker may start one more before it knows; at the slower rate, the next is due an interval from now.
        in_force = max(state.in_force, seen.ended + base * factor)
        return replace(complaint, factor=factor, base=base, in_force=in_force, slowdowns=state.slowdowns + 1)

    def _recovered(self, state: RateState, quiet_for: float) -> RateState:
        if quiet_for >= _FORGET:
            return RateState()
        if state.factor == 1 or quiet_for < min(_QUIET * state.slowdowns, _MAX_QUIET):
            return state
        factor = 1 + (state.factor - 1) * _RECOVERY
        return replace(state, factor=factor if factor > _RECOVERED else 1.0)

    def _interval(self, state: RateState) -> float:
        return max(self._base, state.base) * state.factor

    def _why(self, state: RateState, interval: float | None, now: float) -> str:
        if interval is None and state.blocked_until <= now:
            return ""
        times = "once" if state.answers == 1 else f"{state.answers} times"
        said = f"answered {state.status} {times}"
        if interval is not None:
            said += f", slowed to {1 / interval:{'.0f' if interval < 0.1 else '.2g'}} req/s"
        if state.blocked_until > now:
            said += f", asks for {state.blocked_until - now:.0f} s of rest"
        return said
