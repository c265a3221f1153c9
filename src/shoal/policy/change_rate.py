"""How often a page changes, learned from visits. Pure.

Changes are taken for a Poisson process of an unknown rate r. A visit after w seconds finds a change with the chance
1 - exp(-r*w), and none with exp(-r*w). So all that visits tell about r is

    exp(-r * quiet) * (1 - exp(-r * gap)) ** changes

with `quiet` the sum of the times after which nothing had changed, `changes` the number of visits that found a change,
and `gap` the geometric mean of the times before these. (For one and the same time this is exact; for times that differ
it is exact for slow pages, and close otherwise.) Those three numbers are kept with the page: its *evidence*. Older
visits lose weight, slowly, and at once half of it when something very unlikely is found. So a page that changes its
habits is learned anew within a few visits.

The rate itself is not known, only how likely each of CLASSES rates is, from one change in three years to one a minute:
evidence times a prior. The prior is how the rates of the other pages of the host are spread (policy/revisit.py), so a
new page of a host whose pages never change is taken for one that hardly ever does.

The evidence is packed into a few bytes together with what the page has added to its host's plan, so that exactly this
is taken away when the page is visited again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from operator import mul

from msgspec import Struct
from msgspec.structs import replace

CLASSES = 24
SOONEST, LATEST = (
    60.0,
    3 * 365 * 86400.0,
)  # seconds between two changes, of the fastest and of the slowest class
STEP: float = (LATEST / SOONEST) ** (1 / (CLASSES - 1))  # from one class to the next
_LOG_STEP = math.log(STEP)
RATES = tuple(STEP**index / LATEST for index in range(CLASSES))  # changes a second, slowest first

_KEPT = 127 / 128  # weight that a visit keeps when the page is visited once more
_SURPRISE = 0.05  # a visit that finds what was so unlikely …
_DOUBTED = 0.5  # … leaves so much weight to all visits before
_MOST = 1e10  # seconds; more is a mistake of a clock
_HINTED = 0.5  # visits that a date given by the server is worth
_TENTHS = 10  # places between two classes that can be told apart

_FORM = struct.Struct("<BBBffff")
_VERSION = 1

Chances = Sequence[float]  # of each class; they add up to 1


class Evidence(Struct, frozen=True):
    """What visits have shown about the rate of a page, and what its host's plan counts for it."""

    quiet: float = 0.0  # seconds without a change
    changes: float = 0.0  # visits that found a change
    gap: float = 0.0  # seconds before these, as a geometric mean
    low: int = 0  # the page counts half here, and half at `high`: its rate give or take a standard deviation
    high: int = 0  # both in tenths of a class
    demand: float = 0.0  # what it asks of the host's budget

    @property
    def places(self) -> tuple[tuple[int, float], ...]:
        """The classes in which the page counts, and with what weight. The weights add up to 1."""
        found = []
        for place in (self.low, self.high):
            index, tenths = divmod(place, _TENTHS)
            if index >= CLASSES - 1:
                found.append((CLASSES - 1, 0.5))
            else:
                found += [(index, 0.5 - 0.05 * tenths), (index + 1, 0.05 * tenths)]
        return tuple(found)


NO_EVIDENCE = Evidence()


def packed(evidence: Evidence) -> bytes:
    return _FORM.pack(
        _VERSION,
        evidence.low,
        evidence.high,
        evidence.quiet,
        evidence.changes,
        evidence.gap,
        evidence.demand,
    )


def unpacked(rate: bytes) -> Evidence | None:
    """The evidence in the bytes; None: there is none, or another version wrote them."""
    if len(rate) != _FORM.size:
        return None
    version, low, high, *numbers = _FORM.unpack(rate)
    most = (CLASSES - 1) * _TENTHS
    if (
        version != _VERSION
        or low > most
        or high > most
        or not all(0 <= number <= _MOST for number in numbers)
    ):
        return None
    quiet, changes, gap, demand = numbers
    return Evidence(quiet, changes, gap, low, high, demand)


def changes_every(rate: bytes) -> float | None:
    """Seconds between two changes of the page, about, for people; None: no visit has found a change yet. Never less
    than the time between those visits: how often it changes in between, nobody has seen."""
    evidence = unpacked(rate)
    if evidence is None or evidence.changes < _HINTED:
        return None
    return max(evidence.gap, float(LATEST / STEP ** ((evidence.low + evidence.high) / 2 / _TENTHS)))


# -- learning


def noted(evidence: Evidence, changed: bool, waited: float, age: float | None = None) -> Evidence:
    """The evidence after a visit. `age`: seconds since the last change, if the server told when it was."""
    waited = bounded(waited)
    if waited <= 0.0:
        return evidence
    kept = _DOUBTED if _likelihood(evidence, changed, waited) < _SURPRISE else _KEPT
    quiet, changes = evidence.quiet * kept, evidence.changes * kept
    if not changed:
        return replace(evidence, quiet=min(_MOST, quiet + waited), changes=changes)
    calm = bounded(age) if age is not None else 0.0  # nothing has changed since
    calm = calm if calm < waited else 0.0  # otherwise the date is wrong: there was a change
    return replace(
        evidence,
        quiet=min(_MOST, quiet + calm),
        changes=changes + 1.0,
        gap=_joined(evidence.gap, changes, waited - calm, 1.0),
    )


