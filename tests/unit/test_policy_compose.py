"""All policies of a host as one: made from settings, folded, stored, replaced."""

from __future__ import annotations

import sys
import time
from types import ModuleType

import msgspec
import pytest
from msgspec import Struct

from shoal.errors import SettingsError
from shoal.policy.breaker import BreakerState
from shoal.policy.compose import BUILT_IN, HostPolicies, configured
from shoal.policy.concurrency import FIRST, AimdState
from shoal.policy.outcomes import TABLE
from shoal.policy.protocol import Limits, Observation, strictest
from shoal.policy.rate import RateState
from shoal.settings import POLICIES, Settings
from shoal.valve import Valve

T = 1_750_000_000.0
BUSY = [
    Observation(T, T + 1, "ok"),
    Observation(T, T + 2, "http_429", blames_host=True, retry_after=5.0, retried=True),
    Observation(T, T + 3, "timeout", blames_host=True, retried=True),
    Observation(T + 4, T + 5, "http_404"),
]


class PatientState(Struct, frozen=True):
    seen: int = 0


class Patient:
    """A policy as a user writes it."""

    name = "patient"
    State = PatientState

    def __init__(self, settings: Settings) -> None:
        self.interval = 1 / settings.rate

    def observe(self, state: PatientState, seen: Observation) -> PatientState:
        return PatientState(state.seen + 1)

    def limits(self, state: PatientState, now: float) -> Limits:
        return Limits(interval=self.interval * state.seen, why=f"seen {state.seen}")


class Nameless:
    pass


class Stateless(Patient):
    State = dict  # type: ignore[assignment]


class NeedsMore(Patient):
    class State(Struct):  # type: ignore[assignment]
        required: int


class Blind:
    name = "blind"
    State = PatientState

    def limits(self, state: PatientState, now: float) -> Limits:
        return Limits()


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("own_policies")
    for value in (Patient, Nameless, Stateless, NeedsMore, Blind):
        setattr(module, value.__name__, value)
    monkeypatch.setitem(sys.modules, "own_policies", module)


# -- choosing


def test_the_built_in_ones_are_the_default() -> None:
    assert tuple(BUILT_IN) == POLICIES
    assert HostPolicies(Settings()).opinions(HostPolicies(Settings()).initial(), T).keys() == set(POLICIES)


def test_any_of_them_can_be_left_out_or_replaced() -> None:
    policies = HostPolicies(Settings(rate=2, policies=["own_policies:Patient", "breaker"]))
    assert tuple(policies.opinions(policies.initial(), T)) == ("patient", "breaker")
    states = policies.observe(policies.initial(), BUSY)
    limits = policies.limits(states, T)
    assert (limits.interval, limits.why, limits.timeout) == (2.0, "seen 4", None)


