"""What happens to a host over time: its policies, a valve and a simulated host, in pure virtual time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.compose import HostPolicies
from shoal.policy.concurrency import first_at_once
from shoal.policy.protocol import Limits, Observation
from shoal.settings import Settings
from shoal.valve import FOREVER, Valve

START = 1_750_000_000.0


class Answer(Struct, frozen=True):
    kind: str = "ok"
    latency: float = 0.2
    retry_after: float | None = None


Behaviour = Callable[[float, int], Answer]  # of the time since the start, and how many are in flight


class Story:
    """Sends a host as many requests as its valve lets through; a worker's beat is felt at once."""

    def __init__(self, settings: Settings, host: Behaviour) -> None:
        self.settings, self.host = settings, host
        self.policies = HostPolicies(settings)
        self.states = self.policies.initial()
        interval = 1 / settings.rate if settings.rate else 0.0
        self.plain = Valve(interval, settings.burst, first_at_once(settings))
        self.valve, self.now = self.plain, 0.0
        self.seen: list[Observation] = []  # with times since the start
        self._flying: list[tuple[float, int, Observation]] = []

    def run(self, until: float) -> Story:
        while self.now < until and not self.limits.refuse:
            for _ in range(self.valve.allowance(START + self.now)):
                self._send()
            ends = self._flying[0][0] if self._flying else FOREVER
            due = self.valve.due() - START if self.valve.due() < FOREVER else FOREVER
            # Epoch times are good to a quarter of a microsecond: a step that is too small would be none.
            self.now = min(until, ends, max(due, self.now + 1e-6))
            while self._flying and self._flying[0][0] <= self.now:
                self._end(heapq.heappop(self._flying)[2])
        return self

    @property
    def limits(self) -> Limits:
        return self.policies.limits(self.states, START + self.now)

    @property
    def timeout(self) -> float:
        assert self.limits.timeout is not None
        return self.limits.timeout

    def _send(self) -> None:
        answer = self.host(self.now, self.valve.in_flight + 1)
        self.valve = self.valve.take(1, START + self.now)
        timeout = self.timeout
        if answer.latency > timeout:
            answer = Answer("timeout", timeout)
        blames = answer.kind not in ("ok", "http_404")
        seen = Observation(self.now, self.now + answer.latency, answer.kind, blames, answer.retry_after)
        heapq.heappush(self._flying, (seen.ended, len(self.seen) + len(self._flying), seen))

    def _end(self, seen: Observation) -> None:
        self.seen.append(seen)
        told = replace(seen, started=START + seen.started, ended=START + seen.ended)
        self.states = self.policies.observe(self.states, [told])
        wanted = self.limits
        valve = replace(
            self.plain,
            interval=max(self.plain.interval, wanted.interval or 0.0),
            cap=min(self.plain.cap, wanted.cap or self.plain.cap),
            blocked_until=wanted.blocked_until or 0.0,
        )
        self.valve = self.valve.give_back(1).reset(valve)

    def between(self, begin: float, end: float, kind: str | None = None) -> list[Observation]:
        """Requests that started in this time."""
        return [x for x in self.seen if begin <= x.started < end and kind in (None, x.kind)]


class Bucket:
    """A server that turns requests away above its rate."""

    def __init__(self, rate: float, burst: int, retry_after: float | None) -> None:
        self.rate, self.burst, self.retry_after = rate, burst, retry_after
        self.tokens, self.at = float(burst), 0.0

    def __call__(self, now: float, in_flight: int) -> Answer:
        self.tokens, self.at = min(self.burst, self.tokens + (now - self.at) * self.rate), now
        if self.tokens < 1:
            return Answer("http_429", 0.02, self.retry_after)
        self.tokens -= 1
        return Answer()


def test_a_host_that_is_well_is_never_held_back() -> None:
    story = Story(Settings(rate=5, per_host=4), lambda now, n: Answer()).run(60)
    assert 298 <= len(story.seen) <= 301
    assert story.limits.why == ""


def test_a_host_dies_and_returns() -> None:
    def host(now: float, in_flight: int) -> Answer:
        return Answer("connect", 0.01) if 20 <= now < 90 else Answer()

    story = Story(Settings(rate=5, per_host=4), host).run(300)
    failures = story.between(20, 300, "connect")
    probes = failures[5:]  # five in a row open the breaker, then there is one request per cooldown
    assert [round(b.started - a.ended, 3) for a, b in pairwise(failures[4:])] == [5, 10, 20]
    first, second, *_ = story.between(90, 300, "ok")
    assert round(first.started - probes[-1].ended, 3) == 40
    assert second.started - first.ended < 0.1
    assert len(story.between(first.started, 300)) >= (300 - first.started) * 5 - 2
    assert story.limits.why == ""


