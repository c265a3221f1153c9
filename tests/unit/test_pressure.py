"""The engine's feeling for how the crawl is doing: what it reads, what it says, whom it wakes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from shoal.engine.pressure import Load, PressureMonitor
from shoal.engine.vitals import Reading
from shoal.errors import StoreError
from shoal.policy.backpressure import Pressure
from shoal.policy.load import Backlog, Traffic
from shoal.settings import Settings
from shoal.testing import ManualClock

CALM = Load(in_flight=5, unsettled_for=0.0, idle_for=0.0)


class World:
    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.traffic = Traffic()
        self.load = CALM
        self.machine = Reading()
        self.pending: int | Exception = 0
        self.woken = 0
        self.monitor = PressureMonitor(
            Settings(**settings),  # type: ignore[arg-type]
            self.traffic,
            load=lambda: self.load,
            pending=self._pending,
            on_change=self._wake,
            clock=self.clock,
            machine=lambda: self.machine,
        )

    async def _pending(self) -> Backlog:
        if isinstance(self.pending, Exception):
            raise self.pending
        return Backlog(pending=self.pending)

    def _wake(self) -> None:
        self.woken += 1

    def update(self, pending: int = 0) -> Pressure:
        self.clock.advance(1.0)
        self.monitor.update(Backlog(pending=pending))
        return self.monitor.pressure


@pytest.fixture
def world() -> World:
    return World(high_water=100)


def test_all_is_well(world: World) -> None:
    assert world.update() == Pressure()
    assert world.woken == 0


def test_a_full_queue_pauses_discovery_until_it_is_half_empty(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    pressure = world.update(101)
    assert (pressure.paused_lanes, pressure.feeding_paused) == ({"discovery"}, False)
    assert world.update(60).paused_lanes
    assert world.update(50) == Pressure()
    assert world.woken == 2, "the engine has something to claim, or something less"
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "backpressure queue_full on",
        "backpressure queue_full off",
    ]
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_a_slow_sink_takes_slots_away_step_by_step_and_gives_them_back(world: World) -> None:
    world.load = Load(5, unsettled_for=3.0, idle_for=0.0)
    falling = [world.update().concurrency for _ in range(20)]
    assert falling[0] < 1
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == pytest.approx(0.1), "the crawl still moves"
    assert world.monitor.pressure.reasons[0].rule == "sink"
    world.load = CALM
    rising = [world.update().concurrency for _ in range(20)]
    assert rising == sorted(rising)
    assert rising[-1] == 1.0


def test_memory_and_files_are_felt(world: World) -> None:
    world.machine = Reading(memory=200 << 20, memory_limit=100 << 20)
    assert "memory is 200 MB (limit 100 MB)" in world.update().reasons[0].sentence
    world.machine = Reading(open_files=950, file_limit=1000)
    assert "950 files are open (max_file_share 80% of 1,000)" in world.update().reasons[0].sentence


def test_traffic_is_felt(world: World) -> None:
    for _ in range(50):
        world.traffic.record("a.test", "http_503", 0.1, world.clock.monotonic(), retry=True)
    assert [reason.rule for reason in world.update().reasons] == ["retries"]


def test_a_queue_that_grows_by_links_pauses_the_feeding_of_its_job(world: World) -> None:
    def update(pending: int, found: int, ended: int) -> Pressure:
        world.clock.advance(1.0)
        world.monitor.update(Backlog("shops", pending, found, ended, feeding=True))
        return world.monitor.pressure

    assert update(40, 40, 0) == Pressure()
    pressure = update(60, 90, 10)
    assert (pressure.feeding_paused, pressure.paused_lanes) == (True, frozenset())
    assert [(reason.rule, reason.job) for reason in pressure.reasons] == [("queue_growth", "shops")]
    assert update(12, 90, 70) == Pressure()


def test_paused_lanes_are_opened_when_there_is_nothing_else_to_do(world: World) -> None:
    assert world.update(500).paused_lanes
    world.load = Load(0, unsettled_for=0.0, idle_for=30.0)
    assert not world.update(500).paused_lanes


def test_a_rule_that_is_switched_off_says_nothing() -> None:
    world = World(high_water=10, backpressure=["sink"])
    assert world.update(1000) == Pressure()


async def test_it_goes_on_after_a_store_that_failed_for_a_moment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would be left to take the pressure off again."""
    monkeypatch.setattr("shoal.engine.pressure._EVERY", 0.001)
    world.pending = StoreError("the store is busy")
    running = asyncio.create_task(world.monitor.run())
    await asyncio.sleep(0.01)
    assert not running.done()
    world.pending = 1000
    async with asyncio.timeout(60):
        while not world.woken:  # noqa: ASYNC110 (it does not know of us)
            await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
