"""From what was seen in a race to its figures. Times are unscaled seconds, except for CPU."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from benchmarks.patterns.measure import Race
from benchmarks.patterns.terms import NOT_SENT, TIMEOUT

POINTS = 400  # of a curve
MOST = 0.95
SERIOUS = 0.90  # the share that a contender must obtain for its speed to be compared

Curve = list[tuple[float, float]]  # seconds, share of the obtainable pages obtained by then


class Figures(msgspec.Struct, frozen=True):
    obtainable: int
    obtained: int
    end: float  # when its process ended, from its first request on
    cut_short: bool  # … because its time was up
    to_95: float | None  # when it had 95 % of the obtainable pages; None: never
    requests: int  # as the server counted them
    rate_429: float  # share of the requests
    timeout_rate: float  # share of the requests
    unsent: float  # share of the attempts for which there was no connection
    mean: float  # of one request, whatever came of it
    p95: float
    waited: float  # seconds, summed over all slots, in which they were held but had not sent their request
    fetched: float  # seconds, summed over all slots, from sending to answer
    cpu: float  # real seconds
    cpu_load: float  # of one core, on average: near 1, the machine was the limit and not the web
    peak_rss: int  # bytes
    curve: Curve

    @property
    def share(self) -> float:
        return self.obtained / self.obtainable

    @property
    def pages_per_minute(self) -> float:
        return 60 * self.obtained / self.end


def figures(race: Race, scale: float) -> Figures:
    began = min((attempt.sent for attempt in race.attempts), default=race.ended)
    obtained = race.obtained & race.obtainable
    moments = _moments(race, obtained, began, scale)
    sent = [attempt for attempt in race.attempts if attempt.outcome != NOT_SENT]
    times = sorted((attempt.ended - attempt.sent) * scale for attempt in sent)
    end = (race.ended - began) * scale
    most = MOST * len(race.obtainable)
    return Figures(
        obtainable=len(race.obtainable),
        obtained=len(obtained),
        end=end,
        cut_short=race.cut_short,
        to_95=next((at for count, at in enumerate(moments, 1) if count >= most), None),
        requests=len(race.hits),
        rate_429=_share([hit.status == 429 for hit in race.hits]),
        timeout_rate=_share([attempt.outcome == TIMEOUT for attempt in sent]),
        unsent=_share([attempt.outcome == NOT_SENT for attempt in race.attempts]),
        mean=fmean(times) if times else 0.0,
        p95=times[int(len(times) * 0.95)] if times else 0.0,
        waited=sum(attempt.waited for attempt in race.attempts) * scale,
        fetched=sum(times),
        cpu=race.cpu,
        cpu_load=race.cpu / max(end / scale, 1e-9),
        peak_rss=race.peak_rss,
        curve=_curve(moments, end, len(race.obtainable)),
    )


def _share(answers: Sequence[bool]) -> float:
    return sum(answers) / max(1, len(answers))


def _moments(race: Race, obtained: set[str], began: float, scale: float) -> list[float]:
    """When each page was first had, in order."""
    first: dict[str, float] = {}
    for attempt in race.attempts:
        if attempt.outcome == 200 and attempt.url in obtained:
            first.setdefault(attempt.url, (attempt.ended - began) * scale)
    return sorted(first.values())


def _curve(moments: Sequence[float], end: float, obtainable: int) -> Curve:
    """Evenly on a logarithmic axis, from one second on."""
    steps = [max(1.0, end) ** (step / POINTS) for step in range(POINTS + 1)]
    return [(at, bisect_right(moments, at) / obtainable) for at in steps]


def claims(results: Mapping[str, Figures]) -> dict[str, bool]:
    """What is said of Shoal, and whether this race bears it out. Without others to compare with, nothing."""
    others = [one for name, one in results.items() if name != "shoal"]
    if "shoal" not in results or not others:
        return {}
    shoal = results["shoal"]
    serious = [one for one in others if one.share >= SERIOUS]
    never = float("inf")
    # An attempt that found no connection was not answered either, whoever is to blame for that.
    unanswered = [one.timeout_rate * (1 - one.unsent) + one.unsent for one in (shoal, *others)]
    return {
        "obtains 99 % of the obtainable pages": shoal.share >= 0.99,
        "first to 95 % among those that obtain 90 %": all(
            (shoal.to_95 or never) < (one.to_95 or never) for one in serious
        ),
        "first to end among those that obtain 90 %": all(shoal.end < one.end for one in serious),
        "most useful pages a minute among those that obtain 90 %": all(
            shoal.pages_per_minute > one.pages_per_minute for one in serious
        ),
        "lowest 429 rate, at most 0.3 %": shoal.rate_429 <= min([0.003, *(one.rate_429 for one in others)]),
        "fewest attempts without an answer (timeouts, no connection)": unanswered[0] == min(unanswered),
        "no slot waits (under 0.5 % of the time)": shoal.waited <= 0.005 * shoal.fetched,
        "1,030 useful pages a minute": shoal.pages_per_minute >= 1030,
    }
