"""How many requests a host bears at once: additive increase, multiplicative decrease. Pure.

The limit moves between 1 and `per_host`. Every answer adds 1/limit, so it grows by about one per round of requests.
An overloaded host (429, 503, a timeout) halves it; requests in flight at that time met the same overload and do not
halve it again. Hosts get slow before they fail: while the smoothed latency is more than twice its baseline, an answer
subtracts 1/limit instead. The baseline is the minimum of the smoothed latency, and rises slowly; quickly while requests
go one at a time, because then we are not the cause, and a host that is slower for good must not stay limited for ever.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.protocol import NO_LIMITS, TIMEOUTS, Limits, Observation
from shoal.settings import Settings

_OVERLOAD = TIMEOUTS | {"http_429", "http_503", "http_504"}
_CUT = 0.5
_SAMPLES = 8  # weight of the past in the smoothed latency; while there are fewer, it is their mean
_TOO_SLOW = 2.0  # times the baseline
_RISE = 1.0005  # of the baseline, with every sample
_RISE_ALONE = 1.05  # … while the limit is 1


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
        self._most = settings.per_host

    def observe(self, state: AimdState, seen: Observation) -> AimdState:
        if seen.kind in _OVERLOAD:
            if seen.started < state.cut_at:
                return state
            limit = max(1.0, self._limit(state) * _CUT)
            return replace(state, limit=limit, cut_at=seen.ended, cut_by=seen.kind.removeprefix("http_"))
        if not seen.answered:
            return state
        if seen.kind == "ok":  # fast error pages and redirects would lower the baseline
            state = _timed(state, seen.elapsed, alone=self._limit(state) == 1)
        limit = self._limit(state)
        if state.smoothed > state.baseline * _TOO_SLOW:
            return replace(state, limit=max(1.0, limit - 1 / limit), cut_by="slow answers")
        if state.limit == 0:
            return state
        limit += 1 / limit
        return replace(state, limit=limit if limit < self._most else 0.0)

    def limits(self, state: AimdState, now: float) -> Limits:
        cap = int(self._limit(state))
        if cap == self._most:
            return NO_LIMITS
        return Limits(cap=cap, why=f"{cap} instead of {self._most} at a time because of {state.cut_by}")

    def _limit(self, state: AimdState) -> float:
        return min(state.limit, self._most) if state.limit else float(self._most)


def _timed(state: AimdState, elapsed: float, *, alone: bool) -> AimdState:
    samples = min(state.samples + 1, _SAMPLES)
    smoothed = state.smoothed + (elapsed - state.smoothed) / samples
    baseline = smoothed
    if state.samples == _SAMPLES:
        baseline = min(smoothed, state.baseline * (_RISE_ALONE if alone else _RISE))
    return replace(state, samples=samples, smoothed=smoothed, baseline=baseline)
