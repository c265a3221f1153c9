"""The history of a job: slices of time, and its hosts. Pure, bounded and mergeable.

The history of a long job does not grow: when there are too many slices, neighbours are joined and the interval doubles.
Every interval is a power of two of the first one, so the histories of several processes can always be merged. A job
that runs for months has slices of hours, and besides them finer ones of its last day.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.tally import LATENCY_EDGES
from shoal.engine.visit_tally import NO_VISITS, VisitTally

FIRST_INTERVAL = 1.0  # seconds
MOST_SLICES = 400
MOST_HOSTS = 300
FINE_INTERVAL = 256.0  # seconds; of the finer slices
FINE_SLICES = 360  # … about a day

# Every second edge of a tally's: a percentile is right within 20 %, at half the size.
EDGES = LATENCY_EDGES[::2]
_RATIO = EDGES[1] / EDGES[0]


class Slice(Struct, frozen=True, array_like=True):
    """What happened in one interval."""

    pages: int = 0
    fetches: int = 0
    retries: int = 0
    dead: int = 0
    bytes: int = 0
    errors: dict[str, int] = {}  # failures by kind
    latency: tuple[int, ...] = ()  # fetches in each bucket of EDGES, up to the last one that is not 0
    unhandled: int = 0  # pages received less pages handled; may be negative in one slice
    visits: VisitTally = NO_VISITS  # of pages that are visited again and again

    def __add__(self, other: Slice) -> Slice:
        return Slice(
            self.pages + other.pages,
            self.fetches + other.fetches,
            self.retries + other.retries,
            self.dead + other.dead,
            self.bytes + other.bytes,
            _sum(self.errors, other.errors),
            tuple(a + b for a, b in zip_longest(self.latency, other.latency, fillvalue=0)),
            self.unhandled + other.unhandled,
            self.visits + other.visits if self.visits and other.visits else self.visits or other.visits,
        )

    def __bool__(self) -> bool:
        return self != _NOTHING

    @property
    def failures(self) -> int:
        return sum(self.errors.values())

    @property
    def handled(self) -> int:
        return self.pages - self.unhandled

    @property
    def attempts(self) -> int:
        """Attempts that have ended."""
        return self.handled + self.failures

    @property
    def success(self) -> float | None:
        """Share of the attempts whose page was handled; None if there were none."""
        return self.handled / self.attempts if self.attempts else None

    def percentile(self, p: float) -> float | None:
        """Seconds within which `p` per cent of the fetches were answered; None if there were none."""
        rank, passed = sum(self.latency) * p / 100, 0
        for bucket, count in enumerate(self.latency):
            if count and passed + count >= rank:
                share = (rank - passed) / count
                return EDGES[0] * share if bucket == 0 else EDGES[bucket - 1] * math.pow(_RATIO, share)
            passed += count
        return None


_NOTHING = Slice()


class HostPast(Struct, frozen=True, array_like=True):
    """One host since the job began."""

    pages: int = 0
    failures: int = 0
    seconds: float = 0.0  # that its requests took, in all
    last_error: str = ""  # kind of the latest failure
    unhandled: int = 0  # pages received less those handled

    def __add__(self, other: HostPast) -> HostPast:
        """`other` is the later one."""
        return HostPast(
            self.pages + other.pages,
            self.failures + other.failures,
            self.seconds + other.seconds,
            other.last_error or self.last_error,
            self.unhandled + other.unhandled,
        )

    @property
    def handled(self) -> int:
        return self.pages - self.unhandled

    @property
    def requests(self) -> int:
        """Attempts that are over."""
        return self.handled + self.failures

    @property
    def latency(self) -> float:
        """Mean seconds a request."""
        return self.seconds / self.requests if self.requests else 0.0


class Point(Struct, frozen=True):
    """One slice with its time."""

    at: float  # where it begins, in the frontier's time
    seconds: float  # its length
    slice: Slice

    @property
    def rate(self) -> float:
        """Pages a second."""
        return self.slice.pages / self.seconds


class History(Struct, frozen=True):
    interval: float = FIRST_INTERVAL  # seconds; the first one, doubled a number of times
    slices: dict[int, Slice] = {}  # by int(time // interval)
    hosts: dict[str, HostPast] = {}  # the busiest
    fine: dict[
        int, Slice
    ] = {}  # of the last day, by int(time // FINE_INTERVAL), if the interval is longer than that

    def added(self, at: float, gained: Slice, hosts: Mapping[str, HostPast] | None = None) -> History:
        """The history with what happened around `at`."""
        known = History(slices={int(at // FIRST_INTERVAL): gained} if gained else {}, hosts=dict(hosts or {}))
        return self.merged(known)

    def merged(self, other: History) -> History:
        """Both in one; `other` is the later one."""
        interval = max(self.interval, other.interval)
        slices = _joined(self._at(interval), other._at(interval))
        hosts = dict(self.hosts)
        for name, past in other.hosts.items():
            hosts[name] = hosts[name] + past if name in hosts else past
        merged = History(interval, slices, busiest(hosts)).coarsened()
        if merged.interval <= FINE_INTERVAL:
            return merged
        return replace(merged, fine=latest(_joined(self._fine(), other._fine())))

    def coarsened(self, most: int = MOST_SLICES) -> History:
        """The same in at most that many slices."""
        history = self
        while len(history.slices) > most:
            interval = history.interval * 2
            history = replace(history, interval=interval, slices=history._at(interval))
        return history

    def _fine(self) -> dict[int, Slice]:
        return self._at(FINE_INTERVAL) if self.interval <= FINE_INTERVAL else self.fine

    def _at(self, interval: float) -> dict[int, Slice]:
        """The slices as they are with a longer interval."""
        times = round(interval / self.interval)
        slices: dict[int, Slice] = {}
        for key, one in self.slices.items():
            joined = key // times
            slices[joined] = slices[joined] + one if joined in slices else one
        return slices

    # -- reading

    def points(self) -> Sequence[Point]:
        """All slices in order. A gap has one empty point at each end, however long it is."""
        return _points(self.slices, self.interval)

    def finest_points(self) -> Sequence[Point]:
        """The same, and the last day in finer slices, if there are any. So not all are equally long."""
        if not self.fine:
            return self.points()
        # The fine ones begin where a slice does, so that nothing is told twice.
        first = math.ceil(min(self.fine) * FINE_INTERVAL / self.interval) * self.interval
        fine = {key: one for key, one in self.fine.items() if key * FINE_INTERVAL >= first}
        before = {key: one for key, one in self.slices.items() if (key + 1) * self.interval <= first}
        return [*_points(before, self.interval), *_points(fine, FINE_INTERVAL)]

    def total(self) -> Slice:
        return joined(self.slices.values())

    def since(self, at: float) -> Slice:
        """What has happened since then, to the nearest slice."""
        slices, interval = self.latest
        first = math.floor(at / interval + 0.5)
        return joined(one for key, one in slices.items() if key >= first)

    @property
    def latest(self) -> tuple[Mapping[int, Slice], float]:
        """The slices to look at for what happened lately, and their interval."""
        return (self.fine, FINE_INTERVAL) if self.fine else (self.slices, self.interval)

    def kinds(self) -> Sequence[str]:
        """The kinds of failures, most frequent first."""
        errors = self.total().errors
        return sorted(errors, key=lambda kind: (-errors[kind], kind))


def joined(slices: Iterable[Slice]) -> Slice:
    """All in one."""
    total = _NOTHING
    for one in slices:
        total += one
    return total


def latest(fine: dict[int, Slice]) -> dict[int, Slice]:
    """As many fine slices as a history holds."""
    if len(fine) <= FINE_SLICES:
        return fine
    oldest = max(fine) - FINE_SLICES
    return {key: one for key, one in fine.items() if key > oldest}


def _joined(a: dict[int, Slice], b: Mapping[int, Slice]) -> dict[int, Slice]:
    found = dict(a)
    for key, one in b.items():
        found[key] = found[key] + one if key in found else one
    return found


def _points(slices: Mapping[int, Slice], interval: float) -> list[Point]:
    keys = sorted(slices)
    empty = [beside for a, b in pairwise(keys) for beside in {a + 1, b - 1} if beside not in slices]
    return [Point(key * interval, interval, slices.get(key, _NOTHING)) for key in sorted([*keys, *empty])]


def coarse(latency: Sequence[int]) -> tuple[int, ...]:
    """The buckets of a tally for a slice: with every second edge, so two buckets become one."""
    counts = [0] * (len(EDGES) + 1)
    for bucket, count in enumerate(latency):
        counts[(bucket + 1) // 2] += count
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)


def busiest(hosts: dict[str, HostPast]) -> dict[str, HostPast]:
    """The hosts with most requests, as many as a history holds."""
    if len(hosts) <= MOST_HOSTS:
        return hosts
    return dict(heapq.nsmallest(MOST_HOSTS, hosts.items(), key=lambda item: (-item[1].requests, item[0])))


def _sum(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    if not (a and b):
        return a or b
    return {key: a.get(key, 0) + b.get(key, 0) for key in {**a, **b}}
