"""What one process has counted: pages, failures, bytes and latencies, in all and by host.

A Tally is written on the hot path (a microsecond a call). A TallyReport is its state at one moment: frozen,
serialisable and mergeable, so that reports of several processes can be added up.

The job's counters in the frontier count tasks; a tally counts the traffic of this run, which the frontier does not
keep.
"""

from __future__ import annotations

import heapq
import math
import os
import struct
import zlib
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.visit_tally import NO_VISITS, VisitTally
from shoal.model import Failure, Response
from shoal.text import UNREADABLE

_FASTEST, _SLOWEST, _STEPS = 0.001, 120.0, 64
_RATIO = math.pow(_SLOWEST / _FASTEST, 1 / _STEPS)  # 1.2: a percentile is right within 10 %
# Upper edges of the latency buckets; the last bucket (one more than the edges) holds whatever is slower.
LATENCY_EDGES = tuple(_FASTEST * math.pow(_RATIO, step) for step in range(_STEPS + 1))

K = TypeVar("K", str, int)

HOSTS_KEPT = 10_000
HOSTS_REPORTED = 20
REASONS_KEPT = 100
_SMOOTHING = 0.2  # weight of the newest latency


class HostTally(Struct, frozen=True):
    """One host in a report."""

    host: str
    pages: int = 0
    retries: int = 0
    dead: int = 0
    latency: float = 0.0  # smoothed seconds a fetch
    last_error: str = ""  # kind of the latest failure
    handled: int = 0

    @property
    def failures(self) -> int:
        return self.retries + self.dead

    @property
    def attempts(self) -> int:
        return self.handled + self.failures


class TallyReport(Struct, frozen=True):
    """What was counted up to one moment."""

    pages: int = 0  # responses that were not redirects, nor inside a handler
    fetches: int = 0  # requests that went out
    retries: int = 0
    dead: int = 0
    bytes: int = 0  # as received, before decoding
    in_flight: int = 0
    errors: dict[str, int] = {}  # failures by kind
    statuses: dict[int, int] = {}
    refused: dict[str, int] = {}  # requests that were not admitted, by reason
    cut: dict[str, int] = {}  # what was left out: "links" of a page, "cookies" of a redirect, "noindex items"
    latency: tuple[int, ...] = ()  # fetches in each bucket of LATENCY_EDGES
    hosts: tuple[HostTally, ...] = ()  # the slowest, slowest first
    seconds: float = 0.0  # that the fetches took, in all
    handled: int = 0  # pages whose handler ended well, and that are committed
    rejected: int = 0  # items that were not written, and are kept
    files: int = 0  # that were downloaded
    file_bytes: int = 0  # … and their bytes
    logins: int = 0  # of sessions
    failed_logins: int = 0
    cached: int = 0  # pages and inner requests that were answered from the archive
    visits: VisitTally = NO_VISITS  # of pages that are visited again and again

    @property
    def attempts(self) -> int:
        """Those that are over: each was handled, is repeated, or was given up."""
        return self.handled + self.retries + self.dead

    def percentile(self, p: float) -> float | None:
        """Seconds within which `p` per cent of the fetches were answered; None if there were none."""
        total = sum(self.latency)
        if not total:
            return None
        rank, passed = total * p / 100, 0
        for bucket, count in enumerate(self.latency):
            if count and passed + count >= rank:
                return _within(bucket, (rank - passed) / count)
            passed += count
        return LATENCY_EDGES[-1]

    @property
    def success_rate(self) -> float | None:
        """Share of the attempts whose page was handled; None before the first."""
        return self.handled / self.attempts if self.attempts else None


def _within(bucket: int, share: float) -> float:
    """The latency `share` of the way through a bucket, whose edges are a constant ratio apart."""
    if bucket == 0:
        return _FASTEST * share
    return LATENCY_EDGES[bucket - 1] * math.pow(_RATIO, share)


class _Host:
    __slots__ = ("dead", "handled", "last_error", "latency", "pages", "retries")

    def __init__(self) -> None:
        self.pages = self.retries = self.dead = self.handled = 0
        self.latency = 0.0
        self.last_error = ""

    def tally(self, name: str) -> HostTally:
        return HostTally(
            name, self.pages, self.retries, self.dead, self.latency, self.last_error, self.handled
        )

    def timed(self, elapsed: float) -> None:
        self.latency += (elapsed - self.latency) * _SMOOTHING if self.latency else elapsed


