"""Timeouts that follow a host's latency."""

from __future__ import annotations

import itertools

import pytest

from shoal.policy.protocol import Observation
from shoal.policy.timeout import TimeoutPolicy, TimeoutState, prolonged
from shoal.settings import Settings

T = 1_750_000_000.0


def ok(started: float, latency: float) -> Observation:
    return Observation(started, started + latency, "ok")


def cut_off(started: float, ended: float) -> Observation:
    return Observation(started, ended, "timeout", blames_host=True)


@pytest.fixture
def policy() -> TimeoutPolicy:
    return TimeoutPolicy(Settings())


def after(policy: TimeoutPolicy, *observations: Observation, state: TimeoutState | None = None) -> float:
    state = state or TimeoutState()
    for seen in observations:
        state = policy.observe(state, seen)
    timeout = policy.limits(state, T).timeout
    assert timeout is not None
    return timeout


def steady(latency: float, count: int = 50) -> list[Observation]:
    return [ok(T + n * 10, latency) for n in range(count)]


def test_a_host_never_seen_has_a_sane_one(policy: TimeoutPolicy) -> None:
    assert after(policy) == Settings().first_timeout
    assert after(TimeoutPolicy(Settings(total_timeout=5))) == 5.0


@pytest.mark.parametrize("count", [1, 2, 10, 200])
def test_steady_latency_gives_about_three_times_as_much(policy: TimeoutPolicy, count: int) -> None:
    assert 3.5 < after(policy, *steady(1.2, count)) < 4.5


def test_scattered_latency_gives_more(policy: TimeoutPolicy) -> None:
    scattered = [ok(T + n, 0.4 if n % 2 else 2.0) for n in range(100)]
    assert 4.0 < after(policy, *scattered) < 6.0


def test_bounds(policy: TimeoutPolicy) -> None:
    assert after(policy, *steady(0.01)) == 2.0
    assert after(policy, *steady(50.0)) == 60.0
    assert after(TimeoutPolicy(Settings(min_timeout=9, total_timeout=4)), *steady(0.01)) == 4.0


def test_every_timeout_doubles_the_next_until_an_answer(policy: TimeoutPolicy) -> None:
    known = steady(1.0)
    assert after(policy, *known) == pytest.approx(3, rel=0.01)
    one = [*known, cut_off(T + 1000, T + 1003)]
    assert after(policy, *one) == pytest.approx(6, rel=0.01)
    two = [*one, cut_off(T + 1010, T + 1016)]
    assert after(policy, *two) == pytest.approx(12, rel=0.01)
    assert after(policy, *two, ok(T + 1020, 1.0)) == pytest.approx(3, rel=0.01)


def test_doubling_stops_at_the_cap(policy: TimeoutPolicy) -> None:
    cut = [cut_off(T + 100 * n, T + 100 * n + 60) for n in range(20, 2000)]
    assert after(policy, *steady(1.0), *cut) == 60.0


def test_a_host_that_never_answered_gets_twice_the_first_timeout_and_no_more(policy: TimeoutPolicy) -> None:
    cut = [cut_off(T + 100 * n, T + 100 * n + 60) for n in range(5)]
    assert after(policy, *cut) == 2 * Settings().first_timeout


def test_requests_cut_off_together_double_once_in_any_order(policy: TimeoutPolicy) -> None:
    batch = [cut_off(T + n / 10, T + 20 + n / 10) for n in range(4)]
    for order in itertools.permutations(batch):
        assert after(policy, *order) == 2 * Settings().first_timeout


def test_an_answer_that_was_on_its_way_does_not_end_the_doubling(policy: TimeoutPolicy) -> None:
    doubled = [*steady(1.0), cut_off(T + 1000, T + 1003)]
    assert after(policy, *doubled, ok(T + 1002.5, 1.0)) == pytest.approx(6, rel=0.01)


@pytest.mark.parametrize("kind", ["http_404", "http_503", "connect", "redirect", "proxy_refused"])
def test_only_pages_are_measured(policy: TimeoutPolicy, kind: str) -> None:
    fast = [Observation(T + 600 + n, T + 600.01 + n, kind) for n in range(50)]
    assert after(policy, *steady(3.0), *fast) == after(policy, *steady(3.0))


def test_every_time_that_was_not_enough_doubles_the_next() -> None:
    assert [prolonged(3.0, times, 60.0) for times in (0, 1, 2, 3, 10_000)] == [3, 6, 12, 24, 60]
