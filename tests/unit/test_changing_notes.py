"""A note that many change at once: nothing that was written is lost, and who may try so often only gives up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.notes import change_note
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Note


async def one_more(note: Note | None) -> bytes:
    await asyncio.sleep(0)  # others read meanwhile
    return b"%d" % (int(note.value) + 1 if note is not None else 1)


async def test_no_change_is_lost_between_two_processes_of_a_file(tmp_path: Path) -> None:
    store = str(tmp_path / "shoal.db")
    async with SqliteFrontier(store) as one, SqliteFrontier(store) as two:
        written = await asyncio.gather(*(change_note(home, "count", one_more) for home in [one, two] * 10))
        assert await one.note("count") == Note(b"20", 20)
    assert sorted(note.version for note in written if note is not None) == list(range(1, 21))


@pytest.mark.parametrize("tries", [1, 3])
async def test_it_gives_up_after_so_many_tries(tries: int) -> None:
    asked = 0
    async with MemoryFrontier() as frontier:

        async def overtaken(note: Note | None) -> bytes:
            nonlocal asked
            asked += 1
            assert await frontier.set_note("key", b"theirs", note.version if note is not None else 0)
            return b"mine"

        assert await change_note(frontier, "key", overtaken, tries=tries) is None
        assert await frontier.note("key") == Note(b"theirs", tries)
    assert asked == tries


async def test_a_change_that_wants_nothing_writes_nothing() -> None:
    async def nothing(note: Note | None) -> None:
        return None

    async with MemoryFrontier() as frontier:
        assert await change_note(frontier, "key", nothing) == Note(b"", 0)
        assert await frontier.note("key") is None
        await frontier.set_note("key", b"there", 0)
        assert await change_note(frontier, "key", nothing) == Note(b"there", 1)
        assert await frontier.note("key") == Note(b"there", 1)
