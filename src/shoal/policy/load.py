"""The signals that backpressure uses, and the meters that compute some of them. Pure."""

from __future__ import annotations

import math

from msgspec import Struct

TOO_MANY = "http_429"
PROXY = ("proxy", "gateway")  # how the kinds of their failures begin

_MEMORY = 20.0  # seconds after which a fetch counts for a third (1/e)
_DRIFT = 300.0  # seconds in which a host's usual latency follows two thirds of a lasting change
_LEARNING = 8  # a host's first latencies are averaged: a single one says little
# After so many fetches, new hosts are compared with all others. Before, they would be compared only with the quickest
# hosts, which answer first.
_BROAD = 1_000
_EXTREME = math.log(8)  # one fetch counts at most as this much slower or faster than usual
# Seconds; whatever is quicker counts as this. Below, a latency says more about this machine than about the host: a
# busy processor doubles it.
_SHORTEST = 0.05
_HOSTS = 10_000
_DOUBT = 10.0  # usual fetches that are added to the average, so that few slow ones mean little
_NONE = 1e-9
_FLOW = 60.0  # seconds after which a found or ended task counts for a third: a list of links is not a trend
_JOBS = 1_000


class Signals(Struct, frozen=True):
    """One moment of a crawl, as one process sees it. The defaults say that all is well."""

    job: str = ""  # the one with the longest queue, which the next four are of
    pending: int = 0  # tasks of the job that wait for their turn
    only_discovery: bool = (
        False  # … all of them in the lane for discovery, while other pages are visited again
    )
    growth: float = 0.0  # URLs that pages led to, for every page that ended lately, without start URLs
    feeding: bool = False  # the job has start URLs that have not been read yet
    idle: float = 0.0  # seconds since a page was last in flight here
    fetches: float = 0.0  # recent fetches, older ones counted for less
    retry_share: float = 0.0  # … that have to be repeated
    too_many_share: float = 0.0  # … answered 429
    proxy_error_share: float = 0.0  # … that a proxy failed
    latency: float = 0.0  # seconds a recent fetch typically took; 0: not known
    baseline_latency: float = 0.0  # … and what the same hosts usually take
    sink_lag: float = 0.0  # seconds the oldest finished page has waited to be committed
    backlog: int = 0  # bytes of rows that wait on the disk to be uploaded
    loop_lag: float = 0.0  # seconds the event loop was late, at worst, lately
    memory: int = 0  # bytes
    memory_limit: int = 0  # bytes; 0: no limit is known
    open_files: int = 0
    file_limit: int = 0  # 0: no limit is known
    store_used: int = 0  # bytes of the store, where it is fullest
    store_limit: int = 0  # bytes; 0: no limit is known

    @property
    def slowdown(self) -> float:
        """How many times the usual latency a fetch takes."""
        return self.latency / self.baseline_latency if self.baseline_latency else 0.0

    @property
    def store_share(self) -> float:
        return self.store_used / self.store_limit if self.store_limit else 0.0

    @property
    def store_megabytes(self) -> int:
        return self.store_limit >> 20


class Backlog(Struct, frozen=True):
    """The queue of a job, and what has gone through it since the job began."""

    job: str = ""
    pending: int = 0
    found: int = 0  # tasks that pages led to
    ended: int = 0  # tasks that are through, one way or another
    feeding: bool = False
    only_discovery: bool = False  # all that wait are in that lane, while other pages are visited again


class Growth:
    """How many tasks pages find for every task that ends. Start URLs do not count: we can hold them back. Old counts
    fade."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Backlog, float]] = {}
        self._flows: dict[str, tuple[float, float]] = {}  # by job: found, ended

    def of(self, backlog: Backlog, now: float) -> float:
        """The growth of a job, updated with its latest numbers."""
        last, at = self._last.pop(backlog.job, (backlog, now))
        found, ended = self._flows.pop(backlog.job, (0.0, 0.0))
        kept = math.exp(min(0.0, at - now) / _FLOW)
        # A job that was begun afresh counts from nothing again.
        found = kept * found + max(0, backlog.found - last.found)
        ended = kept * ended + max(0, backlog.ended - last.ended)
        while len(self._last) >= _JOBS:
            del self._flows[next(iter(self._flows))], self._last[next(iter(self._last))]
        self._last[backlog.job], self._flows[backlog.job] = (backlog, now), (found, ended)
        return found / max(ended, 1.0) if ended + found >= 1 else 0.0


class _Usual(Struct):
    """A host's usual latency: the mean of its logarithms, which a rare very slow page hardly moves."""

    log: float = 0.0
    count: int = 0
    at: float = 0.0

    def learn(self, log: float, now: float, learning: int) -> None:
        self.count += 1
        first = 1 / self.count if self.count <= learning else 0.0
        self.log += (log - self.log) * max(first, min(1.0, (now - self.at) / _DRIFT))
        self.at = now


class Traffic:
    """Recent fetches of one process, as shares and typical latencies. Old fetches fade.

    Each latency is compared with the usual one of its host. So slower hosts do not look like congestion on our side,
    nor does a single host that hangs.
    """

    def __init__(self) -> None:
        self._at = 0.0
        self._fetches = self._retries = self._too_many = self._proxy_errors = 0.0
        self._timed = self._log = self._usual_log = 0.0
        self._all = _Usual()
        self._hosts: dict[str, _Usual] = {}

    def record(self, host: str, kind: str, elapsed: float, now: float, *, retry: bool) -> None:
        """One fetch that ended: its kind (policy/outcomes.py), its seconds (0: not known), whether it is repeated."""
        self._fade(now)
        self._fetches += 1
        self._retries += retry
        self._too_many += kind == TOO_MANY
        if kind.startswith(PROXY):
            self._proxy_errors += 1  # its latency says nothing about the host
        elif elapsed > 0:
            self._time(host, math.log(max(elapsed, _SHORTEST)), now)

    def signals(self, now: float) -> Signals:
        """The signals that come from traffic; the others have their defaults."""
        self._fade(now)
        fetches, timed = max(self._fetches, _NONE), max(self._timed, _NONE)
        usual = self._usual_log / timed
        slower = (self._log - self._usual_log) / (timed + _DOUBT)
        return Signals(
            fetches=self._fetches,
            retry_share=self._retries / fetches,
            too_many_share=self._too_many / fetches,
            proxy_error_share=self._proxy_errors / fetches,
            latency=math.exp(usual + slower) if timed > _NONE else 0.0,
            baseline_latency=math.exp(usual) if timed > _NONE else 0.0,
        )

    def _time(self, host: str, log: float, now: float) -> None:
        known = self._hosts.get(host)
        if known is None:
            if len(self._hosts) >= _HOSTS:
                del self._hosts[next(iter(self._hosts))]
            known = self._hosts[host] = _Usual()
        compared = known if known.count else self._all if self._all.count >= _BROAD else None
        if compared is not None:
            usual = compared.log
            self._timed += 1
            self._log += usual + max(-_EXTREME, min(_EXTREME, log - usual))
            self._usual_log += usual
        known.learn(log, now, _LEARNING)
        self._all.learn(log, now, _BROAD)

    def _fade(self, now: float) -> None:
        if now <= self._at:
            return
        kept = math.exp((self._at - now) / _MEMORY)
        self._at = now
        self._fetches *= kept
        self._retries *= kept
        self._too_many *= kept
        self._proxy_errors *= kept
        self._timed *= kept
        self._log *= kept
        self._usual_log *= kept