class Tally:
    """The counters of this process. A page is counted twice: when it arrives (`fetched`), and when its attempt is over
    and committed, by how that ended (`handled` or `failed`). A failure that took time was a fetch; one without
    `elapsed` never went out (robots.txt said no) or was counted when its page arrived (a handler's exception)."""

    def __init__(self) -> None:
        self.pages = self.fetches = self.retries = self.dead = self.bytes = self.rejected = 0
        self._handled = self._files = self._file_bytes = 0
        self.seconds = 0.0
        self._errors: dict[str, int] = {}
        self._statuses: dict[int, int] = {}
        self._refused: dict[str, int] = {}
        self._cut: dict[str, int] = {}
        self._logins = self._failed_logins = 0
        self._cached = 0
        self._visits = NO_VISITS
        self._latency = [0] * (len(LATENCY_EDGES) + 1)
        self._hosts: dict[str, _Host] = {}

    def fetched(self, host: str, response: Response, *, inner: bool = False) -> None:
        """`inner`: a request inside a handler, which is no page of its own."""
        status, elapsed = response.status, response.elapsed
        entry = self._hosts.get(host) or self._new_host(host)
        if (not 300 <= status < 400 or status == 304) and not inner:  # 304: the page is as it was
            self.pages += 1
            entry.pages += 1
        self.fetches += 1
        self.bytes += response.wire_bytes or len(response.body)
        self._statuses[status] = self._statuses.get(status, 0) + 1
        self._latency[bisect_left(LATENCY_EDGES, elapsed)] += 1
        self.seconds += elapsed
        entry.timed(elapsed)

    def handled(self, host: str) -> None:
        self._handled += 1
        (self._hosts.get(host) or self._new_host(host)).handled += 1

    def failed(self, host: str, failure: Failure, *, retry: bool) -> None:
        entry = self._hosts.get(host) or self._new_host(host)
        if retry:
            self.retries += 1
            entry.retries += 1
        else:
            self.dead += 1
            entry.dead += 1
        self._count_error(entry, failure)

    def inner_failed(self, host: str, failure: Failure) -> None:
        """A request inside a handler failed. Its page goes on, or fails and is counted then."""
        self._count_error(self._hosts.get(host) or self._new_host(host), failure)

    def _count_error(self, entry: _Host, failure: Failure) -> None:
        kind, status, elapsed = failure.kind, failure.status, failure.elapsed
        entry.last_error = kind
        self._errors[kind] = self._errors.get(kind, 0) + 1
        if elapsed > 0:
            self.fetches += 1
            self._latency[bisect_left(LATENCY_EDGES, elapsed)] += 1
            self.seconds += elapsed
            entry.timed(elapsed)
            if status is not None:
                self._statuses[status] = self._statuses.get(status, 0) + 1

    def file_kept(self, size: int) -> None:
        """A file is whole; `size` bytes of it were received by this process."""
        self._files += 1
        self._file_bytes += size

    def refused(self, reason: str, count: int = 1) -> None:
        self._refused[reason] = self._refused.get(reason, 0) + count

    def from_cache(self) -> None:
        self._cached += 1

    def visited(self, visit: VisitTally) -> None:
        self._visits += visit

    def logged_in(self) -> None:
        self._logins += 1

    def login_failed(self) -> None:
        self._failed_logins += 1

    def cut(self, what: str, count: int) -> None:
        if what not in self._cut and len(self._cut) >= REASONS_KEPT:
            what = "others"  # reasons may be a user's own, and hold a page's words
        self._cut[what] = self._cut.get(what, 0) + count

    def _new_host(self, host: str) -> _Host:
        if len(self._hosts) >= HOSTS_KEPT:
            del self._hosts[next(iter(self._hosts))]  # the one first met; a crawl over many hosts moves on
        entry = self._hosts[host] = _Host()
        return entry

    def report(self, *, in_flight: int = 0, hosts: int = HOSTS_REPORTED) -> TallyReport:
        slowest = heapq.nlargest(hosts, self._hosts.items(), key=lambda item: item[1].latency)
        return TallyReport(
            pages=self.pages,
            handled=self._handled,
            fetches=self.fetches,
            retries=self.retries,
            dead=self.dead,
            rejected=self.rejected,
            bytes=self.bytes,
            seconds=self.seconds,
            files=self._files,
            file_bytes=self._file_bytes,
            in_flight=in_flight,
            errors=dict(self._errors),
            statuses=dict(self._statuses),
            refused=dict(self._refused),
            cut=dict(self._cut),
            logins=self._logins,
            failed_logins=self._failed_logins,
            cached=self._cached,
            visits=self._visits,
            latency=tuple(self._latency),
            hosts=tuple(host.tally(name) for name, host in slowest),
        )

    def hosts(self) -> Iterator[HostTally]:
        """All that are kept."""
        return (host.tally(name) for name, host in self._hosts.items())


