"""Choosing proxies: whom to ask, whom to leave alone and for how long, and what is remembered."""

from __future__ import annotations

import random
from collections import Counter
from typing import Literal

import msgspec
import pytest

from shoal.policy.proxy_choice import Choice, Wait
from shoal.policy.proxy_faults import ProxyPolicy
from shoal.policy.proxy_state import PAIRS, PoolState, ProxyObservation, Sign, condition, pruned
from shoal.settings import Settings

A, B, C = "pool/a:1", "pool/b:1", "pool/c:1"
NAMES = [A, B, C]
HOST, OTHER = "h.test", "o.test"
T = 1_000_000.0


class Pool:
    """A pool's state and a clock."""

    def __init__(self, strategy: Literal["scored", "round_robin"] = "scored", cooldown: float = 30.0) -> None:
        self.policy = ProxyPolicy(Settings(pool_strategy=strategy, pool_cooldown=cooldown))
        self.state = PoolState()
        self.now = T
        self.rng = random.Random(1)
        self.turn = 0

    def saw(self, proxy: str, sign: Sign, host: str = HOST, *, took: float = 0.1, kind: str = "") -> None:
        seen = ProxyObservation(proxy, host, sign, self.now, self.now + took, kind)
        self.state = self.policy.observe(self.state, seen)
        self.now += took

    def choose(
        self, host: str = HOST, avoid: frozenset[str] = frozenset(), *, probes: bool = True
    ) -> Choice | Wait | None:
        self.turn += 1
        return self.policy.choose(
            self.state, NAMES, host, self.now, self.rng, avoid=avoid, turn=self.turn, probes=probes
        )

    def share(self, host: str = HOST, draws: int = 600) -> dict[str, float]:
        drawn = Counter(choice.proxy for _ in range(draws) if isinstance(choice := self.choose(host), Choice))
        return {name: drawn[name] / draws for name in NAMES}

    def down(self, proxy: str, times: int = 2) -> None:
        for _ in range(times):
            self.saw(proxy, "down", kind="proxy_connect")

    def ban(self, proxy: str, host: str = HOST) -> None:
        for _ in range(2):
            self.saw(proxy, "banned", host)


# -- whom to ask


def test_in_turn() -> None:
    pool = Pool("round_robin")
    assert pool.share(draws=300) == dict.fromkeys(NAMES, 1 / 3)


def test_unknown_proxies_are_all_tried() -> None:
    assert min(Pool().share().values()) > 0.25


def test_what_goes_well_is_asked_more_often() -> None:
    pool = Pool()
    for _ in range(20):
        pool.saw(A, "good")
        pool.saw(B, "failed")
    assert pool.share()[A] > 0.6
    assert pool.share()[B] < 0.05


def test_what_a_host_refuses_says_nothing_about_other_hosts() -> None:
    pool = Pool()
    for name in NAMES * 10:
        pool.saw(name, "good", OTHER)
    for _ in range(10):
        pool.saw(A, "doubt")
    assert pool.share(HOST)[A] < 0.1
    assert pool.share(OTHER)[A] > 0.2


def test_slow_proxies_are_asked_less() -> None:
    pool = Pool()
    for _ in range(10):
        for name in NAMES:
            pool.saw(name, "good", took=2.0 if name == C else 0.1)
    assert pool.share()[C] < 0.02


def test_a_little_slower_is_as_good() -> None:
    pool = Pool()
    for _ in range(10):
        for name in NAMES:
            pool.saw(name, "good", took=0.15 if name == C else 0.1)
    assert pool.share()[C] > 0.2


def test_the_past_fades() -> None:
    pool = Pool()
    for _ in range(30):
        pool.saw(A, "failed")
        pool.saw(B, "good")
    assert pool.share()[A] < 0.05
    pool.now += 7200
    assert pool.share()[A] > 0.2


def test_the_hosts_own_failures_are_not_the_proxys() -> None:
    pool = Pool()
    for _ in range(50):
        pool.saw(A, "neutral")
    assert pool.state.proxies[A].requests == 50
    assert pool.share()[A] > 0.25


# -- quarantine of a proxy


def test_one_failure_is_no_quarantine_and_two_are() -> None:
    pool = Pool()
    pool.saw(A, "down", kind="proxy_connect")
    assert A in {choice.proxy for _ in range(50) if isinstance(choice := pool.choose(), Choice)}
    pool.saw(A, "down", kind="proxy_connect")
    assert pool.share()[A] == 0
    assert pool.share(OTHER)[A] == 0
    assert condition(pool.state.proxies[A], pool.now) == "down: proxy_connect"


def test_a_wrong_password_needs_no_second_look() -> None:
    pool = Pool()
    pool.saw(A, "down", kind="proxy_auth")
    assert pool.share()[A] == 0


def test_the_cooldown_doubles_with_every_failed_probe_up_to_a_limit() -> None:
    pool = Pool(cooldown=10)
    pool.down(A)
    waits = []
    for _ in range(9):
        until = pool.state.proxies[A].hold.until
        waits.append(until - pool.now)
        pool.now = until
        assert pool.choose() == Choice(A, "proxy")
        pool.saw(A, "down", kind="proxy_connect")
    assert waits == [pytest.approx(10 * 2**n) for n in (0, 1, 2, 3, 4, 5, 6, 6, 6)]


