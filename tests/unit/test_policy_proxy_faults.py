"""Whose fault it is: thousands of simulated requests through proxies and to hosts that fail in every combination."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Literal

import msgspec
import pytest

from shoal.policy.proxy_choice import Choice, Wait
from shoal.policy.proxy_faults import ProxyPolicy
from shoal.policy.proxy_state import SITES, PoolState, ProxyObservation, condition, is_believed, pruned
from shoal.settings import Settings

Strategy = Literal["scored", "round_robin"]
STRATEGIES: list[Strategy] = ["scored", "round_robin"]
SEEDS = range(3)
T = 1_000_000.0


class World:
    """Shares of the requests that fail: through each proxy, and at each host. One request after the other."""

    def __init__(
        self,
        proxies: list[float],
        host: Callable[[str], float] = lambda host: 0.0,
        *,
        strategy: Strategy = "scored",
        seed: int = 0,
    ) -> None:
        self.names = [f"pool/p{n}:1" for n in range(len(proxies))]
        self.broken = dict(zip(self.names, proxies, strict=True))
        self.host = host
        self.pair: Callable[[str, str], bool] = lambda name, host: False
        self.policy = ProxyPolicy(Settings(pool_strategy=strategy))
        self.state = PoolState()
        self.rng = random.Random(seed)
        self.now = T
        self.asked: Counter[str] = Counter()
        self.held: Counter[str] = Counter()  # how often each was put in quarantine
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.blamed: Counter[str] = Counter()  # hosts
        self.waits = 0

    def ask(self, host: str) -> None:
        self.now += 0.1
        choice = self.policy.choose(
            self.state, self.names, host, self.now, self.rng, turn=sum(self.asked.values())
        )
        if isinstance(choice, Wait):
            self.waits += 1
            return
        assert isinstance(choice, Choice)
        name = choice.proxy
        self.asked[name] += 1
        fails = self.rng.random() < self.broken[name] or self.pair(name, host)
        fails = fails or self.rng.random() < self.host(host)
        before = self.state
        started, self.now = self.now, self.now + 0.1
        seen = ProxyObservation(
            name, host, "failed" if fails else "good", started, self.now, "timeout" if fails else "ok"
        )
        self.state = self.policy.observe(self.state, seen)
        self.held[name] += self._strikes(self.state, name) > self._strikes(before, name)
        self.pairs[name, host] += self._strikes(self.state, name, host) > self._strikes(before, name, host)
        if fails:
            blames = self.policy.blames_host(self.state, self.names, host, name, self.now)
            self.blamed[host] += blames

    def _strikes(self, state: PoolState, name: str, host: str | None = None) -> int:
        proxy = state.proxies.get(name)
        if proxy is None:
            return 0
        if host is None:
            return proxy.hold.strikes
        return proxy.hosts[host].hold.strikes if host in proxy.hosts else 0

    def run(self, requests: int, hosts: Callable[[int], str]) -> World:
        for n in range(requests):
            self.ask(hosts(n))
            if n % 30 == 0:
                self.state = pruned(self.state, self.now)
        return self


def one(n: int) -> str:
    return "h.test"


def few(n: int) -> str:
    return f"h{n % 6}.test"


def each(n: int) -> str:
    return f"h{n}.test"


def down(*hosts: str) -> Callable[[str], float]:
    return lambda host: float(host in hosts)


# -- the proxy's


@pytest.mark.parametrize("hosts", [one, few, each])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_broken_proxies_are_found_out_after_a_few_requests(
    strategy: Strategy, hosts: Callable[[int], str]
) -> None:
    for seed in SEEDS:
        world = World([1, 1, 1, 0, 1, 1, 0, 0], strategy=strategy, seed=seed).run(300, hosts)
        broken = {name for name, share in world.broken.items() if share}
        assert max(world.asked[name] for name in broken) <= 7, world.asked
        assert not any(world.held[name] for name in world.names if name not in broken)
        assert not +world.blamed, "no host is blamed for them"


def test_a_proxy_that_fails_most_of_the_time_is_held_too() -> None:
    for seed in SEEDS:
        world = World([0.8, 0, 0], strategy="round_robin", seed=seed).run(300, few)
        assert world.held["pool/p0:1"]
        assert not world.held["pool/p1:1"] + world.held["pool/p2:1"]


def test_a_proxy_that_breaks_later() -> None:
    world = World([0, 0, 0, 0], strategy="round_robin").run(400, few)
    world.broken["pool/p0:1"] = 1.0
    asked = world.asked["pool/p0:1"]
    world.run(100, few)
    assert world.asked["pool/p0:1"] - asked <= 6
    assert not +world.blamed
    world.broken["pool/p0:1"] = 0.0
    world.run(1200, few)
    assert not world.state.proxies["pool/p0:1"].hold.strikes, "and it comes back when it works again"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_proxy_that_fails_at_one_host(strategy: Strategy) -> None:
    world = World([0] * 4, strategy=strategy)
    world.pair = lambda name, host: (name, host) == ("pool/p0:1", "h0.test")
    world.run(600, few)
    assert not +world.held, "elsewhere it is well"
    assert set(+world.pairs) <= {("pool/p0:1", "h0.test")}
    assert not +world.blamed
    at = world.state.proxies["pool/p0:1"].hosts["h0.test"]
    assert at.good == 0
    assert strategy == "scored" or world.asked["pool/p0:1"] > 60
    if +world.pairs:
        until = at.hold.until
        assert condition(world.state.proxies["pool/p0:1"], until - 1) == "fails at 1 host"


@pytest.mark.parametrize("hosts", [few, each])
def test_when_all_are_broken_no_host_is_blamed(hosts: Callable[[int], str]) -> None:
    world = World([1] * 8).run(300, hosts)
    assert sum(world.asked.values()) < 80
    assert world.waits > 200, "the pages wait"
    assert not +world.blamed


def test_when_all_are_broken_and_there_is_one_host_nobody_can_tell() -> None:
    world = World([1] * 8).run(300, one)
    assert not +world.held
    assert world.blamed["h.test"] > 290, "after five have failed there"


# -- the host's


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_good_proxy_is_held_for_a_bad_host(strategy: Strategy, count: int, share: float) -> None:
    """One of six that fails so often."""
    for seed in SEEDS:
        world = World([0] * count, lambda host: share * (host == "h0.test"), strategy=strategy, seed=seed)
        world.run(900, few)
        assert not +world.held
        assert not +world.pairs
        if share == 1.0:
            assert world.blamed["h0.test"] > 140, "of 150"
        assert set(+world.blamed) <= {"h0.test"}


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_single_host_that_goes_down_and_comes_back(strategy: Strategy, count: int) -> None:
    world = World([0] * count, strategy=strategy).run(200, one)
    world.host = down("h.test")
    world.run(60, one)
    assert world.blamed["h.test"] >= 59
    world.host = down()
    world.run(100, one)
    assert not +world.held + +world.pairs
    assert world.state.sites == {}, "all is forgotten"


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_single_host_that_never_answers(strategy: Strategy, count: int) -> None:
    world = World([0] * count, down("h.test"), strategy=strategy).run(300, one)
    assert not +world.held + +world.pairs
    assert world.blamed["h.test"] >= 300 - count
    assert world.waits == 0


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_many_hosts_of_which_some_are_dead(count: int, share: float) -> None:
    """Each asked once: what is expected of a host nobody has asked, others tell."""
    for seed in SEEDS:
        dead = random.Random(seed)
        hosts = {f"h{n}.test": float(dead.random() < share) for n in range(1000)}
        world = World([0] * count, hosts.__getitem__, strategy="round_robin", seed=seed).run(1000, each)
        assert sum(world.held.values()) <= 1
        assert world.waits == 0


# -- what is remembered


def test_hosts_without_trouble_are_not_remembered() -> None:
    world = World([0.1, 0.1], strategy="round_robin").run(2_000, few)
    world.broken = dict.fromkeys(world.names, 0.0)
    world.run(200, few)
    assert world.state.sites == {}


def test_what_is_known_of_hosts_is_bounded_and_fades() -> None:
    world = World([0, 0], lambda host: 0.5).run(3_000, each)
    world.state = pruned(world.state, world.now)
    assert 0 < len(world.state.sites) <= SITES
    assert len(msgspec.msgpack.encode(world.state)) < 100_000
    assert pruned(world.state, world.now + 700).sites == {}


def test_a_quarantined_proxy_is_no_witness() -> None:
    world = World([1, 0, 0], strategy="round_robin").run(60, few)
    assert world.held["pool/p0:1"]
    assert not is_believed(world.state, "pool/p0:1", world.now)
    assert is_believed(world.state, "pool/p1:1", world.now)
