"""Stops requests to a host that fails, and probes with single requests whether it is back. Pure.

    phase      what is seen              becomes    and
    ─────────  ────────────────────────  ─────────  ──────────────────────────────────────────────────────
    closed     answer or failure         closed     it is counted
    closed     one failure too many      open       blocked for the cooldown
    open       an answer                 closed     all is forgiven
    open       a failure                 open       blocked for twice the cooldown
    open       one failure too many      given up   tasks are refused for breaker_give_up
    given up   an answer                 closed     all is forgiven
    given up   a failure                 given up   refused for as long again

Open means blocked until a time. After it the breaker is half open: one request at a time, and that is the probe. A
request that started before the block ended is no probe, and changes nothing, in whichever order such requests end.

A host that never answered at all gets less credit: its first failure opens the breaker, and fewer failed probes are
enough to give it up. Otherwise a host that hangs would hold slots for minutes.

Failures that blame the host are evidence. Every other answer, also a 404, shows that it is alive. A 429 comes from a
healthy host that wants fewer requests (see rate.py): it never opens the breaker, but as the answer to a probe it closes
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.protocol import NO_LIMITS, TIMEOUTS, Limits, Observation
from shoal.settings import Settings

WINDOW = 20  # the last outcomes, for the failure rate
MIN_WINDOW = 10  # fewer give no rate
# A host that never answered is given up sooner; soonest one that hangs, because each probe holds a slot until the
# timeout.
NEVER_ANSWERED_PROBES = 4
HANGING_PROBES = 2
_MAX_DOUBLINGS = 60  # beyond any cap, and far below where floats overflow

Phase = Literal["closed", "open", "given_up"]
Event = Literal["answer", "failure", "last_straw"]


class BreakerState(Struct, frozen=True, omit_defaults=True):
    phase: Phase = "closed"
    until: float = 0.0  # the end of the block; requests that started earlier do not count
    row: int = 0  # failures in a row
    window: int = 1  # the last outcomes, a bit each (1: failure), behind a leading 1
    failed_probes: int = 0
    spoke: bool = False  # it has answered something, even an error
    reason: str = ""  # why it opened


class BreakerPolicy:
    name = "breaker"
    per_origin = True
    State = BreakerState

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def observe(self, state: BreakerState, seen: Observation) -> BreakerState:
        event = self._event(state, seen)
        return state if event is None else _TRANSITIONS[state.phase, event](self, state, seen)

    def limits(self, state: BreakerState, now: float) -> Limits:
        if state.phase == "closed":
            return NO_LIMITS
        if now >= state.until:
            why = f"probing, one request at a time: {state.reason}"
            # Several pages of a host that has answered failed before its breaker opened: they may try once more.
            return Limits(cap=1, blocked_until=state.until, probe=2 if state.spoke else 1, why=why)
        again = f"next probe in {state.until - now:.0f} s"
        if state.phase == "given_up":
            refuse, why = f"host_down: {state.reason}", f"given up: {state.reason}, {again}"
            return Limits(refuse=refuse, refuse_until=state.until, why=why)
        return Limits(cap=1, blocked_until=state.until, why=f"cooling down: {state.reason}, {again}")

    def _event(self, state: BreakerState, seen: Observation) -> Event | None:
        if seen.started < state.until:
            return None
        if seen.kind == "http_429":
            return None if state.phase == "closed" else "answer"
        if seen.blames_host:
            return "last_straw" if self._is_last_straw(state, seen) else "failure"
        return "answer" if seen.answered else None

    def _is_last_straw(self, state: BreakerState, seen: Observation) -> bool:
        settings = self._settings
        if state.phase == "closed":
            if not state.spoke and not _speaks(seen):
                return True
            failures, size = _rate(_shifted(state.window, failed=True))
            too_often = size >= MIN_WINDOW and failures >= settings.breaker_rate * size
            return too_often or state.row + 1 >= settings.breaker_failures
        probes = settings.breaker_probes
        if not state.spoke and not _speaks(seen):
            probes = min(probes, HANGING_PROBES if seen.kind in TIMEOUTS else NEVER_ANSWERED_PROBES)
        return state.failed_probes + 1 >= probes

    # -- what the table's rows do

    def _count(self, state: BreakerState, seen: Observation) -> BreakerState:
        window = _shifted(state.window, failed=seen.blames_host)
        row = state.row + 1 if seen.blames_host else 0
        spoke = state.spoke or _speaks(seen)
        if (window, row, spoke) == (state.window, state.row, state.spoke):
            return state
        return replace(state, window=window, row=row, spoke=spoke)

    def _open(self, state: BreakerState, seen: Observation) -> BreakerState:
        state = self._count(state, seen)
        failures, size = _rate(state.window)
        if not state.spoke:
            reason = f"it has never answered: {seen.kind}"
        elif state.row >= self._settings.breaker_failures:
            reason = f"{state.row} failures in a row, the last: {seen.kind}"
        else:
            reason = f"{failures} of {size} requests failed, the last: {seen.kind}"
        until = seen.ended + self._cooldown(0)
        return BreakerState("open", until, spoke=state.spoke, reason=reason)

    def _stay_open(self, state: BreakerState, seen: Observation) -> BreakerState:
        failed = state.failed_probes + 1
        until = seen.ended + self._cooldown(failed)
        return replace(state, until=until, failed_probes=failed, spoke=state.spoke or _speaks(seen))

    def _give_up(self, state: BreakerState, seen: Observation) -> BreakerState:
        failed = state.failed_probes + 1
        reason = f"{state.reason.partition('; ')[0]}; {failed} failed probes, the last: {seen.kind}"
        until = seen.ended + self._settings.breaker_give_up
        return replace(state, phase="given_up", until=until, failed_probes=failed, reason=reason)

    def _close(self, state: BreakerState, seen: Observation) -> BreakerState:
        return BreakerState(until=state.until, spoke=True)

    def _cooldown(self, failed_probes: int) -> float:
        doubled = self._settings.breaker_cooldown * 2.0 ** min(failed_probes, _MAX_DOUBLINGS)
        return min(doubled, self._settings.breaker_cooldown_cap)


_Step = Callable[[BreakerPolicy, BreakerState, Observation], BreakerState]

_TRANSITIONS: dict[tuple[Phase, Event], _Step] = {
    ("closed", "answer"): BreakerPolicy._count,
    ("closed", "failure"): BreakerPolicy._count,
    ("closed", "last_straw"): BreakerPolicy._open,
    ("open", "answer"): BreakerPolicy._close,
    ("open", "failure"): BreakerPolicy._stay_open,
    ("open", "last_straw"): BreakerPolicy._give_up,
    ("given_up", "answer"): BreakerPolicy._close,
    ("given_up", "failure"): BreakerPolicy._give_up,
    ("given_up", "last_straw"): BreakerPolicy._give_up,
}


def _shifted(window: int, *, failed: bool) -> int:
    """The window with one more outcome, the oldest dropped when it is full."""
    window = window << 1 | failed
    if window.bit_length() <= WINDOW + 1:
        return window
    return window & ((1 << WINDOW) - 1) | 1 << WINDOW


def _rate(window: int) -> tuple[int, int]:
    """Failures in the window, and its size."""
    return window.bit_count() - 1, window.bit_length() - 1


def _speaks(seen: Observation) -> bool:
    return seen.answered or seen.reached or seen.kind.startswith("http_")
