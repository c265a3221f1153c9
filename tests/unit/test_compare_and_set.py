"""A value that several processes change at once: no change is lost, and a change with limited tries gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal.frontier.compare_and_set import change_host, change_note
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import HostRecord, JobSpec, Note
from shoal.testing.conformance.tools import make_task


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


async def host_of(frontier: MemoryFrontier) -> HostRecord:
    await frontier.open_job(JobSpec("job"))
    await frontier.add("job", [make_task("http://a.test/")])
    record = await frontier.host("a.test")
    assert record is not None
    return record


def with_state(state: bytes) -> Callable[[HostRecord], HostRecord]:
    return lambda record: replace(record, state=record.state + state)


async def test_a_host_is_changed_again_if_another_process_wrote_first() -> None:
    async with MemoryFrontier() as frontier:
        record = await host_of(frontier)
        asked: list[bytes] = []

        class Slow(MemoryFrontier):
            async def host(self, name: str) -> HostRecord | None:
                read = await frontier.host(name)
                if not asked:
                    assert await frontier.update_host(replace(record, state=b"theirs "))
                asked.append(b"")
                return read

            update_host = frontier.update_host  # type: ignore[assignment]

        written = await change_host(Slow(), "a.test", with_state(b"mine"))
        assert written == replace(record, state=b"theirs mine", version=2)
        assert len(asked) == 2
        assert await change_host(frontier, "a.test", with_state(b"!"), tries=0) is None


async def test_a_host_that_is_unknown_or_left_alone_is_not_written() -> None:
    async with MemoryFrontier() as frontier:
        record = await host_of(frontier)
        assert await change_host(frontier, "b.test", with_state(b"mine")) is None
        assert await change_host(frontier, "a.test", lambda record: None) is None
        assert await frontier.host("a.test") == record