def _likelihood(evidence: Evidence, changed: bool, waited: float) -> float:
    """How likely it was that the visit finds what it did, roughly."""
    watched = evidence.changes * evidence.gap + evidence.quiet
    if watched <= 0.0:
        return 1.0
    expected = (evidence.changes + 0.5) * waited / watched
    return -math.expm1(-expected) if changed else math.exp(-expected)


def hinted(age: float | None) -> Evidence:
    """What a page tells at its first visit that last changed `age` seconds ago: as much as half a visit that found a
    change after this time, and half of one that did not. Little, for dates of servers are often wrong."""
    age = bounded(age) if age is not None else 0.0
    if age <= 0.0:
        return NO_EVIDENCE
    return Evidence(quiet=_HINTED * age, changes=_HINTED, gap=max(SOONEST, age))


def _joined(mean: float, count: float, value: float, weight: float) -> float:
    """The geometric mean with one more value."""
    if count <= 0.0 or mean <= 0.0:
        return value
    return math.exp((count * math.log(mean) + weight * math.log(value)) / (count + weight))


def bounded(seconds: float) -> float:
    """Not negative, not endless, and a number."""
    return min(seconds, _MOST) if seconds > 0.0 else 0.0


# -- the chance of each class


def chances(evidence: Evidence, prior: Chances) -> list[float]:
    """How likely each class is."""
    quiet, changes, gap = evidence.quiet, evidence.changes, evidence.gap
    exp = math.exp
    logs = [-rate * quiet for rate in RATES]
    if changes > 0.0:
        expm1, log = math.expm1, math.log
        logs = [known + changes * log(-expm1(-rate * gap)) for known, rate in zip(logs, RATES, strict=True)]
    top = max(logs)
    weights = [exp(value - top) * before for value, before in zip(logs, prior, strict=True)]
    total = sum(weights)
    return [weight / total for weight in weights] if total > 1e-200 else _nearest(logs)


def _nearest(logs: Sequence[float]) -> list[float]:
    """The likeliest class alone: where the prior rules out what the evidence shows."""
    top = max(range(CLASSES), key=logs.__getitem__)
    return [float(index == top) for index in range(CLASSES)]


def spread(likely: Chances) -> tuple[int, int]:
    """The mean class less and plus one standard deviation, in tenths."""
    mean = sum(map(mul, likely, range(CLASSES)))
    square = sum(map(mul, likely, _SQUARES))
    deviation = math.sqrt(max(0.0, square - mean * mean))
    most = CLASSES - 1
    low, high = max(0.0, mean - deviation), min(float(most), mean + deviation)
    return round(low * _TENTHS), round(high * _TENTHS)


_SQUARES = [index * index for index in range(CLASSES)]


# -- when to look again
#
# A page that is visited every w seconds is current for the share F = (1 - exp(-r*w)) / (r*w) of the time. One visit
# more a second is worth dF/df = G(r*w) / r, with f = 1/w and G(x) = 1 - exp(-x) * (1 + x). The first waits are on the
# same scale as the classes, so that G is looked up in a table: r_k * w_j depends on k + j only.


def _gain(x: float) -> float:
    return x * x / 2 - x**3 / 3 if x < 1e-4 else -math.expm1(-x) - x * math.exp(-x)


_WAITS: tuple[float, ...] = tuple(SOONEST * STEP**index for index in range(CLASSES))
_PRODUCTS = [RATES[0] * SOONEST * STEP**index for index in range(2 * CLASSES)]
_GAINS = [[_gain(x) for x in _PRODUCTS[first : first + CLASSES]] for first in range(CLASSES)]
_CHANGED = [[-math.expm1(-x) for x in _PRODUCTS[first : first + CLASSES]] for first in range(CLASSES)]
_TIMES = [1 / rate for rate in RATES]


def wait_worth(likely: Chances, price: float) -> float:
    """Seconds after which a visit is worth its price; SOONEST or LATEST if it is sooner or later."""
    return _reaches(list(map(mul, likely, _TIMES)), _GAINS, price)


def wait_until_likely(likely: Chances, chance: float) -> float:
    """Seconds after which the page has changed with this chance; SOONEST or LATEST if it is sooner or later."""
    return _reaches(likely, _CHANGED, chance)


def worth(likely: Chances, wait: float) -> float:
    """What one visit more is worth, if the page is visited every `wait` seconds."""
    place = min(CLASSES - 1.0, max(0.0, math.log(wait / SOONEST) / _LOG_STEP))
    first = min(int(place), CLASSES - 2)
    weights = list(map(mul, likely, _TIMES))
    before, after = sum(map(mul, weights, _GAINS[first])), sum(map(mul, weights, _GAINS[first + 1]))
    if before <= 0.0 or after <= 0.0:
        return 0.0
    return math.exp(math.log(before) + (place - first) * math.log(after / before))


def _reaches(weights: Chances, rows: Sequence[Sequence[float]], level: float) -> float:
    """The wait at which the sum of the weighted row, which grows with the wait, reaches the level."""
    low, high = 0, CLASSES - 1  # the level is reached after _WAITS[low], and not after _WAITS[high]
    least, most = sum(map(mul, weights, rows[low])), sum(map(mul, weights, rows[high]))
    if least >= level:
        return _WAITS[0]
    if most < level:
        return _WAITS[-1]
    while high - low > 1:
        middle = (low + high) // 2
        value = sum(map(mul, weights, rows[middle]))
        if value < level:
            low, least = middle, value
        else:
            high, most = middle, value
    share = math.log(level / least) / math.log(most / least) if most > least > 0.0 else 1.0
    return _WAITS[low] * float(STEP**share)
