"""How often a worker is heard: often enough for its leases, and seldom if it has nothing to tell."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from shoal.engine.heartbeat import Heartbeat
from shoal.frontier.memory import MemoryFrontier
from shoal.jobs.worker_status import WorkerStatus
from shoal.settings import Settings
from shoal.testing.simulation.virtual import SimulatedClock, VirtualLoop


class Listening(MemoryFrontier):
    def __init__(self) -> None:
        super().__init__(SimulatedClock(asyncio.get_running_loop()))
        self.beats: list[float] = []

    async def extend(self, *asked: object, **named: object) -> int:
        self.beats.append(asyncio.get_running_loop().time())
        return 0


@pytest.mark.parametrize(
    ("in_flight", "lease", "gap"), [(0, 60.0, 5.0), (3, 60.0, 2.0), (0, 3.0, 1.0), (3, 3.0, 1.0)]
)
def test_gaps(in_flight: int, lease: float, gap: float) -> None:
    async def listen() -> list[float]:
        frontier = Listening()
        heartbeat = _heartbeat(frontier, lease, lambda: WorkerStatus(in_flight=in_flight))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(heartbeat.run(), 60)
        return frontier.beats

    beats = _run(listen)
    gaps = [later - sooner for sooner, later in pairwise(beats)]
    assert len(gaps) > 8
    assert all(one == pytest.approx(gap, rel=0.21) for one in gaps[1:]), gaps


def test_one_that_gets_work_says_so_soon() -> None:
    async def listen() -> list[float]:
        frontier = Listening()
        loop = asyncio.get_running_loop()
        began = loop.time()
        status = lambda: WorkerStatus(in_flight=int(loop.time() - began > 12))  # noqa: E731
        heartbeat = _heartbeat(frontier, 60.0, status)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(heartbeat.run(), 20)
        return [beat - began for beat in frontier.beats]

    beats = _run(listen)
    assert any(12 < beat < 13.1 for beat in beats), beats


def _heartbeat(frontier: MemoryFrontier, lease: float, status: object) -> Heartbeat:
    return Heartbeat(frontier, "w", Settings(lease=lease), status, set, lambda _: None)  # type: ignore[arg-type]


def _run(listen: object) -> list[float]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(listen())  # type: ignore[operator, no-any-return]