def test_a_probe_that_goes_well_ends_it() -> None:
    pool = Pool()
    pool.down(A)
    pool.now += 31
    assert pool.choose() == Choice(A, "proxy")
    pool.saw(A, "good")
    assert isinstance(pool.choose(), Choice)
    assert pool.state.proxies[A].hold.strikes == 0
    pool.saw(A, "down", kind="proxy_connect")
    assert pool.share()[A] > 0, "and all is forgiven"


def test_what_was_on_its_way_is_no_probe() -> None:
    pool = Pool()
    pool.down(A)
    hold = pool.state.proxies[A].hold
    for sign in ("down", "good"):
        late = ProxyObservation(A, HOST, sign, T, pool.now + 1, "proxy_connect")  # type: ignore[arg-type]
        pool.state = pool.policy.observe(pool.state, late)
    assert pool.state.proxies[A].hold == hold


def test_only_one_may_probe() -> None:
    pool = Pool()
    pool.down(A)
    pool.now += 31
    choice = pool.choose()
    assert choice == Choice(A, "proxy")
    pool.state = pool.policy.reserve(pool.state, choice, HOST, pool.now, 60)
    assert pool.share()[A] == 0
    pool.now += 61
    assert pool.choose() == Choice(A, "proxy"), "unless it was never heard of again"


def test_who_tries_again_takes_no_risk() -> None:
    pool = Pool()
    pool.down(A)
    pool.now += 31
    found = pool.choose(probes=False)
    assert isinstance(found, Choice)
    assert found.proxy != A
    assert pool.choose(avoid=frozenset({B, C}), probes=False) == Choice(A, "proxy"), "if there is a choice"


# -- quarantine at a host


def test_a_ban_is_one_hosts_affair() -> None:
    pool = Pool()
    pool.ban(A)
    assert pool.share(HOST)[A] == 0
    assert pool.share(OTHER)[A] > 0.25
    assert condition(pool.state.proxies[A], pool.now) == "banned by 1 host"
    pool.now += 31
    assert pool.choose(HOST) == Choice(A, "pair")
    pool.saw(A, "good")
    assert pool.choose(HOST) != Choice(A, "pair")
    assert condition(pool.state.proxies[A], pool.now) == "ok"


def test_only_one_may_probe_a_ban() -> None:
    pool = Pool()
    pool.ban(A)
    pool.now += 31
    choice = pool.choose()
    assert choice == Choice(A, "pair")
    pool.state = pool.policy.reserve(pool.state, choice, HOST, pool.now, 60)
    assert pool.share()[A] == 0


# -- nobody


def test_when_all_are_in_quarantine_it_is_told_until_when_and_why() -> None:
    pool = Pool()
    pool.down(A)
    pool.now += 5
    pool.down(B)
    pool.ban(C)
    found = pool.choose()
    assert isinstance(found, Wait)
    assert found.until == pool.state.proxies[A].hold.until
    assert found.reason == "2 proxy_connect, 1 banned; the next is tried in 25 s"
    assert pool.choose(OTHER) == Choice(C)


def test_a_probe_under_way_is_soon_over() -> None:
    pool = Pool()
    for name in NAMES:
        pool.down(name)
    pool.now += 31
    choice = pool.choose(avoid=frozenset({B, C}))
    assert isinstance(choice, Choice)
    pool.state = pool.policy.reserve(pool.state, choice, HOST, pool.now, 60)
    found = pool.choose(avoid=frozenset({B, C}))
    assert isinstance(found, Wait)
    assert found.until - pool.now == pytest.approx(1.0)


def test_none_is_left_of_those_to_avoid() -> None:
    assert Pool().choose(avoid=frozenset(NAMES)) is None


# -- what is remembered


def test_hosts_where_all_goes_well_are_not_remembered() -> None:
    pool = Pool()
    for n in range(100):
        pool.saw(A, "good", f"h{n}.test")
    assert pool.state.proxies[A].hosts == {}
    assert pool.state.proxies[A].success() == 1


def test_what_says_nothing_any_more_is_forgotten() -> None:
    pool = Pool()
    pool.saw(A, "doubt")
    pool.ban(B)
    assert len(pruned(pool.state, pool.now + 600).proxies[A].hosts) == 1
    later = pruned(pool.state, pool.now + 2 * 3600)
    assert (later.proxies[A].hosts, later.proxies[B].hosts) == ({}, {})


def test_memory_is_bounded_and_bans_are_kept_longest() -> None:
    pool = Pool()
    pool.ban(A, "first.test")
    for n in range(PAIRS + 50):
        pool.saw(A, "doubt", f"h{n}.test", took=0.001)
    kept = pruned(pool.state, pool.now).proxies[A].hosts
    assert len(kept) == PAIRS
    assert "first.test" in kept
    assert "h0.test" not in kept


def test_the_state_can_be_stored() -> None:
    pool = Pool()
    pool.ban(A)
    pool.down(B)
    data = msgspec.msgpack.encode(pool.state)
    assert msgspec.msgpack.decode(data, type=PoolState) == pool.state
    assert len(data) < 400


def test_the_chance_of_a_pool_is_that_of_its_best() -> None:
    pool = Pool()
    for _ in range(20):
        pool.saw(A, "doubt")
        pool.saw(B, "good")
    assert pool.policy.chance(pool.state, [A], HOST, pool.now) < 0.3
    assert pool.policy.chance(pool.state, [A, B], HOST, pool.now) > 0.8
