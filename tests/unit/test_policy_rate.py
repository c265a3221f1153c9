"""Slowing down for 429 and Retry-After, and speeding up again."""

from __future__ import annotations

import itertools

import pytest

from shoal.policy.protocol import Observation
from shoal.policy.rate import MAX_FACTOR, RatePolicy, RateState
from shoal.settings import Settings

T = 1_750_000_000.0


def too_many(started: float, ended: float | None = None, retry_after: float | None = None) -> Observation:
    ended = started + 0.1 if ended is None else ended
    return Observation(started, ended, "http_429", blames_host=True, retry_after=retry_after)


def ok(started: float) -> Observation:
    return Observation(started, started + 0.1, "ok")


def interval(policy: RatePolicy, state: RateState) -> float | None:
    return policy.limits(state, T).interval


@pytest.fixture
def policy() -> RatePolicy:
    return RatePolicy(Settings(rate=2))


def test_a_host_never_seen_is_not_held_back(policy: RatePolicy) -> None:
    limits = policy.limits(RateState(), T)
    assert (limits.interval, limits.blocked_until, limits.why) == (None, None, "")


def test_a_429_doubles_the_configured_interval(policy: RatePolicy) -> None:
    assert interval(policy, policy.observe(RateState(), too_many(T))) == 1.0


def test_without_a_configured_rate_there_is_a_small_interval_to_double() -> None:
    policy = RatePolicy(Settings(rate=0))
    assert interval(policy, policy.observe(RateState(), too_many(T))) == pytest.approx(0.2)


def test_a_crawl_delay_that_was_not_enough_is_doubled_too(policy: RatePolicy) -> None:
    seen = Observation(T, T + 1, "http_429", blames_host=True, interval=10.0)
    assert interval(policy, policy.observe(RateState(), seen)) == 20.0


def test_those_in_flight_together_count_once_in_any_order(policy: RatePolicy) -> None:
    batch = [too_many(T + n / 10, T + 1 + n) for n in range(4)]
    for order in itertools.permutations(batch):
        state = RateState()
        for seen in order:
            state = policy.observe(state, seen)
        assert (state.factor, state.slowdowns, state.answers) == (2.0, 1, 4)


def test_a_429_by_the_slower_rate_doubles_again_up_to_a_limit(policy: RatePolicy) -> None:
    state, factors = RateState(), []
    for n in range(8):
        state = policy.observe(state, too_many(T + 100 * n))
        factors.append(state.factor)
    assert factors == [2, 4, 8, 16, 32, 32, 32, 32]
    assert interval(policy, state) == 0.5 * MAX_FACTOR


def test_a_request_that_slips_out_before_the_rate_is_in_force_does_not_count(policy: RatePolicy) -> None:
    state = policy.observe(RateState(), too_many(T, T + 0.1))
    assert policy.observe(state, too_many(T + 0.2)).factor == 2.0
    assert policy.observe(state, too_many(T + 1.2)).factor == 4.0


@pytest.mark.parametrize(
    ("asked", "blocked_for"), [(0.0, 0.0), (30.0, 30.0), (10 * 365 * 86400.0, 3600.0), (-5.0, 0.0)]
)
def test_retry_after_blocks_the_host_up_to_the_cap(
    policy: RatePolicy, asked: float, blocked_for: float
) -> None:
    state = policy.observe(RateState(), too_many(T, T + 1, asked))
    assert policy.limits(state, T).blocked_until == T + 1 + blocked_for


def test_the_longest_rest_asked_for_holds(policy: RatePolicy) -> None:
    state = RateState()
    for asked in (5.0, 60.0, 10.0):
        state = policy.observe(state, too_many(T, T + 1, asked))
    assert policy.limits(state, T).blocked_until == T + 61


def test_a_503_counts_only_if_it_asks_for_time(policy: RatePolicy) -> None:
    plain = Observation(T, T + 1, "http_503", blames_host=True)
    assert policy.observe(RateState(), plain) == RateState()
    asking = Observation(T, T + 1, "http_503", blames_host=True, retry_after=7.0)
    limits = policy.limits(policy.observe(RateState(), asking), T)
    assert (limits.interval, limits.blocked_until) == (1.0, T + 8)


def test_recovery_begins_after_a_quiet_time_and_is_gentle(policy: RatePolicy) -> None:
    slowed = policy.observe(RateState(), too_many(T))
    assert policy.observe(slowed, ok(T + 30)) == slowed
    once = policy.observe(slowed, ok(T + 70))
    assert once.factor == pytest.approx(1.9)
    state, answers = slowed, 0
    while state.factor > 1:
        state, answers = policy.observe(state, ok(T + 70 + answers)), answers + 1
    assert 20 < answers < 40
    assert policy.limits(state, T + 200).interval is None


def test_recovery_waits_longer_each_time(policy: RatePolicy) -> None:
    state = RateState()
    for n in range(3):
        state = policy.observe(state, too_many(T + 10 * n))
    assert policy.observe(state, ok(T + 20 + 100)).factor == 8
    assert policy.observe(state, ok(T + 20 + 200)).factor < 8


def test_an_answer_from_before_the_slow_down_is_no_sign_of_recovery(policy: RatePolicy) -> None:
    slowed = policy.observe(RateState(), too_many(T, T + 1))
    assert policy.observe(slowed, Observation(T, T + 500, "ok")) == slowed


def test_failures_and_our_own_faults_do_not_speed_up(policy: RatePolicy) -> None:
    slowed = policy.observe(RateState(), too_many(T))
    for kind, blames in (("timeout", True), ("proxy_refused", False), ("unexpected", False)):
        assert policy.observe(slowed, Observation(T + 500, T + 501, kind, blames)) == slowed
    assert policy.observe(slowed, Observation(T + 500, T + 501, "http_404")).factor < 2


def test_after_an_hour_in_peace_all_is_forgotten(policy: RatePolicy) -> None:
    slowed = policy.observe(RateState(), too_many(T))
    assert policy.observe(slowed, ok(T + 3700)) == RateState()


def test_says_why(policy: RatePolicy) -> None:
    state = policy.observe(RateState(), too_many(T, T + 1, 9.0))
    why = policy.limits(state, T + 1).why
    assert why == "answered 429 once, slowed to 1 req/s, asks for 9 s of rest"
    state = policy.observe(policy.observe(state, too_many(T)), too_many(T + 20))
    assert policy.limits(state, T + 30).why == "answered 429 3 times, slowed to 0.5 req/s"
