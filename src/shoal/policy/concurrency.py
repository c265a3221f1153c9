"""How many requests a host bears at once: additive increase, multiplicative decrease. Pure.

The limit moves between 1 and `per_host`. Every answer adds 1/limit, so it grows by about one per round of requests.
An overloaded host (429, 503, a timeout) halves it; requests in flight at that time met the same overload and do not
halve it again. Hosts get slow before they fail: while the smoothed latency is more than twice its baseline, an answer
subtracts 1/limit instead. The baseline is the minimum of the smoothed latency, and rises slowly; quickly while requests
go one at a time, because then we are not the cause, and a host that is slower for good must not stay limited for ever.

With `per_host = "auto"` the limit begins at `FIRST`, and grows to what the rate needs: a host that takes three seconds
and may be asked twice a second must have six under way. It grows only while the latency does not, and never beyond
`MOST`. It is not taken back when less is needed: the rate alone keeps fewer under way then.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.protocol import NO_LIMITS, TIMEOUTS, Limits, Observation
from shoal.settings import Settings

FIRST, MOST = 2, 16  # with "auto"

_OVERLOAD = TIMEOUTS | {"http_429", "http_503", "http_504"}
_CUT = 0.5
_SAMPLES = 8  # weight of the past in the smoothed latency; while there are fewer, it is their mean
_TOO_SLOW = 2.0  # times the baseline
_GROWING = 1.5  # times the baseline: no more at once, with "auto"
_RISE = 1.0005  # of the baseline, with every sample
_RISE_ALONE = 1.05  # … while the limit is 1
_RESERVE = 1.5  # times what the rate needs on average: answers take longer and shorter


def first_at_once(settings: Settings) -> int:
    """How many requests a host never seen may get at once."""
    return FIRST if settings.per_host == "auto" else settings.per_host


def most_at_once(settings: Settings) -> int:
    """How many requests a host may ever get at once."""
    return MOST if settings.per_host == "auto" else settings.per_host


class AimdState(Struct, frozen=True, omit_defaults=True):
    limit: float = 0.0  # 0: as configured
    cut_at: float = 0.0
    cut_by: str = ""  # what took the limit down last, in words
    samples: int = 0  # up to _SAMPLES
    smoothed: float = 0.0
    baseline: float = 0.0


class AimdPolicy:
    name = "concurrency"
    State = AimdState

    def __init__(self, settings: Settings) -> None:
        self._auto = settings.per_host == "auto"
        self._first, self._most = first_at_once(settings), most_at_once(settings)
        self._interval = 1 / settings.rate if settings.rate else 0.0
        # With "auto" it always says how many, because the settings do not: a milder limit of another policy is none.
        self._unseen = Limits(cap=FIRST) if self._auto else NO_LIMITS

    def observe(self, state: AimdState, seen: Observation) -> AimdState:
        if seen.kind in _OVERLOAD:
            if seen.started < state.cut_at:
                return state
            limit = max(1.0, self._limit(state) * _CUT)
            return replace(state, limit=limit, cut_at=seen.ended, cut_by=seen.kind.removeprefix("http_"))
        if not seen.answered:
            return state
        if seen.kind == "ok":  # fast error pages and redirects would lower the baseline
            alone = self._limit(state) == 1
            state = _timed(state, seen.elapsed, alone=alone, settled=1 if self._auto else _SAMPLES)
        limit = self._limit(state)
        if state.smoothed > state.baseline * _TOO_SLOW:
            return replace(state, limit=max(1.0, limit - 1 / limit), cut_by="slow answers")
        if self._auto:
            return self._raised(state, seen)
        if state.limit == 0:
            return state
        limit += 1 / limit
        return replace(state, limit=limit if limit < self._most else 0.0)

    def limits(self, state: AimdState, now: float) -> Limits:
        if not state.limit:
            return self._unseen
        cap = int(self._limit(state))
        if self._auto:
            return Limits(cap=cap, why=f"{cap} at a time because of {state.cut_by}" if state.cut_by else "")
        if cap == self._most:
            return NO_LIMITS
        why = (
            f"{cap} instead of {self._most} at a time"  # another job with "auto" cuts nothing, and begins low
        )
        return Limits(cap=cap, why=f"{why} because of {state.cut_by}" if state.cut_by else why)

    def _limit(self, state: AimdState) -> float:
        return min(state.limit, self._most) if state.limit else float(self._first)

    def _raised(self, state: AimdState, seen: Observation) -> AimdState:
        """With "auto": one more per round, up to what the rate needs."""
        limit, wanted = self._limit(state), self._wanted(state, seen.interval)
        if limit >= wanted:
            return replace(state, cut_by="") if state.cut_by else state
        if state.smoothed > state.baseline * _GROWING:
            return state
        return replace(state, limit=min(limit + 1 / limit, wanted))

    def _wanted(self, state: AimdState, held_to: float) -> float:
        interval = max(self._interval, held_to)
        if not interval:
            return float(self._most)
        return float(min(max(math.ceil(_RESERVE * state.smoothed / interval), self._first), self._most))


def _timed(state: AimdState, elapsed: float, *, alone: bool, settled: int) -> AimdState:
    """`settled`: samples from which on a lower latency than before is the baseline. Before that, their mean is."""
    samples = min(state.samples + 1, _SAMPLES)
    smoothed = state.smoothed + (elapsed - state.smoothed) / samples
    baseline = smoothed
    if state.samples >= settled:
        baseline = min(smoothed, state.baseline * (_RISE_ALONE if alone else _RISE))
    return replace(state, samples=samples, smoothed=smoothed, baseline=baseline)
