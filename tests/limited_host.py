"""A host with a limit, crawled in virtual time by a fleet whose workers fold what they see as the real ones do."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from shoal.policy.compose import HostPolicies, States, configured
from shoal.policy.protocol import Limits, Observation
from shoal.policy.retry import delay
from shoal.settings import Settings
from shoal.valve import Valve

Limit = Callable[[float], float]  # the time of day -> requests a second that the host bears

START = 1_750_000_000.0
_WRITE_AFTER = 5.0  # seconds that a worker keeps what moves no valve to itself


class TokenBucket:
    def __init__(self, rate: Limit, burst: float) -> None:
        self._rate, self._burst, self._tokens, self._at = rate, burst, burst, START

    def refuses(self, now: float) -> float | None:
        """Seconds until a request may come; None: this one may."""
        rate = self._rate(now)
        self._tokens = min(self._burst, self._tokens + (now - self._at) * rate)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / rate
        self._tokens -= 1
        return None


class FixedWindow:
    def __init__(self, rate: Limit, seconds: float) -> None:
        self._rate, self._seconds, self._window, self._count = rate, seconds, 0, 0

    def refuses(self, now: float) -> float | None:
        window = int(now // self._seconds)
        if window != self._window:
            self._window, self._count = window, 0
        if self._count + 1 > self._rate(now) * self._seconds + 1e-9:
            return (window + 1) * self._seconds - now
        self._count += 1
        return None


class SlidingWindow:
    """`counts_refused`: a client that keeps asking stays refused."""

    def __init__(self, rate: Limit, seconds: float, *, counts_refused: bool = False) -> None:
        self._rate, self._seconds, self._counts = rate, seconds, counts_refused
        self._times: deque[float] = deque()

    def refuses(self, now: float) -> float | None:
        while self._times and self._times[0] <= now - self._seconds:
            self._times.popleft()
        refused = len(self._times) + 1 > self._rate(now) * self._seconds + 1e-9
        wait = self._times[0] + self._seconds - now if refused else None
        if not refused or self._counts:
            self._times.append(now)
        return wait


Limiter = TokenBucket | FixedWindow | SlidingWindow


@dataclass
class Figures:
    answers: int = 0
    refused: int = 0
    pages: int = 0
    lost: int = 0
    most_at_once: int = 0
    gaps: list[float] = field(default_factory=list)  # between two starts
    paces: list[tuple[float, float]] = field(
        default_factory=list
    )  # seconds since the start, the policies' pace

    @property
    def share_refused(self) -> float:
        return self.refused / self.answers


@dataclass
class _Worker:
    policies: States
    version: int
    unwritten: list[Observation] = field(default_factory=list)
    since: float = 0.0
    limits: Limits | None = None


class Fleet:
    """`say_when`: the host sends Retry-After, in whole seconds."""

    def __init__(
        self,
        settings: Settings,
        limiter: Limiter,
        *,
        workers: int = 1,
        latency: Callable[[int], float] = lambda in_flight: 0.2,
        say_when: bool = False,
        seed: int = 1,
    ) -> None:
        self.settings, self.limiter, self.latency, self.say_when = settings, limiter, latency, say_when
        self.rng = random.Random(seed)
        self.policies = HostPolicies(settings)
        self.states, self.version = self.policies.initial(), 0
        self.valve = self._valve(Valve(), Limits())
        self.workers = [_Worker(self.states, 0) for _ in range(workers)]
        self.figures = Figures()

    def run(self, *, seconds: float, pages: int = 1 << 40) -> Figures:
        """Crawls for so long, or until all pages are fetched."""
        now, end, order, figures = START, START + seconds, 0, self.figures
        fresh = pages
        retries: list[tuple[float, int]] = []  # due, attempts made
        # When, in what order, what: the arrival at the host, and the answer at its worker.
        events: list[tuple[float, int, str, tuple[float, int, int, float]]] = []
        last_start = 0.0
        while now < end:
            waiting = fresh or (retries and retries[0][0] <= now)
            if waiting and self.valve.allowance(now) > 0:
                probe = fresh and self.policies.limits(self.states, now).probe
                attempt = heapq.heappop(retries)[1] if retries and retries[0][0] <= now and not probe else 0
                fresh -= attempt == 0
                interval, self.valve = self.valve.interval, self.valve.take(1, now)
                figures.most_at_once = max(figures.most_at_once, self.valve.in_flight)
                if last_start:
                    figures.gaps.append(now - last_start)
                last_start, order = now, order + 1
                worker = self.rng.randrange(len(self.workers))
                what = (now, attempt + 1, worker, interval)
                heapq.heappush(events, (now + self.rng.uniform(0.005, 0.03), order, "arrives", what))
                continue
            moments = [events[0][0]] if events else []
            if fresh:
                moments.append(self.valve.due())
            if retries:
                moments.append(max(retries[0][0], self.valve.due()))
            upcoming = min(moments, default=end)
            if upcoming >= end:
                break
            now = max(now, upcoming)
            if not events or events[0][0] > now:
                continue
            _, _, kind, what = heapq.heappop(events)
            order += 1
            started, attempt, worker, interval = what
            if kind == "arrives":
                wait = self.limiter.refuses(now)
                took = self.latency(self.valve.in_flight) * self.rng.uniform(0.7, 1.4)
                kind = "ok" if wait is None else f"429 {wait}"
                heapq.heappush(events, (now + (took if wait is None else 0.01), order, kind, what))
                continue
            asks = float(int(float(kind[4:])) + 1) if kind != "ok" and self.say_when else None
            figures.answers += 1
            figures.refused += kind != "ok"
            if kind == "ok":
                figures.pages += 1
            elif attempt >= self.settings.max_attempts:
                figures.lost += 1
            else:
                pause = delay(attempt, base=1.0, cap=300.0, rng=self.rng, server_asks=asks)
                heapq.heappush(retries, (now + pause, attempt))
            seen = Observation(
                started,
                now,
                "ok" if kind == "ok" else "http_429",
                blames_host=kind != "ok",
                retry_after=asks,
                first_attempt=attempt == 1,
                retried=kind != "ok",
                interval=interval,
                origin="http",
            )
            self._record(self.workers[worker], seen, now)
            self.valve = self.valve.give_back(1)
            if pages == figures.pages + figures.lost:
                break
        return figures

    def _record(self, worker: _Worker, seen: Observation, now: float) -> None:
        """As hosts/cache.py does: at once if it moves the valve, else after a while, and over what others wrote."""
        if worker.version != self.version:  # a lease tells the version of the record
            self._read(worker)
        before = self.policies.limits(worker.policies, now)
        worker.policies = self.policies.observe(worker.policies, [seen])
        worker.since = worker.since or now
        worker.unwritten.append(seen)
        after = self.policies.limits(worker.policies, now)
        moved = (before.interval, before.cap, before.blocked_until) != (
            after.interval,
            after.cap,
            after.blocked_until,
        )
        if moved or now - worker.since >= _WRITE_AFTER:
            if worker.version != self.version:
                self._read(worker)
            self.states, self.version = worker.policies, self.version + 1
            worker.version, worker.unwritten, worker.since = self.version, [], 0.0
            self.valve = self.valve.reset(self._valve(self.valve, self.policies.limits(self.states, now)))
            pace = 1 / self.valve.interval if self.valve.interval else 0.0
            self.figures.paces.append((now - START, pace))

    def _read(self, worker: _Worker) -> None:
        worker.version = self.version
        worker.policies = self.policies.observe(self.states, worker.unwritten)

    def _valve(self, valve: Valve, limits: Limits) -> Valve:
        return configured(valve, self.settings, crawl_delay=None, robots_known=True, limits=limits)


def steady(rate: float) -> Limit:
    return lambda now: rate


def settings(**given: object) -> Settings:
    return replace(Settings(rate=20.0, per_host=8), **given)
