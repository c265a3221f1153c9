"""When a page is visited again. Pure.

    revisit="1h"          every hour, whatever was found
    revisit="auto"        as often as the page changes (policy/change_rate.py), within bounds
    revisit_budget=1000   … and so that all pages of a host take 1,000 visits a day together

**With a budget** visits go where they keep most pages current. A page of rate r that is visited f times a second is
current for the share F(r, f) = f/r * (1 - exp(-r/f)) of the time. The sum over all pages is greatest where one visit
more is worth the same everywhere: dF/df = *price* (Cho and Garcia-Molina, "Effective page refresh policies for web
crawlers"). So a page waits until its visit is worth the price, on the average over the rates that it may have. A page
that changes all the time is never worth it: the copy would be old a moment later. It gets few visits, but some.

**The price** must make the visits of all pages add up to the budget. For slow pages dF/df is about r / (2 * f**2), so a
page's visits are about proportional to 1/sqrt(price): its *demand*, f * sqrt(price), hardly depends on the price. The
plan of a host keeps the sum of the demands, and the price is (sum of demands / visits a second)**2. What this misses is
made up for by the *credit*: visits that the budget allowed, less those that were made.

**Without a budget** a page is visited when it has changed with a chance of one in five. If the host cannot be asked as
often as that, so that most visits come late, the visits that it does give are shared by price.

**The plan** (`RevisitPlan`) is a part of the host's state. It is updated with every visit by compare-and-set. A page
takes out what it put in at its visit before, which is noted in the page's own bytes. If an update is lost, or a job
ends and its pages are never heard of again, what is left over fades within months, and nothing falls below zero.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from operator import mul

from msgspec import Struct
from msgspec.structs import replace

from shoal.model.pace import Pace
from shoal.policy.change_rate import (
    CLASSES,
    NO_EVIDENCE,
    RATES,
    Chances,
    Evidence,
    bounded,
    chances,
    hinted,
    noted,
    packed,
    spread,
    unpacked,
    wait_until_likely,
    wait_worth,
    worth,
)

DAY = 86_400.0
_MONTH = 30 * DAY

_LIKELY = 0.2  # without a budget, a page is visited when it has changed with this chance
_USUALLY = 0.5  # … and with this chance it has changed within the time that it usually takes
_HOPELESS = 4.0  # a page that waits so much longer than it takes to change changes too often for the budget
_PATIENCE = (
    8.0  # … and waits so many times as long as the average page, no longer: it may have changed its habits
)
_CHECKED = 0.5  # … and so many of its waits are short, to see whether it still does
_JITTER = 0.05  # share of a wait by which it may be shorter or longer

_FADES = 90 * DAY  # what was counted for a page that is never heard of again fades in this time
_UNSEEN = 10.0  # pages that a new host is taken to have at least, for a day or so
_GUESSED = 8.0  # pages of which nothing is known that the prior has besides those of the host
_SPARE = 0.02  # days of the budget that are kept as a reserve, and one visit at least
_SAVED, _OWED = 0.25, 2.0  # days of the budget that the credit is at most, above and below zero
_FASTER, _SLOWER = 1.0, 2.0  # how far the credit may move the logarithm of the speed

_LATELY = 7 * DAY  # the figures for people are about this time
_ON_TIME, _AT_LEAST = 0.1, 60.0  # share of its wait by which a visit may be late, and seconds

_COUNTS = struct.Struct(f"<{CLASSES}f")
_MOST = 1e12  # pages of a host; more is nonsense
# Pages of the web that change every few minutes, or hardly ever in years, are rare.
_USUAL = [1.0 if 1 / (400 * DAY) < rate < 1 / 1800 else 0.25 for rate in RATES]
_GUESS = [_GUESSED * weight / sum(_USUAL) for weight in _USUAL]
_NO_COUNTS = (0.0,) * CLASSES


# -- what is known of a host


class Visit(Struct, frozen=True):
    """What one visit of a page showed."""

    before: bytes = b""  # what was known of its rate (PageRecord.rate); b"": it is the first visit
    after: bytes = b""  # what is known now; b"": the page is not visited again
    changed: bool = False
    waited: float = 0.0  # seconds since the visit before
    late: float = 0.0  # seconds after the time that was planned
    budget: float = 0.0  # visits a day that the pages of the host share; 0: no limit


class RevisitPlan(Struct, frozen=True, array_like=True):
    """What the pages of a host share that are visited again and again. `visits`, `changes` and `punctual` lose their
    weight within a week."""

    at: float = 0.0  # when it was last updated
    since: float = 0.0  # when it began
    counts: bytes = b""  # how many pages are in each class of rates
    demand: float = 0.0  # of all pages
    budget: float = 0.0  # visits a day; 0: no limit
    credit: float = 0.0  # visits that the budget allowed, less those that were made
    visits: float = 0.0
    changes: float = 0.0  # of these visits, those that found a change
    punctual: float = 0.0  # of these visits, those that were on time

    @property
    def pages(self) -> float:
        """How many pages are followed, about."""
        return sum(_counts(self.counts))

    @property
    def on_time(self) -> float | None:
        """The share of the visits of the last days that were on time; None: there were none."""
        return min(1.0, self.punctual / self.visits) if self.visits > 0.0 else None

    @property
    def changed(self) -> float | None:
        """The share of the visits of the last days that found a change; None: there were none."""
        return min(1.0, self.changes / self.visits) if self.visits > 0.0 else None

    @property
    def visits_a_day(self) -> float:
        """How many visits there were a day, lately."""
        watched = -math.expm1(-max(3600.0, self.at - self.since) / _LATELY)
        return self.visits / (watched * _LATELY) * DAY

    @property
    def changes_a_day(self) -> float:
        """How many changes a day the pages make, by what is known of their rates; the fastest make most of them."""
        return DAY * float(sum(map(mul, _counts(self.counts), RATES)))


NO_PLAN = RevisitPlan()


@lru_cache(4096)
def _counts(counts: bytes) -> tuple[float, ...]:
    if len(counts) != _COUNTS.size:
        return _NO_COUNTS
    found = _COUNTS.unpack(counts)
    return found if all(0.0 <= count <= _MOST for count in found) else _NO_COUNTS


def with_visit(plan: RevisitPlan, visit: Visit, at: float) -> RevisitPlan:
    """The plan after a visit that ended at `at`."""
    # A clock that was far ahead has been put right: without this the plan would stand still until then.
    began = plan.at if plan.at - DAY <= at else at
    passed = min(_MONTH, max(0.0, at - began)) if began else 0.0
    kept, lately = math.exp(-passed / _FADES), math.exp(-passed / _LATELY)
    counts = [count * kept for count in _counts(plan.counts)]
    demand = plan.demand * kept
    before, after = unpacked(visit.before), unpacked(visit.after)
    waited = bounded(visit.waited)
    if before is not None:
        left = math.exp(-waited / _FADES)  # of what the page has put in
        for index, weight in before.places:
            counts[index] = max(0.0, counts[index] - left * weight)
        demand = max(0.0, demand - left * before.demand)
    if after is not None:
        for index, weight in after.places:
            counts[index] = min(_MOST, counts[index] + weight)
        demand += after.demand
    again = float(before is not None)
    punctual = visit.late <= max(_AT_LEAST, _ON_TIME * waited)
    budget = bounded(visit.budget)
    return RevisitPlan(
        at=max(at, began),
        since=min(plan.since or at, at),
        counts=_COUNTS.pack(*counts),
        demand=demand,
        budget=budget,
        credit=_held_credit(plan.credit + budget * passed / DAY - again, budget, sum(counts)),
        visits=plan.visits * lately + again,
        changes=plan.changes * lately + again * visit.changed,
        punctual=plan.punctual * lately + again * punctual,
    )


def _held_credit(credit: float, budget: float, pages: float) -> float:
    if budget <= 0.0:
        return 0.0
    return max(-_OWED * (budget + pages), min(credit, max(2.0, _SAVED * budget)))


def _price(plan: RevisitPlan, budget: float) -> float:
    """What a visit must be worth, so that all visits together keep to a budget of so many a day."""
    pages = max(0.1, plan.pages)
    unseen = max(0.0, _UNSEEN * math.exp(min(0.0, plan.since - plan.at) / DAY) - pages)
    spare = (plan.credit - max(1.0, _SPARE * budget)) / (pages + unseen)
    speed = budget / DAY * math.exp(max(-_SLOWER, min(_FASTER, spare)))
    return (plan.demand * (1 + unseen / pages) / speed) ** 2


def _prior(plan: RevisitPlan, own: Evidence | None) -> list[float]:
    """How the rates of the other pages of the host are spread."""
    counts = _counts(plan.counts)
    if own is not None:
        others = list(counts)
        for index, weight in own.places:
            others[index] = max(0.0, others[index] - weight)
        counts = tuple(others)
    total = sum(counts) + _GUESSED
    return [(count + guess) / total for count, guess in zip(counts, _GUESS, strict=True)]


# -- learning and deciding

_ANY = Pace(300.0, _MONTH, auto=True)


def learned(
    rate: bytes,
    *,
    changed: bool,
    waited: float,
    plan: RevisitPlan,
    age: float | None = None,
    pace: Pace = _ANY,
) -> bytes:
    """What is known of a page's rate after a visit. `rate`: what was known before; b"": it is the first visit.
    `waited`: seconds since the visit before. `age`: seconds since the page last changed, as the server or a sitemap
    says; None: nobody does."""
    known = unpacked(rate)
    evidence = hinted(age) if known is None else noted(known, changed, waited, age)
    likely = chances(evidence, _prior(plan, known))
    low, high = spread(likely)
    wait = _wait(likely, pace, plan, plan.budget, 1.0)
    demand = math.sqrt(worth(likely, wait)) / wait
    return packed(replace(evidence, low=low, high=high, demand=demand))


def wait(pace: Pace, rate: bytes, plan: RevisitPlan, *, budget: float = 0.0, jitter: float = 0.5) -> float:
    """Seconds from now to the next visit. `budget`: visits a day that the pages of the host share; 0: no limit.
    `jitter`: a random number from 0 to 1. Without it, pages that were found together would come due together."""
    if not pace.auto:
        return pace.shortest
    known = unpacked(rate)
    likely = chances(known or NO_EVIDENCE, _prior(plan, known))
    return pace.held(_wait(likely, pace, plan, budget, jitter) * (1 + _JITTER * (2 * jitter - 1)))


def _wait(likely: Chances, pace: Pace, plan: RevisitPlan, budget: float, jitter: float) -> float:
    if budget > 0.0:
        return pace.held(_affordable(likely, plan, budget, jitter))
    soon = wait_until_likely(likely, _LIKELY)
    late = 1.0 - on_time if (on_time := plan.on_time) is not None else 0.0
    if late < _ON_TIME or plan.visits < 1.0:
        return pace.held(soon)
    # The host gives fewer visits than its pages ask for.
    shared = _affordable(likely, plan, plan.visits_a_day, jitter)
    return pace.held(max(soon, soon ** (1 - late) * shared**late))


def _affordable(likely: Chances, plan: RevisitPlan, budget: float, jitter: float) -> float:
    price = _price(plan, budget)
    seconds = wait_worth(likely, price)
    if seconds <= _HOPELESS * wait_until_likely(likely, _USUALLY):
        return seconds
    pages = max(1.0, plan.pages)
    # Where there are few pages, there is little else to spend the budget on.
    seconds = min(seconds, min(_PATIENCE, 1 + pages / 4) * DAY * pages / budget)
    # After a short wait a page that is just worth its visits has changed, or not, with about equal chances.
    return min(seconds, 1.5 * price) if jitter < _CHECKED else seconds
