"""Learns how fast a host may be asked from its answers "too many requests", and stays below. Pure.

A complaint is a 429, or a 503 with Retry-After. The host is left alone for as long as it asks, else for a second, and
twice as long each time if the next request is refused, too. Then it is asked more slowly:

    first complaint                     at half the pace
    the slower pace was refused, too    at the pace that it took between the two complaints (a quarter at least)
    a step up was refused               at the pace before the step
    a pace that was borne is refused    a step more slowly

A pace that is borne for a while (and for enough answers) is followed by a step up, until the pace is near the one
at which complaints began. That pace is tried again rarely: after many answers, and later each time that it is refused.
If it is borne, the limit is higher now, and steps become longer. Requests that started before a pace was in force say
nothing about it: those that are refused together count as one.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.protocol import Limits, Observation
from shoal.settings import Settings

UNLIMITED = 10.0  # requests a second that are halved where no rate is configured
SLOWEST = 1 / 300  # requests a second
_LIFTED = 100.0  # where no rate is configured, a faster pace is no limit
_STEP = 0.06  # share of the pace
_BLIND_STEP = 0.25  # … if nothing is known but that twice the pace was too fast
_MAX_STEP = 0.5
_STEP_GROWTH = 1.5  # of a step, by every one that was borne
_MARGIN = 0.95  # of what the host took between two complaints
_LEAST = 0.25  # share of the pace that is left by one complaint
_ENOUGH = 10  # answers for an average, however those in flight together are counted
_LONG_REST = 0.1  # share of the time
_NEAR = 0.985  # of the pace at which complaints began is that pace
_HOLD, _MAX_HOLD = 20.0, 120.0  # seconds
_COUNTED = 60.0  # … over which most servers count that do not count by the second
_HELD = 20  # answers
_USED = 0.7  # share of a pace that was really used, for answers to say anything about it
_REST, _MAX_REST = 1.0, 300.0  # seconds
_REST_GROWTH = 4.0  # if it was too short: a page has few attempts
# Seconds between a complaint and another try of that pace, doubled by every failure.
_QUIET, _MAX_QUIET = 60.0, 300.0
_EARNED = 500  # answers before it
_FORGET = 3600.0  # seconds without a complaint at the configured pace, and the state starts again


class RateState(Struct, frozen=True, omit_defaults=True):
    pace: float = 0.0  # requests a second that the host is held to; 0: as configured
    began: float = 0.0  # the pace at which complaints began; 0: not known
    borne: float = 0.0  # the highest pace that was borne since; 0: none for long enough
    step: float = 0.0  # share by which the next pace is higher
    # -- since the host was last left alone
    asked_from: float = 0.0
    taken: int = 0  # answers
    # -- from when it was left alone before to when it complained
    ran_from: float = 0.0
    ran: int = 0  # answers
    # -- this pace
    in_force: float = 0.0  # requests that started earlier did not go by it
    hold_from: float = 0.0  # since when it has been watched
    held: int = 0  # answers meanwhile
    hold: float = _HOLD  # seconds until it counts as borne
    # -- complaints, since the host was last forgotten
    complaints: int = 0
    complained_at: float = 0.0  # when the request was sent that brought the latest
    status: str = ""  # of the latest: "429"
    rest: float = 0.0  # seconds that the host was left alone if it did not say for how long
    blocked_until: float = 0.0
    refused: int = 0  # how often in a row the pace at which complaints began was refused again
    # -- of an earlier version, which multiplied an interval; `_of_today` makes a pace of them
    factor: float = 1.0
    base: float = 0.0

    @property
    def knows_from(self) -> float:
        """Only requests that started after this show whether the pace is slow enough."""
        return max(self.in_force, self.blocked_until)


class RatePolicy:
    name = "rate"
    State = RateState

    def __init__(self, settings: Settings) -> None:
        self._configured = settings.rate or _LIFTED
        self._fastest = settings.rate or UNLIMITED
        self._retry_after_cap = settings.retry_after_cap

    def observe(self, state: RateState, seen: Observation) -> RateState:
        state = _of_today(state)
        if seen.kind == "http_429" or (seen.kind == "http_503" and seen.retry_after is not None):
            return self._complained(state, seen)
        if seen.answered and seen.started >= state.knows_from:
            return self._answered(state, seen)
        return state

    def limits(self, state: RateState, now: float) -> Limits:
        state = _of_today(state)
        interval = 1 / state.pace if state.pace else None
        # While rests are too short, pages that have not failed yet find out: a page has few attempts.
        probe = 1 if state.rest > _REST and not state.taken else 0
        return Limits(
            interval=interval, blocked_until=state.blocked_until or None, probe=probe, why=_why(state, now)
        )

    # -- complaints

    def _complained(self, state: RateState, seen: Observation) -> RateState:
        asked = seen.retry_after
        if asked is not None:
            asked = min(max(0.0, asked), self._retry_after_cap)
        until = max(state.blocked_until, seen.ended + (asked or 0.0))
        complaint = replace(
            state,
            complaints=state.complaints + 1,
            status=seen.kind.removeprefix("http_"),
            blocked_until=until if asked is not None else state.blocked_until,
        )
        if seen.started < state.knows_from:
            return complaint
        refused_again = self._is_first_after_rest(state, seen)
        rest = min(state.rest * _REST_GROWTH, _MAX_REST) if refused_again else _REST
        # A server that asks for no rest, or for one that was not enough before, gets ours.
        if not asked or refused_again:
            until = max(until, seen.ended + rest)
        if not refused_again:
            complaint = self._slowed(complaint, seen)
        complaint = _averaged(complaint, seen.started, until)
        # A worker may start one more before it knows; at the slower pace, the next is due an interval from now.
        in_force = max(state.in_force, seen.ended + 1 / complaint.pace)
        return replace(
            complaint,
            rest=rest,
            blocked_until=until,
            in_force=in_force,
            hold_from=max(in_force, until),
            held=0,
            complained_at=seen.started,
            asked_from=until,
            taken=0,
        )

    def _is_first_after_rest(self, state: RateState, seen: Observation) -> bool:
        """Whether the request was the first one after a complaint: the rest was too short, not the pace too fast."""
        if not state.pace or state.taken:
            return False
        return seen.started < state.knows_from + 1 / state.pace

    def _slowed(self, state: RateState, seen: Observation) -> RateState:
        """With another pace, by what is known of this one and of the time since the last complaint."""
        pace = self._pace(state, seen)
        borne, step, hold, refused = 0.0, _STEP, state.hold, state.refused
        if not state.complained_at:
            slower, step = pace / 2, _BLIND_STEP
        elif not state.borne:
            hold = _HOLD  # the limit has changed, or is not known yet
            took = state.taken / max(seen.started - state.complained_at, 1e-3)
            slower = min(max(took * _MARGIN, pace * _LEAST), pace / (1 + _STEP))
        elif state.borne < pace * _NEAR:
            slower = borne = state.borne
        else:  # it was not borne after all
            slower, hold = pace / (1 + _STEP), min(2 * hold, _MAX_HOLD)
        if state.borne and (not state.began or pace >= state.began * _NEAR):
            refused += 1
        return replace(
            state,
            pace=max(SLOWEST, slower),
            began=pace,
            borne=borne,
            step=step,
            hold=hold,
            refused=refused,
            ran_from=state.asked_from,
            ran=state.taken,
        )

    def _pace(self, state: RateState, seen: Observation) -> float:
        """The pace that was complained about."""
        pace = min(state.pace or self._fastest, self._fastest)
        return min(pace, 1 / seen.interval) if seen.interval else pace

    # -- answers

    def _answered(self, state: RateState, seen: Observation) -> RateState:
        now = seen.ended
        if not state.complaints:
            return replace(state, taken=state.taken + 1, asked_from=state.asked_from or seen.started)
        if not state.pace:
            forgotten = now - state.complained_at >= _FORGET
            return RateState() if forgotten else replace(state, taken=state.taken + 1)
        state = replace(state, taken=state.taken + 1, held=state.held + 1)
        passed = now - state.hold_from
        if passed < state.hold or state.held < _HELD:
            return state
        if state.held < passed * state.pace * _USED:
            return replace(state, hold_from=now, held=0)
        return self._stepped(replace(state, borne=max(state.borne, state.pace)), now)

    def _stepped(self, state: RateState, now: float) -> RateState:
        """After a pace was borne: the next one."""
        if state.began and state.pace >= state.began * _NEAR:
            state = replace(state, began=0.0, hold=_HOLD)  # the limit is higher now
        faster = state.pace * (1 + state.step)
        step = min(state.step * _STEP_GROWTH, _MAX_STEP)
        if state.began:
            below = state.began / (1 + _STEP)
            if state.pace < below * _NEAR:
                faster = min(faster, below)
            elif self._may_try(state, now):
                faster, step = max(state.pace * (1 + _STEP), state.began), _STEP
            else:
                return state
        if faster >= self._configured:
            return replace(state, pace=0.0, step=step)
        return replace(state, pace=faster, step=step, in_force=now, hold_from=now, held=0)

    def _may_try(self, state: RateState, now: float) -> bool:
        """Whether it is time to try the pace at which complaints began."""
        quiet = min(_QUIET * 2.0 ** min(state.refused, 10), _MAX_QUIET)
        return now - state.complained_at >= quiet and state.taken >= _EARNED


def _of_today(state: RateState) -> RateState:
    """A state that an earlier version has written: the host stays as slow as it was."""
    if state.factor <= 1 or not state.base:
        return state
    pace = max(SLOWEST, 1 / (state.base * state.factor))
    return RateState(
        pace=pace,
        began=2 * pace,  # it was doubled by the latest complaint
        step=_BLIND_STEP,
        in_force=state.in_force,
        hold_from=state.knows_from,
        complaints=1,
        complained_at=state.knows_from,
        status=state.status or "429",
        blocked_until=state.blocked_until,
    )


def _averaged(state: RateState, complained: float, until: float) -> RateState:
    """With the pace that the host bears on average, if it has to be left alone for a good part of the time: it counts
    its requests over minutes, and takes any number of them at first."""
    if state.ran < _ENOUGH or until - complained < _LONG_REST * (until - state.ran_from):
        return state
    cycle = until - state.ran_from
    hold = min(max(state.hold, cycle), _COUNTED)
    pace = min(state.pace, max(state.ran / cycle * _MARGIN, state.began * _LEAST))
    return replace(state, pace=pace, hold=hold, borne=min(state.borne, pace), step=2 * _STEP)


def _why(state: RateState, now: float) -> str:
    if not state.pace and state.blocked_until <= now:
        return ""
    times = "once" if state.complaints == 1 else f"{state.complaints} times"
    said = f"answered {state.status} {times}"
    if state.pace and state.began:
        said += f", learned: {state.status}s began at {_shown(state.began)}/s"
    if state.pace:
        said += f", held to {_shown(state.pace)} req/s"
    if state.blocked_until > now:
        said += f", left alone for another {state.blocked_until - now:.0f} s"
    return said


def _shown(pace: float) -> str:
    return f"{pace:.0f}" if pace >= 10 else f"{pace:.2g}"
