"""A host whose pages are followed in virtual time by one way of choosing the next visit."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from benchmarks.freshness.optimum import DAY, estimated_rate, frequencies
from benchmarks.freshness.worlds import Changes
from shoal.model.pace import Pace
from shoal.policy.revisit import NO_PLAN, RevisitPlan, Visit, learned, wait, with_visit

EPOCH = 1_750_000_000.0
APART = 2.0  # seconds between the first visits of two pages
LONGEST = 30 * DAY
PACE = Pace(300.0, LONGEST, auto=True)


class Way(Protocol):
    """Chooses when a page is visited next. Times are seconds since the beginning."""

    def first(self, page: int, now: float) -> float:
        """Seconds to the second visit."""
        ...

    def next(self, page: int, now: float, waited: float, changed: bool) -> float: ...


class Fixed(Struct):
    """Every page after its own interval, which never changes; 0 visits: never."""

    visits: Sequence[float]  # a second, by page

    def first(self, page: int, now: float) -> float:
        return 1 / self.visits[page] if self.visits[page] > 0.0 else 1e12

    def next(self, page: int, now: float, waited: float, changed: bool) -> float:
        return self.first(page, now)


class Auto:
    """revisit="auto" with a budget."""

    def __init__(self, pages: int, budget: float, rng: random.Random, pace: Pace = PACE) -> None:
        self.plan: RevisitPlan = NO_PLAN
        self.rates = [b""] * pages
        self._budget, self._rng, self._pace = budget, rng, pace

    def first(self, page: int, now: float) -> float:
        return self.next(page, now, 0.0, True)

    def next(self, page: int, now: float, waited: float, changed: bool) -> float:
        before = self.rates[page]
        after = learned(before, changed=changed, waited=waited, plan=self.plan, pace=self._pace)
        seconds = wait(self._pace, after, self.plan, budget=self._budget, jitter=self._rng.random())
        visit = Visit(before, after, changed, waited, 0.0, self._budget)
        self.plan = with_visit(self.plan, visit, EPOCH + now)
        self.rates[page] = after
        return seconds


class _Seen(Struct):
    """What visits of a page have shown."""

    visits: int = 0
    changes: int = 0
    logs: float = 0.0  # of the seconds before visits that found a change
    quiet: float = 0.0  # seconds before all others

    def add(self, waited: float, changed: bool) -> None:
        self.visits += 1
        if changed:
            self.changes, self.logs = self.changes + 1, self.logs + math.log(waited)
        else:
            self.quiet += waited

    @property
    def rate(self) -> float:
        gap = math.exp(self.logs / self.changes) if self.changes else self.quiet / self.visits
        return estimated_rate(self.changes, gap, self.quiet)


class Cho:
    """The second opinion: Cho and Garcia-Molina's estimator, and every day the optimum for these estimates. A page is
    visited at the common interval until it has had three visits."""

    def __init__(self, pages: int, budget: float) -> None:
        self._seen = [_Seen() for _ in range(pages)]
        self._visits = [budget / DAY / pages] * pages
        self._equal = budget / DAY / pages
        self._budget, self._planned = budget, 0.0

    def first(self, page: int, now: float) -> float:
        return 1 / self._equal

    def next(self, page: int, now: float, waited: float, changed: bool) -> float:
        seen = self._seen[page]
        seen.add(waited, changed)
        if now - self._planned >= DAY:
            self._plan(now)
        return min(LONGEST, 1 / max(1e-9, self._visits[page]))

    def _plan(self, now: float) -> None:
        self._planned = now
        known = [page for page, seen in enumerate(self._seen) if seen.visits >= 3]
        rates = [max(1e-9, self._seen[page].rate) for page in known]
        share = self._budget * len(known) / len(self._seen)
        for page, visits in zip(known, frequencies(rates, share) if known else [], strict=True):
            self._visits[page] = visits


class Followed(Struct):
    """What came of it."""

    current: list[float]  # seconds that the copies were current, all pages together, by day
    visits: list[int]  # by day
    longest: float  # seconds that a page waited
    pages: int


def follow(pages: Sequence[Changes], way: Way, days: int) -> Followed:
    end = days * DAY
    due: list[tuple[float, int]] = []
    visited, changes_at = [0.0] * len(pages), [0.0] * len(pages)
    found = Followed([0.0] * days, [0] * days, 0.0, len(pages))
    for page, changes in enumerate(pages):
        now = visited[page] = APART * page
        changes_at[page] = changes(now)
        due.append((now + way.first(page, now), page))
    heapq.heapify(due)
    while due[0][0] < end:
        now, page = due[0]
        waited, changed = now - visited[page], changes_at[page] <= now
        _count(found.current, visited[page], min(now, changes_at[page]))
        found.visits[int(now / DAY)] += 1
        found.longest = max(found.longest, waited)
        visited[page] = now
        if changed:
            changes_at[page] = pages[page](now)
        heapq.heapreplace(due, (now + way.next(page, now, waited, changed), page))
    for page, at in enumerate(visited):
        _count(found.current, at, min(end, changes_at[page]))
        found.longest = max(found.longest, end - at)
    return found


def _count(days: list[float], start: float, end: float) -> None:
    day = int(start / DAY)
    while start < end and day < len(days):
        until = min(end, (day + 1) * DAY)
        days[day] += until - start
        start, day = until, day + 1
