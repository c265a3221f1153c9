"""The best that visits within a budget can do, if the rates of change are known (Cho and Garcia-Molina).

A page of rate r that is visited every w seconds is current for the share F = (1 - exp(-r*w)) / (r*w) of the time. One
visit more a second is worth dF/df = (1 - exp(-r*w) * (1 + r*w)) / r. The sum over all pages is greatest where this is
the same for all pages that are visited at all: the price. Pages of a rate above 1/price are not visited.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

DAY = 86_400.0

_LOGS = [-14 + 0.005 * step for step in range(3600)]  # of r*w, up to exp(4)


def _gain(x: float) -> float:
    return x * x / 2 - x**3 / 3 if x < 1e-4 else -math.expm1(-x) - x * math.exp(-x)


_GAINS = [_gain(math.exp(value)) for value in _LOGS]


def frequency(rate: float, price: float) -> float:
    """Visits a second at which one more is worth the price; 0: it never is."""
    gain = rate * price
    if gain >= _GAINS[-1]:
        return 0.0
    place = min(max(1, bisect_left(_GAINS, gain)), len(_GAINS) - 1)
    low, high = _GAINS[place - 1], _GAINS[place]
    x = math.exp(_LOGS[place - 1] + 0.005 * max(0.0, (gain - low) / (high - low)))
    return rate / x


def frequencies(rates: Sequence[float], budget: float) -> list[float]:
    """Visits a second of each page, `budget` visits a day in all."""
    low, high = math.log(1e-4), math.log(1e10)  # of the price
    for _ in range(45):
        middle = (low + high) / 2
        if DAY * sum(frequency(rate, math.exp(middle)) for rate in rates) > budget:
            low = middle
        else:
            high = middle
    return [frequency(rate, math.exp(high)) for rate in rates]


def freshness(rate: float, visits: float) -> float:
    """The share of the time for which a page is current that is visited so many times a second."""
    return -math.expm1(-rate / visits) * visits / rate if visits > 0.0 else 0.0


def estimated_rate(changes: int, gap: float, quiet: float) -> float:
    """The estimator of Cho and Garcia-Molina ("Estimating frequency of change"). For n visits at equal intervals, of
    which x found a change, it is -log((n - x + 0.5) / (n + 0.5)) / interval: it stays finite if every visit found one,
    and its bias is small. `gap`: seconds before visits that found a change, on the average; `quiet`: seconds before
    all others. The visits without a change count as so many of length `gap`."""
    still = quiet / gap
    return math.log((changes + still + 0.5) / (still + 0.5)) / gap