def merge(reports: Iterable[TallyReport], *, hosts: int = HOSTS_REPORTED) -> TallyReport:
    """One report for several processes."""
    reports = list(reports)
    return TallyReport(
        pages=sum(r.pages for r in reports),
        handled=sum(r.handled for r in reports),
        fetches=sum(r.fetches for r in reports),
        retries=sum(r.retries for r in reports),
        dead=sum(r.dead for r in reports),
        rejected=sum(r.rejected for r in reports),
        bytes=sum(r.bytes for r in reports),
        seconds=sum(r.seconds for r in reports),
        files=sum(r.files for r in reports),
        file_bytes=sum(r.file_bytes for r in reports),
        in_flight=sum(r.in_flight for r in reports),
        errors=_sum(r.errors for r in reports),
        statuses=_sum(r.statuses for r in reports),
        refused=_sum(r.refused for r in reports),
        cut=_sum(r.cut for r in reports),
        logins=sum(r.logins for r in reports),
        failed_logins=sum(r.failed_logins for r in reports),
        cached=sum(r.cached for r in reports),
        visits=sum((r.visits for r in reports), NO_VISITS),
        latency=tuple(map(sum, zip(*(r.latency for r in reports if r.latency), strict=True))),
        hosts=_slowest((h for r in reports for h in r.hosts), hosts),
    )


def _sum(counts: Iterable[dict[K, int]]) -> dict[K, int]:
    total: dict[K, int] = {}
    for one in counts:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    return total


def _slowest(tallies: Iterable[HostTally], limit: int) -> tuple[HostTally, ...]:
    by_host: dict[str, HostTally] = {}
    for tally in tallies:
        known = by_host.get(tally.host)
        by_host[tally.host] = _join(known, tally) if known else tally
    return tuple(heapq.nlargest(limit, by_host.values(), key=lambda h: h.latency))


def _join(a: HostTally, b: HostTally) -> HostTally:
    weight_a, weight_b = a.attempts, b.attempts
    latency = (a.latency * weight_a + b.latency * weight_b) / max(1, weight_a + weight_b)
    return HostTally(
        host=a.host,
        pages=a.pages + b.pages,
        retries=a.retries + b.retries,
        dead=a.dead + b.dead,
        latency=latency,
        last_error=b.last_error or a.last_error,
        handled=a.handled + b.handled,
    )


class RateWindow:
    """Pages a second over the last few seconds, from a total that grows; a store that goes back begins a new one."""

    def __init__(self, span: float = 5.0) -> None:
        self._span = span
        self._points: deque[tuple[float, int]] = deque()

    def add(self, now: float, total: int) -> float:
        """Notes the total at `now` (monotonic) and answers the rate."""
        points = self._points
        if points and total < points[-1][1]:
            points.clear()
        points.append((now, total))
        # The newest point outside the window stays: without it the window would shrink to the last update.
        while len(points) > 2 and points[1][0] <= now - self._span:
            points.popleft()
        (began, first), (ended, last) = points[0], points[-1]
        return (last - first) / (ended - began) if ended > began else 0.0


# -- totals in memory that outlives the process

_HEAD = struct.Struct("<QII")  # number, length, checksum
_SLOT = 1 << 20  # bytes; a report has a few thousand


class RunTotals(Struct, frozen=True):
    report: TallyReport = TallyReport()
    elapsed: float = 0.0  # seconds of the run
    restarts: int = 0


_encode_totals = msgspec.msgpack.Encoder().encode
_decode_totals = msgspec.msgpack.Decoder(RunTotals).decode


class Ledger:
    """The totals of a run, in a file that the next process inherits: if this process dies, the next one goes on
    counting from them. None: there will be no next process.

    Two slots are written in turns, each with a number and a checksum, so a process that dies while it writes leaves the
    other slot. The last half second before its death is not counted."""

    def __init__(self, file: int | None) -> None:
        self._file = file
        self._number, known = 0, None
        for slot in range(2):
            number, page = self._read(slot)
            if number > self._number:
                self._number, known = number, page
        self.before = RunTotals()  # what the processes before this one had counted
        if known is not None:
            report = replace(known.report, in_flight=0)
            self.before = replace(known, report=report, restarts=known.restarts + 1)

    def write(self, totals: RunTotals) -> None:
        data = _encode_totals(totals)
        if self._file is None or len(data) > _SLOT - _HEAD.size:
            return
        self._number += 1
        head = _HEAD.pack(self._number, len(data), _checksum(self._number, data))
        os.pwrite(self._file, head + data, self._number % 2 * _SLOT)

    def _read(self, slot: int) -> tuple[int, RunTotals | None]:
        if self._file is None or len(head := os.pread(self._file, _HEAD.size, slot * _SLOT)) < _HEAD.size:
            return 0, None
        number, length, checksum = _HEAD.unpack(head)
        data = os.pread(self._file, length, slot * _SLOT + _HEAD.size)
        try:
            return (number, _decode_totals(data)) if _checksum(number, data) == checksum else (0, None)
        except UNREADABLE:
            return 0, None


def _checksum(number: int, data: bytes) -> int:
    """Covers the number too: if only the number was written, an old slot would seem to be the newest."""
    return zlib.crc32(data, zlib.crc32(number.to_bytes(8, "little")))