def test_none_at_all_is_fine() -> None:
    policies = HostPolicies(Settings(policies=[]))
    assert policies.limits(policies.observe(policies.initial(), BUSY), T) == Limits()


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (["rat"], "'rat' is not a policy; write one of rate, concurrency, breaker, timeout, budget, or module:Class"),
        ([":x"], "':x' is not a policy"),
        (["no_such_module:X"], "'no_such_module:X' cannot be imported: ModuleNotFoundError: No module named"),
        (["own_policies:X"], "'own_policies:X' cannot be imported: own_policies has no X"),
        (["own_policies:Nameless"], "'own_policies:Nameless' is not a policy: it needs a name, a string"),
        (["own_policies:Stateless"], "it needs a State, a msgspec Struct whose fields all have defaults"),
        (["own_policies:NeedsMore"], "'own_policies:NeedsMore' cannot be made: TypeError: Missing required"),
        (["own_policies:Blind"], "it needs observe()"),
        (["sys:path"], "'sys:path' is not a policy: it needs to be a class"),
        (["rate", "rate"], "two are named 'rate'; leave one out"),
    ],
)  # fmt: skip
def test_what_is_no_policy_is_told_in_one_line(entries: list[str], says: str) -> None:
    with pytest.raises(SettingsError) as error:
        HostPolicies(Settings(policies=entries))
    assert str(error.value).startswith("policies: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


# -- folding


def test_the_strictest_holds() -> None:
    both = strictest(
        [
            Limits(interval=1.0, cap=3, blocked_until=T, timeout=9.0, why="one"),
            Limits(),
            Limits(
                interval=2.0, cap=1, blocked_until=T + 1, timeout=4.0, refuse="r", no_retry="n", why="two"
            ),
            Limits(refuse="late", no_retry="late"),
        ]
    )
    assert both == Limits(2.0, 1, T + 1, 4.0, refuse="r", no_retry="n", why="one; two")


def test_folding_one_by_one_or_together_is_the_same() -> None:
    policies = HostPolicies(Settings(per_host=8))
    together = policies.observe(policies.initial(), BUSY)
    one_by_one = policies.initial()
    for seen in BUSY:
        one_by_one = policies.observe(one_by_one, [seen])
    assert together == one_by_one != policies.initial()


def test_nothing_new_gives_the_same_states() -> None:
    policies = HostPolicies(Settings(policies=["rate", "breaker"]))
    states = policies.observe(policies.initial(), [Observation(T, T + 1, "unexpected")])
    assert states is policies.initial()


def test_it_is_quick() -> None:
    policies = HostPolicies(Settings(per_host=8))
    observations = [msgspec.structs.replace(BUSY[n % 4], started=T + n, ended=T + n + 1) for n in range(200)]

    def round_trip() -> float:
        states, began = policies.initial(), time.thread_time()
        for seen in observations:
            states = policies.observe(states, (seen,))
        return (time.thread_time() - began) / len(observations)

    assert min(round_trip() for _ in range(20)) < 60e-6


# -- storing


def test_a_host_never_seen_takes_no_room() -> None:
    policies = HostPolicies(Settings())
    assert policies.encode(policies.initial()) == b""
    assert policies.decode(b"") == policies.initial()


def test_what_is_stored_comes_back_and_is_small() -> None:
    policies = HostPolicies(Settings(per_host=8))
    states = policies.observe(policies.initial(), BUSY)
    stored = policies.encode(states)
    assert policies.decode(stored) == states
    assert len(stored) < 500


def test_states_of_other_versions_are_read_as_far_as_they_fit() -> None:
    policies = HostPolicies(Settings())
    stored = msgspec.msgpack.encode(
        {
            "rate": {"pace": 1.0, "began": 2.0, "a_field_of_tomorrow": [1, 2]},
            "breaker": {"phase": "open", "until": T + 99},  # from when it was kept by host
            "breaker@http": {"phase": "ajar"},
            "timeout": "a string",
            "budget": {"balance": -3.0},
        }
    )
    states = policies.decode(stored)
    assert states["rate"] == RateState(pace=1.0, began=2.0)
    assert "breaker" not in states
    assert states.get("breaker@http", BreakerState()) == BreakerState()
    assert states["timeout"] == policies.initial()["timeout"]
    assert policies.limits(states, T).interval == 1.0


@pytest.mark.parametrize(("factor", "base"), [(2.0, 0.5), (32.0, 0.5), (32.0, 60.0), (1.0, 0.5), (4.0, 0.0)])
def test_a_host_that_an_earlier_version_slowed_down_stays_slow(factor: float, base: float) -> None:
    policies = HostPolicies(Settings(rate=2.0))
    old = {
        "factor": factor,
        "base": base,
        "in_force": T,
        "blocked_until": T + 9,
        "answers": 3,
        "slowdowns": 1,
    }
    states = policies.decode(msgspec.msgpack.encode({"rate": old}))
    slowed = base * factor > 0.5
    limits = policies.limits(states, T)
    assert limits.blocked_until == T + 9
    assert limits.interval == (pytest.approx(min(base * factor, 300.0)) if slowed else None)
    states = policies.observe(states, [Observation(T + 10, T + 11, "ok")])
    assert policies.limits(policies.decode(policies.encode(states)), T).interval == limits.interval


class Mild(Patient):
    """It wants no more than ten at once."""

    name = "mild"

    def limits(self, state: PatientState, now: float) -> Limits:
        return Limits(cap=10)


@pytest.mark.parametrize("policies", [POLICIES, ("rate", "breaker"), ()])
def test_a_milder_limit_of_another_policy_raises_nothing(
    policies: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["own_policies"], "Mild", Mild, raising=False)
    settings = Settings(policies=[*policies, "own_policies:Mild"])
    together = HostPolicies(settings)
    states = dict(together.initial())

    def cap() -> int:
        limits = together.limits(states, T)
        return configured(Valve(), settings, crawl_delay=None, robots_known=True, limits=limits).cap

    assert cap() == FIRST
    if "concurrency" in policies:
        states["concurrency"] = AimdState(limit=16.0)
        assert cap() == 10


@pytest.mark.parametrize("stored", [b"\xc1", b"junk", msgspec.msgpack.encode([1]), b"\x81"])
def test_what_cannot_be_read_at_all_is_dropped(stored: bytes) -> None:
    policies = HostPolicies(Settings())
    assert policies.decode(stored) == policies.initial()


def test_states_of_policies_that_others_use_are_kept() -> None:
    """Jobs with different policies share a host's record."""
    mine, theirs = HostPolicies(Settings()), HostPolicies(Settings(policies=["own_policies:Patient", "rate"]))
    stored = theirs.encode(theirs.observe(theirs.initial(), BUSY))
    states = mine.observe(mine.decode(stored), BUSY)
    assert theirs.decode(mine.encode(states))["patient"] == PatientState(4)


# -- evidence


def test_every_kind_of_outcome_is_evidence_for_against_or_none() -> None:
    def observed(kind: str) -> Observation:
        return Observation(T, T + 1, kind, TABLE[kind].blames_host)

    silent = {kind for kind in TABLE if not observed(kind).answered and not observed(kind).blames_host}
    assert {kind for kind in silent if not kind.startswith(("proxy", "gateway"))} == {
        "forbidden_address", "invalid_url", "invalid_request", "robots", "policy", "worker_lost", "unexpected",
    }  # fmt: skip
    answers = {"ok", "not_modified", "redirect", "http_404", "encoding", "too_large", "handler"}
    assert all(observed(kind).answered for kind in answers)
    assert not Observation(T, T, "proxy_auth").answered
