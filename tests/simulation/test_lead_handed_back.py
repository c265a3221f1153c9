"""Whoever leads is told to end: at any step of its work. The next one need not wait until its term is over."""

from __future__ import annotations

import asyncio

import pytest

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Note
from shoal.jobs.leader import KEY, Leadership, leader

STEPS = 60  # of the event loop; more than it takes to lead and to end


class SlowNotes:
    """A store that is asked, and answers some steps later: what was called off meanwhile is written all the same."""

    def __init__(self) -> None:
        self.frontier = MemoryFrontier()
        self._writing: set[asyncio.Task[bool]] = set()

    async def note(self, name: str) -> Note | None:
        await asyncio.sleep(0)
        return await self.frontier.note(name)

    async def set_note(self, name: str, value: bytes, version: int = 0) -> bool:
        writing = asyncio.create_task(self._write(name, value, version))
        self._writing.add(writing)
        return await asyncio.shield(writing)

    async def _write(self, name: str, value: bytes, version: int) -> bool:
        await asyncio.sleep(0)
        written = await self.frontier.set_note(name, value, version)
        await asyncio.sleep(0)
        return written

    async def now(self) -> float:
        await asyncio.sleep(0)
        return await self.frontier.now()


async def steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("duties", [3, 10_000], ids=["its duties end", "they do not"])
async def test_the_lead_is_handed_back(duties: int) -> None:
    led = 0
    for count in range(STEPS):
        notes = SlowNotes()
        leading = asyncio.create_task(Leadership(notes, "one", 60.0).lead(lambda: steps(duties)))  # type: ignore[arg-type]
        await steps(count)
        led += await leader(notes.frontier) is not None
        leading.cancel()
        await asyncio.wait([leading])
        assert await leader(notes.frontier, KEY) is None, f"told to end after {count} steps"
    assert led > 5, "and it did lead"