def test_a_host_that_dies_for_good_is_given_up() -> None:
    story = Story(
        Settings(rate=5, per_host=4), lambda now, n: Answer("connect", 0.01) if now > 10 else Answer()
    )
    story.run(4000)
    assert story.now < 400
    assert len(story.between(11, 4000)) <= 5 + 6
    assert (story.limits.refuse or "").startswith("host_down: 5 failures in a row")


def test_a_host_that_hangs_from_the_start_takes_few_requests() -> None:
    story = Story(Settings(rate=5, per_host=2), lambda now, n: Answer(latency=1e9)).run(4000)
    assert story.limits.refuse is not None
    assert len(story.seen) <= 6 + 3


def test_a_429_storm_settles_below_the_limit_of_the_host() -> None:
    story = Story(Settings(rate=0, per_host=8), Bucket(rate=5, burst=10, retry_after=1)).run(1800)
    turned_away = story.between(0, 1800, "http_429")
    assert len(turned_away) <= len(story.seen) * 0.01
    assert len(story.between(0, 1800, "ok")) >= 1800 * 5 * 0.5


def test_a_429_storm_without_retry_after() -> None:
    story = Story(Settings(rate=10, per_host=8), Bucket(rate=1, burst=3, retry_after=None)).run(1800)
    assert len(story.between(0, 1800, "http_429")) <= len(story.seen) * 0.03
    assert len(story.between(0, 1800, "ok")) >= 1800 * 0.4
    assert not story.between(0, 1800, "timeout")


def test_every_rest_that_is_asked_for_is_granted() -> None:
    story = Story(Settings(rate=0, per_host=4), Bucket(rate=2, burst=4, retry_after=7)).run(600)
    for refused in story.between(0, 600, "http_429"):
        assert not story.between(refused.ended + 1e-6, refused.ended + 7 - 1e-3)


def test_a_latency_step_is_followed_by_the_timeout() -> None:
    """From 1.2 s to 5 s, for good: cut off at first, then known."""

    def host(now: float, in_flight: int) -> Answer:
        return Answer(latency=1.2 if now < 100 else 5.0)

    story = Story(Settings(rate=2, per_host=4), host).run(100)
    assert 3.5 < story.timeout < 4.5
    story.run(1000)
    assert story.timeout > 10
    assert len(story.between(100, 1000, "timeout")) <= 8
    assert not story.between(300, 1000, "timeout")
    assert len(story.between(700, 1000, "ok")) >= 300 / 5 * 3


def test_a_host_that_gets_slow_under_load_is_given_less() -> None:
    """At first it serves 32 at once, later four, and more of them only wait longer."""

    def host(now: float, in_flight: int) -> Answer:
        return Answer(latency=0.3 * max(1.0, in_flight / (32 if now < 60 else 4)))

    story = Story(Settings(rate=0, per_host=32), host).run(120)
    late = story.between(90, 119)
    assert sum(x.elapsed for x in late) / len(late) < 1.0
    assert len(late) >= 29 / 0.3 * 4 * 0.9


def test_a_host_that_turns_away_above_a_level_is_kept_below_it() -> None:
    def host(now: float, in_flight: int) -> Answer:
        return Answer("http_503", 0.05) if in_flight > 6 else Answer()

    story = Story(Settings(rate=0, per_host=16), host).run(120)
    late = story.between(60, 120)
    assert len([x for x in late if x.kind == "http_503"]) / len(late) < 0.05
    assert len(late) > 60 / 0.2 * 3


def test_a_flapping_host_is_used_while_it_is_up() -> None:
    """Ten seconds up, ten seconds down."""

    def host(now: float, in_flight: int) -> Answer:
        return Answer("http_502", 0.02) if int(now / 10) % 2 else Answer()

    story = Story(Settings(rate=5, per_host=2), host).run(600)
    failed, fetched = (len(story.between(0, 600, kind)) for kind in ("http_502", "ok"))
    assert fetched >= 600 / 2 * 5 * 0.4
    assert failed <= 30 * 8
    assert story.limits.refuse is None


def test_a_host_that_fails_half_the_time_is_left_alone_mostly() -> None:
    rng = random.Random(7)
    story = Story(
        Settings(rate=10, per_host=4), lambda now, n: Answer("http_500" if rng.random() < 0.6 else "ok")
    ).run(600)
    assert len(story.seen) < 600 * 10 * 0.4
