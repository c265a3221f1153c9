"""Pages that change: mixes of rates, and habits that are no Poisson process."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from benchmarks.freshness.optimum import DAY

HOUR = 3600.0
FASTEST, SLOWEST = 1 / HOUR, 1 / (10_000 * HOUR)  # changes a second: four orders of magnitude
NEVER = math.inf

# Tells when a page changes next, after that time. It is asked only about times that go forward.
Changes = Callable[[float], float]
Mix = Callable[[random.Random], float]


def even(rng: random.Random) -> float:
    """Rates spread evenly over four orders of magnitude, in logarithms."""
    return math.exp(rng.uniform(math.log(SLOWEST), math.log(FASTEST)))


def mostly_still(rng: random.Random) -> float:
    """Four of five pages change once in six weeks to a year; the others as in `even`."""
    if rng.random() < 0.8:
        return math.exp(rng.uniform(math.log(SLOWEST), math.log(10 * SLOWEST)))
    return even(rng)


MIXES: dict[str, Mix] = {"even": even, "mostly still": mostly_still}


def sizes(rng: random.Random, hosts: int, pages: int) -> list[int]:
    """How many pages each host has: a few have many."""
    weights = [rng.lognormvariate(0.0, 1.0) for _ in range(hosts)]
    spare = pages - hosts
    ends = [round(spare * end / sum(weights)) for end in accumulate(weights)]
    return [1 + end - start for start, end in zip([0, *ends], ends, strict=False)]


# -- when a page changes


def poisson(rate: float, rng: random.Random) -> Changes:
    return lambda after: after + rng.expovariate(rate)


def _listed(times: list[float]) -> Changes:
    def following(after: float) -> float:
        place = bisect_right(times, after)
        return times[place] if place < len(times) else NEVER

    return following


def bursts(rng: random.Random) -> Changes:
    """Once in five days or so, thirty changes within three hours."""
    times, at = [], rng.expovariate(1 / (5 * DAY))
    while at < 400 * DAY:
        times += [at + rng.uniform(0.0, 3 * HOUR) for _ in range(30)]
        at += rng.expovariate(1 / (5 * DAY))
    return _listed(sorted(times))


def daily(rng: random.Random) -> Changes:
    """Every day at noon."""
    return lambda after: (math.floor(after / DAY - 0.5) + 1.5) * DAY


def jumping(rng: random.Random, at: float = 15 * DAY) -> Changes:
    """Half of the pages change once in 30 days, then once in 3 hours; the other half the other way round."""
    rates = (1 / (30 * DAY), 1 / (3 * HOUR)) if rng.random() < 0.5 else (1 / (3 * HOUR), 1 / (30 * DAY))
    first, second = poisson(rates[0], rng), poisson(rates[1], rng)

    def following(after: float) -> float:
        found = first(after) if after < at else NEVER
        return found if found < at else second(max(after, at))

    return following


def always(rng: random.Random) -> Changes:
    """A page that is another one every time it is asked for."""
    return lambda after: after + 1e-3


HABITS: dict[str, Callable[[random.Random], Changes]] = {
    "bursts": bursts,
    "every day at noon": daily,
    "rates that jump": jumping,
    "always another page": always,
}
