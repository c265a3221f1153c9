"""Fleets in virtual time whose store goes back while they live; and proof that nobody believes it unnoticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shoal.engine import Engine
from shoal.feeding import Feeder
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import FOREVER
from shoal.model import Lease, Task
from shoal.refeeding import Recent
from shoal.testing.simulation import Trace, run
from shoal.testing.simulation.world import Home
from shoal.worker import Worker

SEEDS, CHUNK = 30, 5


def again(trace: Trace) -> str:
    return f"{trace}\nagain: python -m shoal.testing.simulation --set-backs --seed {trace.seed} -v"


def play(seed: int, home: Home = MemoryFrontier) -> Trace:
    return run(seed, set_backs=True, home=home)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_fleet_holds(first: int) -> None:
    traces = [play(seed) for seed in range(first, first + CHUNK)]
    assert not [again(trace) for trace in traces if not trace.ok]
    assert any("store     goes back" in line for trace in traces for line in trace.events)


@pytest.mark.parametrize("seed", [81])  # beyond those above: each showed a fault once
def test_fleets_that_failed_before_hold(seed: int) -> None:
    trace = play(seed)
    assert trace.ok, again(trace)


def test_the_same_seed_gives_the_same_trace() -> None:
    assert play(3).digest == play(3).digest


# -- whoever believes what the store has forgotten; each in the first world that shows it


def caught(seed: int, home: Home = MemoryFrontier) -> str:
    violations = play(seed, home).violations
    return violations[0].check if violations else "nothing"


class GivesTokensTwice(MemoryFrontier):
    def go_back(self, saved: dict[str, Any]) -> None:
        super().go_back(saved)
        self._last_token = max(self._leases, default=0)


class AsksAtOnce(MemoryFrontier):
    """Hosts are due as soon as it thinks: it has forgotten when it last let somebody ask them."""

    def go_back(self, saved: dict[str, Any]) -> None:
        super().go_back(saved)
        self._back_at = -FOREVER


@pytest.mark.parametrize(
    ("home", "seed", "check"), [(GivesTokensTwice, 0, "one lease"), (AsksAtOnce, 2, "gap")]
)
def test_a_store_that_forgets_too_much_is_caught(home: Home, seed: int, check: str) -> None:
    assert caught(seed, home) == check


def test_requests_that_the_store_has_forgotten_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pause the host gets more, before all workers know."""
    monkeypatch.setattr("shoal.frontier.memory.home.HUSH", 0.0)
    assert caught(13) == "cap"


def test_links_that_the_store_has_forgotten_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(self: Worker) -> None:
        await self._hosts.forget()

    monkeypatch.setattr(Worker, "forget", forget)
    assert caught(13) == "links"


def test_a_worker_that_hears_of_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reconcile(self: Engine, claimed: Sequence[Lease]) -> None:
        self._epoch = self._frontier.epoch

    monkeypatch.setattr(Engine, "_reconcile", reconcile)
    assert caught(21) == "links"


def test_a_feeder_that_goes_on_from_where_it_was_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: Recent, fed: int) -> list[Task]:
        return []

    monkeypatch.setattr(Recent, "since", nothing)
    assert caught(53) == "obtainable"


def test_a_feeder_that_commits_a_later_position_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def add(self: Feeder, batch: list[Task]) -> None:
        self._recent.keep(batch, self._position, 0.0)
        while (
            await self._frontier.add(
                self._job, batch, fed=self._position, fed_all=self._last, epoch=self._epoch
            )
        ).outdated:
            batch = await self._forgotten()

    monkeypatch.setattr(Feeder, "_add", add)
    assert caught(81) == "obtainable"
