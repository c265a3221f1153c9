"""Dead letters as a list: the newest first, read anew only as far as needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from shoal.admit.identity import fingerprint
from shoal.dashboard import dead_letters
from shoal.dashboard.dead_letters import MOST_TEXT, Shelf, letter_dict, newest
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, DeadFilter, JobSpec
from shoal.model import Dead, DeadLetter, Failure, Settlement, Snapshot, Task
from shoal.testing import ManualClock
from shoal.valve import Valve

EVERYTHING = DeadFilter()


class Graveyard(MemoryFrontier):
    """Counts the letters it gave out, for each of them has a body."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        super().__init__(self.clock)
        self.given = 0

    async def dead(self, query: DeadFilter) -> Sequence[DeadLetter]:
        found = await super().dead(query)
        self.given += len(found)
        return found

    async def bury(self, job: str, *numbers: int) -> None:
        tasks = [
            Task(f"http://a.example/{n}", host="a.example", fingerprint=fingerprint(str(n))) for n in numbers
        ]
        await self.add(job, tasks)
        for lease in (await self.claim(Claim("w", [job], {"normal": 999}, 999))).leases:
            await self.settle([Settlement(lease, Dead(Failure("http_404", at=await self.now())))])


@pytest.fixture
async def frontier() -> AsyncIterator[Graveyard]:
    async with Graveyard() as frontier:
        for job in ("first", "second"):
            await frontier.open_job(JobSpec(job, valve=Valve(cap=999)))
        yield frontier


async def numbers(frontier: Graveyard, query: DeadFilter = EVERYTHING, most: int = 1000) -> list[int]:
    heads, _ = await newest(frontier, query, await frontier.now(), most)
    return [int(head.url.rpartition("/")[2]) for head in heads]


async def test_the_newest_first_of_all_jobs_over_any_time(frontier: Graveyard) -> None:
    for n, pause in enumerate([0.5, 3600.0, 86_400.0, 10.0, 0.1, 400 * 86_400.0]):
        await frontier.bury("first" if n % 2 else "second", n)
        frontier.clock.advance(pause)
    assert await numbers(frontier) == [5, 4, 3, 2, 1, 0]
    assert await numbers(frontier, DeadFilter(job="first")) == [5, 3, 1]
    assert await numbers(frontier, most=2) == [5, 4]
    assert await numbers(frontier, DeadFilter(kind="timeout")) == []


async def test_many_of_one_moment(frontier: Graveyard) -> None:
    await frontier.bury("first", *range(450))
    frontier.clock.advance(5)
    await frontier.bury("first", 450)
    found = await numbers(frontier)
    assert found[0] == 450
    assert sorted(found) == list(range(451))


async def test_few_are_read_to_find_the_newest_of_very_many(frontier: Graveyard) -> None:
    for n in range(1000):
        await frontier.bury("first", n)
        frontier.clock.advance(60)
    assert await numbers(frontier, most=10) == list(range(999, 989, -1))
    assert frontier.given < 300


async def test_only_what_is_new_is_read_again(frontier: Graveyard) -> None:
    shelf = Shelf(frontier)
    await frontier.bury("first", *range(50))
    frontier.clock.advance(5)
    assert len((await shelf.newest(EVERYTHING, await frontier.now()))[0]) == 50
    await frontier.bury("second", 50)
    frontier.clock.advance(5)
    await shelf.newest(EVERYTHING, await frontier.now())
    frontier.given = 0
    await frontier.bury("second", 51)
    heads, more = await shelf.newest(EVERYTHING, await frontier.now())
    assert [head.url[-3:] for head in heads[:2]] == ["/51", "/50"]
    assert (len(heads), more, frontier.given <= 2) == (52, False, True)


async def test_what_was_decided_shows_at_once(frontier: Graveyard) -> None:
    shelf = Shelf(frontier)
    await frontier.bury("first", 1, 2)
    await shelf.newest(EVERYTHING, await frontier.now())
    await frontier.drop(DeadFilter(job="first"))
    shelf.forget()
    assert await shelf.newest(EVERYTHING, await frontier.now()) == ([], False)


async def test_what_others_decided_shows_a_little_later(
    frontier: Graveyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_EVERY", -1.0)
    monkeypatch.setattr(dead_letters, "_REST", 0.0)
    shelf = Shelf(frontier)
    await frontier.bury("first", 1, 2)
    assert len((await shelf.newest(EVERYTHING, await frontier.now()))[0]) == 2
    await frontier.drop(DeadFilter(job="first"))
    assert (await shelf.newest(EVERYTHING, await frontier.now()))[0] == []


def shown(body: bytes, content_type: str = "") -> dict[str, object]:
    snapshot = Snapshot(500, {"Content-Type": content_type}, body)
    task = Task("http://a.example/", history=(Failure("http_500"),))
    value: dict[str, object] = letter_dict(DeadLetter(task, "http_500", 1.0, snapshot))["snapshot"]
    return value


def test_a_body_is_text_whatever_it_is() -> None:
    assert shown(b"\xff\x00<b>", "text/html; charset=utf-8")["body"] == "\ufffd␀<b>"
    assert shown("ü".encode("latin-1"), "text/html; charset=latin-1")["body"] == "ü"
    assert shown(b"x" * (MOST_TEXT + 1))["cut"] is True
    assert len(str(shown(b"x" * (MOST_TEXT + 1))["body"])) == MOST_TEXT
    assert shown(b"x" * MOST_TEXT)["cut"] is False
