"""The number of requests in flight that a host bears."""

from __future__ import annotations

import itertools

import pytest

from shoal.policy.concurrency import FIRST, AimdPolicy, AimdState
from shoal.policy.protocol import Observation
from shoal.settings import Settings

T = 1_750_000_000.0


def ok(started: float, latency: float = 0.5) -> Observation:
    return Observation(started, started + latency, "ok")


def bad(kind: str, started: float, ended: float | None = None) -> Observation:
    return Observation(started, started + 1 if ended is None else ended, kind, blames_host=True)


def cap(policy: AimdPolicy, state: AimdState) -> int:
    found = policy.limits(state, T).cap
    return found if found is not None else 8


@pytest.fixture
def policy() -> AimdPolicy:
    return AimdPolicy(Settings(per_host=8))


def test_starts_at_what_is_configured(policy: AimdPolicy) -> None:
    assert policy.limits(AimdState(), T).cap is None
    assert policy.observe(AimdState(), ok(T)).limit == 0


@pytest.mark.parametrize("kind", ["http_429", "http_503", "timeout", "read_timeout", "connect_timeout"])
def test_overload_halves(policy: AimdPolicy, kind: str) -> None:
    assert cap(policy, policy.observe(AimdState(), bad(kind, T))) == 4


@pytest.mark.parametrize("kind", ["http_500", "dns", "proxy_refused", "unexpected"])
def test_other_failures_are_no_overload(policy: AimdPolicy, kind: str) -> None:
    seen = Observation(T, T + 1, kind, blames_host=kind in ("http_500", "dns"))
    assert policy.observe(AimdState(), seen) == AimdState()


def test_those_in_flight_at_the_cut_do_not_cut_again_in_any_order(policy: AimdPolicy) -> None:
    batch = [bad(kind, T, T + 1 + n) for n, kind in enumerate(("timeout", "http_503", "http_429", "timeout"))]
    for order in itertools.permutations(batch):
        state = AimdState()
        for seen in order:
            state = policy.observe(state, seen)
        assert state.limit == 4.0


def test_falls_to_one_and_no_further(policy: AimdPolicy) -> None:
    state = AimdState()
    for n in range(6):
        state = policy.observe(state, bad("timeout", T + 10 * n))
    assert state.limit == 1.0


def test_grows_by_one_in_a_round_back_to_what_is_configured(policy: AimdPolicy) -> None:
    state = policy.observe(AimdState(), bad("http_503", T))
    for n in range(4):
        state = policy.observe(state, ok(T + 10 + n))
    assert 4.8 < state.limit < 5
    for n in range(40):
        state = policy.observe(state, ok(T + 20 + n))
    assert state.limit == 0
    assert policy.limits(state, T).cap is None


def test_a_host_that_gets_slow_gets_less_before_it_fails(policy: AimdPolicy) -> None:
    state = AimdState()
    for n in range(20):
        state = policy.observe(state, ok(T + n, 0.5))
    assert state.limit == 0
    for n in range(30):
        state = policy.observe(state, ok(T + 20 + n, 2.0))
    assert cap(policy, state) < 4
    assert "because of slow answers" in policy.limits(state, T).why


def test_a_host_that_is_slower_for_good_is_not_held_back_for_ever(policy: AimdPolicy) -> None:
    state = AimdState()
    for n in range(20):
        state = policy.observe(state, ok(T + n, 0.5))
    for n in range(300):
        state = policy.observe(state, ok(T + 20 + n, 2.0))
    assert state.limit == 0


def test_pages_of_mixed_speed_are_not_taken_for_overload(policy: AimdPolicy) -> None:
    """One page from a cache among slow ones must not become the measure of all."""
    state = AimdState()
    for n in range(200):
        state = policy.observe(state, ok(T + n, 0.02 if n % 10 == 0 else 0.4))
        assert cap(policy, state) == 8


def test_fast_error_pages_do_not_lower_the_baseline(policy: AimdPolicy) -> None:
    state = policy.observe(AimdState(), ok(T, 1.0))
    assert policy.observe(state, Observation(T, T + 0.01, "http_404")).baseline == state.baseline


def test_stored_limits_obey_the_settings_of_today() -> None:
    state = AimdState(limit=6.0, cut_by="503")
    assert AimdPolicy(Settings(per_host=2)).limits(state, T).cap is None
    assert AimdPolicy(Settings(per_host=20)).limits(state, T).cap == 6


def test_says_why(policy: AimdPolicy) -> None:
    state = policy.observe(AimdState(), bad("http_503", T))
    assert policy.limits(state, T).why == "4 instead of 8 at a time because of 503"


def test_says_nothing_of_a_cause_where_a_job_with_auto_has_left_less() -> None:
    limits = AimdPolicy(Settings(per_host=8)).limits(AimdState(limit=3.0), T)
    assert (limits.cap, limits.why) == (3, "3 instead of 8 at a time")


# -- per_host = "auto"


def auto(rate: float = 2.0) -> AimdPolicy:
    return AimdPolicy(Settings(rate=rate, per_host="auto"))


def after(policy: AimdPolicy, answers: int, latency: float, state: AimdState | None = None) -> AimdState:
    state = state or AimdState()
    for n in range(answers):
        state = policy.observe(state, ok(T + n, latency))
    return state


def cap_of(policy: AimdPolicy, state: AimdState) -> int:
    return policy.limits(state, T).cap or FIRST


@pytest.mark.parametrize(
    ("rate", "latency", "most"),
    [(2.0, 0.3, 2), (2.0, 1.0, 3), (2.0, 3.0, 9), (2.0, 60.0, 16), (0.5, 3.0, 3), (0.0, 0.1, 16)],
)
def test_auto_gives_a_host_as_many_as_its_rate_needs(rate: float, latency: float, most: int) -> None:
    policy = auto(rate)
    assert cap_of(policy, AimdState()) == FIRST
    assert cap_of(policy, after(policy, 300, latency)) == most


def test_auto_goes_by_the_interval_that_the_host_is_held_to() -> None:
    policy, state = auto(), AimdState()
    for n in range(300):
        state = policy.observe(state, Observation(T + n, T + n + 3, "ok", interval=5.0))
    assert cap_of(policy, state) == FIRST


def test_auto_gives_no_more_to_a_host_whose_latency_grows() -> None:
    """Each one more makes all of them slower: it serves two at once."""
    policy, state = auto(rate=20.0), AimdState()
    for n in range(400):
        state = policy.observe(state, ok(T + n, 0.5 * max(1.0, cap_of(policy, state) / 2)))
    assert cap_of(policy, state) <= 4


def test_auto_is_cut_by_overload_and_says_so_until_it_has_recovered() -> None:
    policy = auto()
    state = policy.observe(after(policy, 300, 3.0), bad("http_503", T + 500))
    assert policy.limits(state, T).why == "4 at a time because of 503"
    state = after(policy, 300, 3.0, state)
    assert (cap_of(policy, state), policy.limits(state, T).why) == (9, "")
