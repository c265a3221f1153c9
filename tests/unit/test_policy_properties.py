"""What holds for the policies of a host whatever happens, in whichever order it is told."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from shoal.policy.compose import HostPolicies, configured
from shoal.policy.concurrency import first_at_once, most_at_once
from shoal.policy.outcomes import TABLE
from shoal.policy.protocol import Limits, Observation
from shoal.policy.rate import SLOWEST, UNLIMITED
from shoal.settings import Settings
from shoal.valve import Valve

T = 1_750_000_000.0

kinds = st.sampled_from(
    [
        "ok",
        "ok",
        "ok",
        "http_429",
        "http_503",
        "timeout",
        "connect",
        *sorted(TABLE),
        "proxy_refused",
        "http_599",
    ]
)


@st.composite
def observations(draw: st.DrawFn, earliest: float = -100, latest: float = 20_000) -> Observation:
    kind = draw(kinds)
    begin = T + draw(st.floats(earliest, latest))
    return Observation(
        begin,
        begin + draw(st.floats(-0.1, 90)),
        kind,
        blames_host=TABLE[kind].blames_host if kind in TABLE else kind == "http_599",
        retry_after=draw(st.none() | st.floats(-10, 1e9)) if kind.startswith("http_") else None,
        first_attempt=draw(st.booleans()),
        retried=kind != "ok" and draw(st.booleans()),
        interval=draw(st.sampled_from([0.0, 0.5, 10.0])),
    )


settings = st.builds(
    Settings,
    rate=st.sampled_from([0.0, 0.1, 2.0, 100.0]),
    per_host=st.integers(1, 20) | st.just("auto"),
    total_timeout=st.floats(0.5, 300),
    min_timeout=st.floats(0.1, 400),
    first_timeout=st.floats(0.1, 400),
    breaker_failures=st.integers(1, 30),
    breaker_rate=st.floats(0.05, 1.5),
    breaker_cooldown=st.floats(0.1, 1000),
    breaker_probes=st.integers(1, 2000),
    retry_budget=st.floats(0, 2),
    retry_budget_floor=st.integers(0, 20),
)


def _check_valve(settings: Settings, limits: Limits) -> None:
    """No valve is wider than the settings, robots.txt and the breaker want it."""
    if limits.refuse:
        return
    for known in (True, False):
        valve = configured(Valve(), settings, crawl_delay=7.0, robots_known=known, limits=limits)
        assert valve.interval >= max(7.0, 1 / settings.rate if settings.rate else 0.0, limits.interval or 0.0)
        assert 1 <= valve.cap <= (most_at_once(settings) if known else 1)
        assert valve.cap <= (limits.cap or first_at_once(settings))
        assert valve.blocked_until >= (limits.blocked_until or 0.0)


@given(settings, st.lists(observations(), max_size=60))
def test_bounds_hold_whatever_is_seen(settings: Settings, seen: list[Observation]) -> None:
    policies, states, latest = HostPolicies(settings), HostPolicies(settings).initial(), T
    longest = max(1 / SLOWEST, 2 / settings.rate if settings.rate else 0.0)
    longest_block = max(settings.retry_after_cap, settings.breaker_cooldown_cap, settings.breaker_give_up)
    for one in seen:
        states, latest = policies.observe(states, [one]), max(latest, one.ended)
        limits = policies.limits(states, one.ended)
        assert (
            limits.interval is None
            or (1 / settings.rate if settings.rate else 0) < limits.interval <= longest
        )
        assert limits.cap is None or 1 <= limits.cap <= most_at_once(settings)
        _check_valve(settings, limits)
        assert limits.timeout is not None
        assert 0 < limits.timeout <= settings.total_timeout
        assert limits.blocked_until is None or limits.blocked_until <= latest + longest_block
        assert policies.limits(states, latest + longest_block).refuse is None


@given(settings, st.lists(observations(), max_size=40))
def test_what_is_stored_comes_back(settings: Settings, seen: list[Observation]) -> None:
    policies = HostPolicies(settings)
    states = policies.observe(policies.initial(), seen)
    assert policies.decode(policies.encode(states)) == states


@given(settings, st.lists(observations(), max_size=40), st.integers(0, 40))
def test_a_restart_makes_no_difference(settings: Settings, seen: list[Observation], at: int) -> None:
    before, after = HostPolicies(settings), HostPolicies(settings)
    stored = before.encode(before.observe(before.initial(), seen[:at]))
    resumed = after.observe(after.decode(stored), seen[at:])
    assert resumed == before.observe(before.initial(), seen)


together = observations(earliest=0, latest=0.5)


@given(settings, st.lists(together, min_size=2, max_size=8), st.integers())
def test_requests_in_flight_together_hit_once_in_any_order(
    settings: Settings, batch: list[Observation], seed: int
) -> None:
    """They start before any of them ends; whichever comes first, the host is slowed, cut and doubled once."""
    batch = [Observation(x.started, max(x.ended, T + 1), x.kind, x.blames_host, x.retry_after) for x in batch]
    shuffled = random.Random(seed).sample(batch, len(batch))
    policies = HostPolicies(settings)
    one, other = (policies.observe(policies.initial(), order) for order in (batch, shuffled))
    a, b = policies.limits(one, T + 2), policies.limits(other, T + 2)
    assert a.interval == b.interval
    rate, concurrency, timeout = (one[name] for name in ("rate", "concurrency", "timeout"))
    assert rate.pace in (0.0, (settings.rate or UNLIMITED) / 2)  # type: ignore[union-attr]
    assert (concurrency.limit or first_at_once(settings)) >= max(1, first_at_once(settings) / 2)  # type: ignore[union-attr]
    assert timeout.doublings == other["timeout"].doublings <= 1  # type: ignore[union-attr]


@given(st.lists(together, max_size=12), st.integers())
def test_what_was_in_flight_changes_an_open_breaker_in_no_order(batch: list[Observation], seed: int) -> None:
    policies = HostPolicies(Settings(policies=["breaker"]))
    down = [Observation(T + n, T + n + 1, "connect", blames_host=True) for n in range(5)]
    states = policies.observe(policies.initial(), down)
    shuffled = random.Random(seed).sample(batch, len(batch))
    assert policies.observe(states, shuffled) is states
