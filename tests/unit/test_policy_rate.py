"""Learning the pace that a host bears from 429 and Retry-After, and probing it rarely."""

from __future__ import annotations

import itertools

import pytest

from shoal.policy.protocol import Observation
from shoal.policy.rate import SLOWEST, RatePolicy, RateState
from shoal.settings import Settings

T = 1_750_000_000.0


def too_many(started: float, ended: float | None = None, retry_after: float | None = None) -> Observation:
    ended = started + 0.1 if ended is None else ended
    return Observation(started, ended, "http_429", blames_host=True, retry_after=retry_after)


def ok(started: float) -> Observation:
    return Observation(started, started + 0.1, "ok")


def borne(policy: RatePolicy, state: RateState, start: float, seconds: float) -> RateState:
    """After answers at the pace that the host is held to."""
    at = start
    while at < start + seconds:
        state = policy.observe(state, ok(at))
        at += policy.limits(state, at).interval or 0.5
    return state


def interval(policy: RatePolicy, state: RateState) -> float | None:
    return policy.limits(state, T).interval


@pytest.fixture
def policy() -> RatePolicy:
    return RatePolicy(Settings(rate=2))


def test_a_host_never_seen_is_not_held_back(policy: RatePolicy) -> None:
    limits = policy.limits(RateState(), T)
    assert (limits.interval, limits.blocked_until, limits.why) == (None, None, "")
    answered = policy.observe(RateState(), ok(T))
    assert policy.limits(answered, T) == limits


def test_the_first_429_halves_the_configured_pace(policy: RatePolicy) -> None:
    state = policy.observe(RateState(), too_many(T))
    assert interval(policy, state) == 1.0
    assert state.began == 2.0


def test_without_a_configured_rate_there_is_a_pace_to_halve() -> None:
    policy = RatePolicy(Settings(rate=0))
    assert interval(policy, policy.observe(RateState(), too_many(T))) == pytest.approx(0.2)


def test_a_crawl_delay_that_was_not_enough_is_doubled_too(policy: RatePolicy) -> None:
    seen = Observation(T, T + 1, "http_429", blames_host=True, interval=10.0)
    assert interval(policy, policy.observe(RateState(), seen)) == 20.0


def test_those_in_flight_together_count_once_in_any_order(policy: RatePolicy) -> None:
    batch = [too_many(T + n / 10, T + 1 + n / 10) for n in range(4)]
    for order in itertools.permutations(batch):
        state = RateState()
        for seen in order:
            state = policy.observe(state, seen)
        assert (state.pace, state.complaints) == (1.0, 4)


def test_however_often_it_is_refused_a_host_is_asked_now_and_then(policy: RatePolicy) -> None:
    state = RateState()
    for n in range(40):
        state = policy.observe(policy.observe(state, too_many(T + 2000 * n)), ok(T + 2000 * n + 1000))
        assert SLOWEST <= state.pace <= 1.0
    assert policy.limits(state, T).interval == pytest.approx(300.0)


def test_a_request_that_slips_out_before_the_pace_is_in_force_does_not_count(policy: RatePolicy) -> None:
    state = policy.observe(RateState(), too_many(T, T + 0.1))
    assert policy.observe(state, too_many(T + 0.2)).pace == 1.0
    assert policy.observe(state, too_many(T + 3.2)).pace < 1.0


def test_without_retry_after_the_host_is_left_alone_for_longer_each_time(policy: RatePolicy) -> None:
    """A server that counts by the minute refuses everything until the minute is over; the pace is not at fault."""
    state, at, rests = RateState(), T, []
    for _ in range(6):
        state = policy.observe(state, too_many(at, at))
        until = policy.limits(state, at).blocked_until
        assert until is not None
        rests.append(round(until - at))
        at = until
    assert rests == [1, 4, 16, 64, 256, 300]
    assert policy.limits(state, at).probe == 1, "pages that have not failed find out"
    assert state.pace == 1.0
    assert policy.limits(policy.observe(state, ok(at)), at).probe == 0


def test_what_it_took_between_two_complaints_is_the_pace() -> None:
    """A token bucket of 5 a second, asked 20 times a second: at the second complaint its pace is known."""
    policy = RatePolicy(Settings(rate=20))
    state = policy.observe(RateState(), too_many(T, T))
    for n in range(10):
        state = policy.observe(state, ok(T + 1 + n / 10))
    state = policy.observe(state, too_many(T + 2, T + 2))
    assert state.pace == pytest.approx(0.95 * 5.0)
    assert state.began == 10.0


