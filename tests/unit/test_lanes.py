"""Which lane gets a free slot: shares by weight, borrowing, caps, pauses, and nobody starves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import SettingsError
from shoal.policy.lanes import Lane, Lanes, served
from shoal.settings import WEIGHTS, Settings


def settings_of(**settings: object) -> Settings:
    return Settings(**settings)  # type: ignore[arg-type]


class Worker:
    """Claims as a frontier with enough work in `busy` lanes lets it, and ends pages at random."""

    def __init__(self, lanes: Mapping[str, Lane], slots: int, busy: Set[str], seed: int = 0) -> None:
        self.lanes, self.slots, self.busy = Lanes(lanes), slots, busy
        self.running: list[str] = []
        self.started: Counter[str] = Counter()
        self._rng = random.Random(seed)

    def claim(self, paused: Set[str] = frozenset()) -> None:
        split = self.lanes.split(self.slots, paused)
        taken: Counter[str] = Counter()
        for most in (split.shares, split.caps):
            for lane, count in most.items():
                while lane in self.busy and taken[lane] < count and len(self.running) < self.slots:
                    taken[lane] += 1
                    self.running.append(lane)
                    self.lanes.started(lane)
        self.started += taken

    def run(self, pages: int) -> Counter[str]:
        for _ in range(pages):
            self.claim()
            lane = self.running.pop(self._rng.randrange(len(self.running)))
            self.lanes.ended(lane)
        return self.started


# -- which lanes there are


def test_the_built_in_lanes_have_their_weights() -> None:
    assert {name: lane.weight for name, lane in served(Settings()).items()} == WEIGHTS


def test_lanes_can_be_added_and_weighed_anew() -> None:
    lanes = served(settings_of(lanes={"images": 3, "browser": 5}, lane_caps={"images": 7}))
    assert lanes["images"] == Lane(3, 7)
    assert lanes["browser"] == Lane(5, cap=4), "a browser has so many tabs"
    assert list(lanes) == [*WEIGHTS, "images"]


def test_a_process_may_serve_some() -> None:
    assert list(served(settings_of(serve=["browser", "urgent"]))) == ["browser", "urgent"]


@pytest.mark.parametrize("setting", [{"serve": ["fast"]}, {"lane_caps": {"fast": 2}}])
def test_lanes_that_do_not_exist_are_an_error(setting: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"there is no lane 'fast'; there are urgent, .*; add more"):
        served(settings_of(**setting))


# -- who gets the slots


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 15, 64])
def test_busy_lanes_share_by_weight(slots: int) -> None:
    started = Worker(served(Settings()), slots, WEIGHTS.keys()).run(3000)
    shares = {lane: count / started.total() for lane, count in started.items()}
    assert shares == {lane: pytest.approx(weight / 15, abs=0.02) for lane, weight in WEIGHTS.items()}


@given(
    weights=st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 10), min_size=1),
    slots=st.integers(1, 20),
    seed=st.integers(0, 99),
)
def test_nobody_starves(weights: dict[str, float], slots: int, seed: int) -> None:
    """Within twice the rounds that the weights promise, everybody had a turn."""
    lanes = {name: Lane(weight) for name, weight in weights.items()}
    rounds = 2 * sum(weights.values()) / min(weights.values()) + 2 * slots
    started = Worker(lanes, slots, weights.keys(), seed).run(int(rounds) + 1)
    assert started.keys() == weights.keys()


def test_what_others_leave_is_lent_out() -> None:
    worker = Worker(served(settings_of(browser_tabs=100)), 10, {"browser"})
    worker.claim()
    assert worker.running == ["browser"] * 10


def test_pages_that_only_wait_use_none_of_their_lanes_share_but_count_for_its_cap() -> None:
    lanes = Lanes({"slow": Lane(1, cap=12), "quick": Lane(1)})
    for _ in range(10):
        lanes.started("slow")
    assert lanes.split(10, free=10).shares == {"quick": 5, "slow": 0}
    split = lanes.split(10, free=10, waiting={"slow": 10})
    assert split.shares == {"slow": 2, "quick": 5}
    assert split.caps == {"slow": 2, "quick": 10}
    assert lanes.split(10, free=3, waiting={"slow": 10}).caps == {"slow": 2, "quick": 3}


def test_a_lane_gets_its_share_back_as_soon_as_pages_end() -> None:
    worker = Worker(served(settings_of(browser_tabs=100)), 15, {"browser"})
    worker.claim()
    worker.busy = {"browser", "urgent"}
    for _ in range(13):
        worker.running.remove("browser")
        worker.lanes.ended("browser")
        worker.claim()
    assert Counter(worker.running)["urgent"] >= 8


def test_a_lane_that_had_nothing_to_do_does_not_save_up_turns() -> None:
    worker = Worker({"a": Lane(1), "b": Lane(1)}, 1, {"a"})
    worker.run(1000)
    worker.busy = {"a", "b"}
    before = worker.started["a"]
    worker.run(20)
    assert worker.started["a"] - before >= 9


@pytest.mark.parametrize("slots", [3, 10])
def test_a_cap_holds(slots: int) -> None:
    worker = Worker({"a": Lane(8, cap=2), "b": Lane(1)}, slots, {"a", "b"})
    for _ in range(50):
        worker.claim()
        assert worker.running.count("a") <= 2
        assert len(worker.running) == slots
        worker.lanes.ended(worker.running.pop(0))


def test_a_paused_lane_gets_nothing() -> None:
    lanes = Lanes(served(Settings()))
    split = lanes.split(10, {"discovery"})
    assert "discovery" not in {**split.shares, **split.caps}


def test_fewer_slots_than_are_taken_leave_none_free() -> None:
    """Backpressure may take slots away that are in use."""
    worker = Worker(served(Settings()), 10, WEIGHTS.keys())
    worker.claim()
    split = worker.lanes.split(5)
    assert not any(split.shares.values())
    assert not any(split.caps.values())


def test_the_repr_is_a_status_line() -> None:
    worker = Worker(
        served(settings_of(serve=["urgent", "browser"], browser_tabs=100)), 9, {"urgent", "browser"}
    )
    worker.claim()
    assert repr(worker.lanes) == "<Lanes: 8 urgent, 1 browser>"
