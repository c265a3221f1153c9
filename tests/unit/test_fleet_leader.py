"""The leader lease: one leads, a lost or late renewal ends it at once, and another takes over.

In virtual time: a leader stops a tenth of a term before others may begin, and a busy machine may be later than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import pytest

from shoal.errors import StoreError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Note
from shoal.jobs.leader import KEY, Leadership, leader, watch_leader
from shoal.testing.simulation.virtual import SimulatedClock, VirtualLoop

LEASE = 0.3
DEADLINE = 5.0


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**given: object) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(**given))

    return run


class Duty:
    """What a leader does: here it only notes when."""

    def __init__(self) -> None:
        self.working = False
        self.begun = 0
        self.changed = asyncio.Event()

    async def __call__(self) -> None:
        self.working, self.begun = True, self.begun + 1
        self.changed.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.working = False
            self.changed.set()

    async def until(self, working: bool) -> None:
        async with asyncio.timeout(DEADLINE):
            while self.working is not working:
                self.changed.clear()
                await self.changed.wait()


class Store(MemoryFrontier):
    """One that fails, or hangs, when it is told to."""

    broken = False
    hanging = False

    def __init__(self) -> None:
        super().__init__(SimulatedClock(asyncio.get_running_loop()))

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        if self.broken:
            raise StoreError("the store is away")
        if self.hanging:
            await asyncio.sleep(3600)
        return await super().set_note(key, value, version)


@asynccontextmanager
async def candidate(frontier: MemoryFrontier, name: str) -> AsyncIterator[tuple[Duty, asyncio.Task[None]]]:
    duty = Duty()
    task = asyncio.create_task(Leadership(frontier, name, LEASE).lead(duty))
    try:
        yield duty, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@in_virtual_time
async def test_one_of_many_leads_for_as_long_as_it_lives() -> None:
    frontier = Store()
    async with candidate(frontier, "a") as (a, _), candidate(frontier, "b") as (b, _):
        await a.until(True)
        await asyncio.sleep(2 * LEASE)
        assert (a.working, a.begun, b.begun) == (True, 1, 0)
        term = await leader(frontier)
        assert term is not None
        assert (term.number, term.holder) == (1, "a")


@in_virtual_time
async def test_one_that_resigns_is_followed_at_once() -> None:
    frontier = Store()
    async with candidate(frontier, "a") as (a, task):
        await a.until(True)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not a.working
        assert await leader(frontier) is None
        async with candidate(frontier, "b") as (b, _):
            async with asyncio.timeout(LEASE):
                await b.until(True)


@in_virtual_time
async def test_one_that_vanishes_is_followed_after_its_term() -> None:
    frontier = Store()
    vanished = Leadership(frontier, "a", LEASE)
    await vanished._take()
    assert vanished.leads
    began = asyncio.get_running_loop().time()
    async with candidate(frontier, "b") as (b, _):
        await b.until(True)
    took = asyncio.get_running_loop().time() - began
    assert 0.8 * LEASE < took < LEASE + 0.5
    assert not vanished.leads, "by its own clock it stopped before the other began"


@pytest.mark.parametrize("renewals", range(8))
def test_who_follows_looks_seldom_and_still_in_time(renewals: int) -> None:
    """Whenever it saw the last renewal, it looks again before that has run out."""

    async def follow() -> None:
        frontier = Store()
        vanishing = Leadership(frontier, "a", LEASE)
        await vanishing._take()
        async with candidate(frontier, "b") as (b, _):
            for _ in range(renewals):
                await asyncio.sleep(LEASE / 3)
                assert await vanishing._renew()
            renewed = asyncio.get_running_loop().time()
            await b.until(True)
            assert asyncio.get_running_loop().time() - renewed == pytest.approx(LEASE, rel=0.05)

    for _ in range(25):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(follow())


@in_virtual_time
async def test_a_lost_term_ends_the_duties() -> None:
    frontier = Store()
    async with candidate(frontier, "a") as (a, _):
        await a.until(True)
        note = await frontier.note(KEY)
        assert isinstance(note, Note)
        usurper = Leadership(frontier, "b", 60)
        await frontier.set_note(KEY, b"no term", note.version)  # as if the term had run out
        await usurper._take()
        await a.until(False)
        term = await leader(frontier)
        assert term is not None
        assert term.holder == "b"


@pytest.mark.parametrize("trouble", ["broken", "hanging"])
@in_virtual_time
async def test_a_late_renewal_ends_the_duties_before_the_term_is_over(trouble: str) -> None:
    frontier = Store()
    async with candidate(frontier, "a") as (a, _):
        await a.until(True)
        setattr(frontier, trouble, True)
        await a.until(False)
        assert await leader(frontier) is not None, "for the others the term is not over yet"
        setattr(frontier, trouble, False)
        await a.until(True)
        assert a.begun == 2


@in_virtual_time
async def test_an_error_of_a_duty_comes_out() -> None:
    async def fails() -> None:
        raise StoreError("no space left")

    with pytest.raises(StoreError, match="no space left"):
        async with asyncio.timeout(DEADLINE):
            await Leadership(Store(), "a", LEASE).lead(fails)


@in_virtual_time
async def test_who_never_leads_says_when_nobody_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "shoal")
    frontier = Store()
    watching = asyncio.create_task(watch_leader(frontier, every=1.0))

    def told() -> list[str]:
        return [record.__dict__["event"] for record in caplog.records]

    await asyncio.sleep(3.5)
    assert told() == ["leader_missing"]
    async with candidate(frontier, "node-1") as (duty, _):
        await duty.until(working=True)
        await asyncio.sleep(3.5)
        assert told() == ["leader_missing", "leader_found"]
    await asyncio.sleep(3.5)
    assert told() == ["leader_missing", "leader_found", "leader_missing"]
    assert "--no-coordinator" in caplog.text
    watching.cancel()