def test_what_a_minute_took_is_the_pace_if_the_rest_is_long() -> None:
    """300 requests in 30 seconds, and Retry-After says that there are 30 to go: 5 a second."""
    policy = RatePolicy(Settings(rate=10))
    state = RateState()
    for n in range(300):
        state = policy.observe(state, ok(T + n / 10))
    state = policy.observe(state, too_many(T + 30, T + 30, 30.0))
    assert state.pace == pytest.approx(0.95 * 5.0)
    assert state.blocked_until == T + 60


@pytest.mark.parametrize(
    ("asked", "blocked_for"), [(0.0, 1.0), (30.0, 30.0), (10 * 365 * 86400.0, 3600.0), (-5.0, 1.0)]
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


def test_the_pace_rises_in_steps_to_just_below_where_complaints_began(policy: RatePolicy) -> None:
    slowed = policy.observe(RateState(), too_many(T))
    assert borne(policy, slowed, T + 2, 15).pace == 1.0
    assert borne(policy, slowed, T + 2, 25).pace == pytest.approx(1.25)
    assert borne(policy, slowed, T + 2, 120).pace == pytest.approx(2 / 1.06)


def test_where_complaints_began_is_tried_again_rarely() -> None:
    policy = RatePolicy(Settings(rate=20))
    state = RateState(pace=5.0, began=5.3, borne=5.0, step=0.06, complaints=1, complained_at=T, hold_from=T)
    early, late = borne(policy, state, T + 1, 95), borne(policy, state, T + 1, 110)
    assert early.pace == 5.0
    assert late.pace == pytest.approx(5.3)
    refused = policy.observe(late, too_many(T + 125))
    assert (refused.pace, refused.refused) == (5.0, 1)
    assert borne(policy, refused, T + 130, 110).pace == 5.0, "later each time"
    assert borne(policy, refused, T + 130, 130).pace == pytest.approx(5.3)


def test_a_limit_that_has_risen_is_followed_in_growing_steps() -> None:
    policy = RatePolicy(Settings(rate=20))
    state = RateState(pace=5.0, began=5.3, borne=5.0, step=0.06, complaints=1, complained_at=T, hold_from=T)
    assert borne(policy, state, T + 1, 350).pace == 0.0, "as configured"


def test_a_pace_that_is_not_used_is_not_borne() -> None:
    policy = RatePolicy(Settings(rate=20))
    state = policy.observe(RateState(), too_many(T))
    for n in range(100):
        state = policy.observe(state, ok(T + 5 + n))  # one a second, of ten
    assert state.pace == 10.0


def test_an_answer_from_before_the_complaint_says_nothing(policy: RatePolicy) -> None:
    slowed = policy.observe(RateState(), too_many(T, T + 1))
    assert policy.observe(slowed, Observation(T, T + 500, "ok")) == slowed


def test_failures_and_our_own_faults_do_not_speed_up(policy: RatePolicy) -> None:
    slowed = policy.observe(RateState(), too_many(T))
    for kind, blames in (("timeout", True), ("proxy_refused", False), ("unexpected", False)):
        assert policy.observe(slowed, Observation(T + 500, T + 501, kind, blames)) == slowed
    assert policy.observe(slowed, Observation(T + 500, T + 501, "http_404")).taken == 1


def test_after_an_hour_in_peace_at_the_configured_pace_all_is_forgotten(policy: RatePolicy) -> None:
    fast = RateState(complaints=3, complained_at=T, began=2.0, taken=30)
    assert policy.observe(fast, ok(T + 3000)).complaints == 3
    assert policy.observe(fast, ok(T + 3700)) == RateState()


def test_says_why(policy: RatePolicy) -> None:
    state = policy.observe(RateState(), too_many(T, T + 1, 9.0))
    why = policy.limits(state, T + 1).why
    assert why == "answered 429 once, learned: 429s began at 2/s, held to 1 req/s, left alone for another 9 s"
    assert policy.limits(RateState(pace=5.75, began=6.1, complaints=4, status="429"), T).why == (
        "answered 429 4 times, learned: 429s began at 6.1/s, held to 5.8 req/s"
    )
