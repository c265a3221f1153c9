"""Every row of the breaker's table."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from shoal.policy.breaker import _TRANSITIONS, BreakerPolicy, BreakerState, Event, Phase
from shoal.policy.protocol import Limits, Observation
from shoal.settings import Settings

T = 1_750_000_000.0
SETTINGS = Settings()
SPOKEN = BreakerState(spoke=True)


def failure(started: float, ended: float | None = None, kind: str = "timeout") -> Observation:
    return Observation(started, started + 1 if ended is None else ended, kind, blames_host=True)


def answer(started: float, kind: str = "ok") -> Observation:
    return Observation(started, started + 1, kind, blames_host=kind == "http_429")


@pytest.fixture
def policy() -> BreakerPolicy:
    return BreakerPolicy(SETTINGS)


def fold(policy: BreakerPolicy, state: BreakerState, *observations: Observation) -> BreakerState:
    for seen in observations:
        state = policy.observe(state, seen)
    return state


def opened(policy: BreakerPolicy, state: BreakerState = SPOKEN) -> BreakerState:
    return fold(policy, state, *[failure(T + n) for n in range(5)])


def probes(policy: BreakerPolicy, state: BreakerState, count: int, kind: str = "timeout") -> BreakerState:
    """So many probes that fail, each as soon as it may go."""
    for _ in range(count):
        state = policy.observe(state, failure(state.until, kind=kind))
    return state


def test_the_table_has_a_row_for_every_case() -> None:
    assert set(_TRANSITIONS) == set(itertools.product(get_args(Phase), get_args(Event)))


# -- closed


def test_failures_in_a_row_open_it(policy: BreakerPolicy) -> None:
    state = fold(policy, SPOKEN, *[failure(T + n) for n in range(4)])
    assert state.phase == "closed"
    assert policy.limits(state, T) == Limits()
    state = policy.observe(state, failure(T + 4))
    assert (state.phase, state.until) == ("open", T + 5 + SETTINGS.breaker_cooldown)


def test_an_answer_breaks_the_row(policy: BreakerPolicy) -> None:
    seen = [failure(T + n) for n in range(4)]
    assert fold(policy, SPOKEN, *seen, answer(T + 5), *seen).phase == "closed"


def test_every_other_request_failing_opens_it_once_there_are_ten(policy: BreakerPolicy) -> None:
    mixed = [failure(T + n) if n % 2 else answer(T + n) for n in range(10)]
    assert fold(policy, SPOKEN, *mixed[:9]).phase == "closed"
    state = fold(policy, SPOKEN, *mixed)
    assert state.phase == "open"
    assert state.reason == "5 of 10 requests failed, the last: timeout"


def test_only_the_last_twenty_count(policy: BreakerPolicy) -> None:
    good = [answer(T + n) for n in range(50)]
    bad = [failure(T + 50 + n) for n in range(4)]
    state = fold(policy, BreakerState(), *good, *bad, answer(T + 60), *bad, answer(T + 61), failure(T + 62))
    assert state.phase == "closed"
    assert policy.observe(state, failure(T + 63)).phase == "open"


def test_a_host_that_is_well_keeps_the_same_state(policy: BreakerPolicy) -> None:
    state = fold(policy, BreakerState(), *[answer(T + n) for n in range(20)])
    assert policy.observe(state, answer(T + 20)) is state


@pytest.mark.parametrize("kind", ["http_404", "http_403", "handler", "too_large", "redirect"])
def test_what_does_not_blame_the_host_is_an_answer(policy: BreakerPolicy, kind: str) -> None:
    four = fold(policy, SPOKEN, *[failure(T + n) for n in range(4)])
    assert policy.observe(four, answer(T + 9, kind)).row == 0


@pytest.mark.parametrize("kind", ["proxy_refused", "unexpected", "worker_lost", "forbidden_address"])
def test_what_never_reached_the_host_is_no_evidence(policy: BreakerPolicy, kind: str) -> None:
    four = fold(policy, SPOKEN, *[failure(T + n) for n in range(4)])
    assert policy.observe(four, answer(T + 9, kind)) is four
    down = opened(policy)
    assert policy.observe(down, answer(down.until, kind)) is down


def test_429_alone_never_opens_it_and_503_does(policy: BreakerPolicy) -> None:
    many = [failure(T + n, kind="http_429") for n in range(100)]
    assert fold(policy, SPOKEN, *many) == SPOKEN
    assert fold(policy, SPOKEN, *[failure(T + n, kind="http_503") for n in range(5)]).phase == "open"


# -- open


def test_open_is_a_block_and_half_open_one_at_a_time(policy: BreakerPolicy) -> None:
    state = opened(policy)
    blocked = policy.limits(state, state.until - 2)
    assert (blocked.cap, blocked.blocked_until, blocked.refuse) == (1, state.until, None)
    assert blocked.why == "cooling down: 5 failures in a row, the last: timeout, next probe in 2 s"
    half_open = policy.limits(state, state.until)
    assert (half_open.cap, half_open.refuse) == (1, None)
    assert half_open.why == "probing, one request at a time: 5 failures in a row, the last: timeout"


@pytest.mark.parametrize("kind", ["ok", "http_404", "http_429"])
def test_a_probe_that_is_answered_closes_it(policy: BreakerPolicy, kind: str) -> None:
    state = probes(policy, opened(policy), 3)
    closed = policy.observe(state, answer(state.until, kind))
    assert policy.limits(closed, state.until) == Limits()
    assert (closed.phase, closed.row, closed.window, closed.failed_probes) == ("closed", 0, 1, 0)
    again = fold(policy, closed, *[failure(state.until + 10 + n) for n in range(5)])
    assert again.until == state.until + 15 + SETTINGS.breaker_cooldown


def test_the_cooldown_doubles_with_every_failed_probe_up_to_the_cap() -> None:
    policy = BreakerPolicy(Settings(breaker_probes=100))
    state, cooldowns = opened(policy), []
    for _ in range(9):
        ended = state.until + 1
        state = probes(policy, state, 1)
        cooldowns.append(state.until - ended)
    assert cooldowns == [10, 20, 40, 80, 160, 300, 300, 300, 300]


def test_what_was_on_its_way_when_it_opened_is_no_probe(policy: BreakerPolicy) -> None:
    state = opened(policy)
    for started in (T, T + 4.9, state.until - 0.1):
        late = state.until + 30
        assert policy.observe(state, failure(started, late)) is state
        assert policy.observe(state, Observation(started, late, "ok")) is state


def test_what_was_on_its_way_then_does_not_open_it_again_later(policy: BreakerPolicy) -> None:
    state = opened(policy)
    closed = policy.observe(state, answer(state.until))
    stragglers = [failure(T + n, state.until + 60) for n in range(9)]
    assert fold(policy, closed, *stragglers) is closed


def test_order_of_what_was_in_flight_makes_no_difference_once_open(policy: BreakerPolicy) -> None:
    batch = [failure(T, T + 1), Observation(T, T + 2, "ok"), failure(T + 1, T + 20), answer(T + 2)]
    state = opened(policy)
    for order in itertools.permutations(batch):
        assert fold(policy, state, *order) is state


# -- given up


def test_given_up_after_so_many_failed_probes(policy: BreakerPolicy) -> None:
    state = probes(policy, opened(policy), 5)
    assert state.phase == "open"
    ended = state.until + 1
    state = probes(policy, state, 1)
    assert (state.phase, state.until) == ("given_up", ended + SETTINGS.breaker_give_up)
    limits = policy.limits(state, ended)
    reason = "5 failures in a row, the last: timeout; 6 failed probes, the last: timeout"
    assert limits.refuse == f"host_down: {reason}"
    assert limits.why == f"given up: {reason}, next probe in 3600 s"
    # Its tasks are taken to be buried: nothing stands in their way.
    assert (limits.cap, limits.blocked_until, limits.interval) == (None, None, None)


@pytest.mark.parametrize(("kind", "most"), [("timeout", 2), ("connect", 4)])
def test_a_host_that_never_answered_at_all_is_given_up_sooner(
    policy: BreakerPolicy, kind: str, most: int
) -> None:
    assert probes(policy, opened(policy, BreakerState()), most - 1, kind).phase == "open"
    assert probes(policy, opened(policy, BreakerState()), most, kind).phase == "given_up"


def test_the_first_failure_of_a_host_that_never_answered_opens_it(policy: BreakerPolicy) -> None:
    state = policy.observe(BreakerState(), failure(T))
    assert (state.phase, state.reason) == ("open", "it has never answered: timeout")
    assert policy.observe(BreakerState(), failure(T, kind="http_503")).phase == "closed"
    assert policy.observe(SPOKEN, failure(T)).phase == "closed"


def test_an_error_is_an_answer_of_sorts(policy: BreakerPolicy) -> None:
    state = fold(policy, BreakerState(), *[failure(T + n, kind="http_500") for n in range(5)])
    assert probes(policy, state, 3).phase == "open"


def test_after_its_time_one_probe_decides(policy: BreakerPolicy) -> None:
    state = probes(policy, opened(policy), 6)
    limits = policy.limits(state, state.until)
    assert (limits.refuse, limits.cap) == (None, 1)
    again = probes(policy, state, 1)
    assert (again.phase, again.until) == ("given_up", state.until + 1 + SETTINGS.breaker_give_up)
    assert again.reason.count("failed probes") == 1
    assert policy.observe(state, answer(state.until)).phase == "closed"


def test_strays_do_not_touch_a_host_that_was_given_up(policy: BreakerPolicy) -> None:
    state = probes(policy, opened(policy), 6)
    assert fold(policy, state, failure(T, T + 1e5), Observation(T, T + 1e5, "ok")) is state
