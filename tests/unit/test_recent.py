"""The newest rows and pages of a job: small, merged from all its processes, and of this job only."""

from __future__ import annotations

import json

import pytest

from shoal.engine.recent import (
    MOST_ROW,
    PAGES_KEPT,
    ROWS_KEPT,
    RecentRecorder,
    read_recent,
    recent_key,
    short_row,
)
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import JobSpec
from shoal.model import Dead, Done, Failure, Lease, Moved, Retry, Row, Settlement, Task, Verdict


class World:
    def __init__(self) -> None:
        self.frontier = MemoryFrontier()
        self.time = 0.0

    def recorder(self) -> RecentRecorder:
        return RecentRecorder(self.frontier, "shop", self.now, "first")

    def now(self) -> float:
        self.time += 1.0
        return self.time

    async def made_at(self) -> float:
        await self.frontier.open_job(JobSpec("shop", "shop"))
        job = await self.frontier.job("shop")
        assert job is not None
        return job.created_at


@pytest.fixture
def world() -> World:
    return World()


def page(
    n: int = 0, verdict: Verdict | None = None, rows: tuple[Row, ...] = (), **more: object
) -> Settlement:
    task = Task(f"http://a.test/{n}", "", host="a.test", id=n)
    return Settlement(Lease(n, task, 0.0, 0), verdict or Done(), rows=rows, **more)  # type: ignore[arg-type]


def row(**fields: object) -> Row:
    return Row(json.dumps(fields).encode() + b"\n", table="book")


FAILED = Failure("timeout", "too slow", elapsed=2.0)


async def test_how_pages_ended(world: World) -> None:
    made_at, recorder = await world.made_at(), world.recorder()
    recorder.add(page(1, Done(), (row(n=1), row(n=2)), status=200, elapsed=0.5))
    recorder.add(page(2, Dead(FAILED)))
    recorder.add(page(3, Retry(1.0, FAILED)))
    recorder.add(page(4, Retry(1.0, FAILED, counts=False)))  # it was not fetched
    recorder.add(page(5, Moved(Task("http://a.test/1", ""))))
    await recorder.write(made_at)
    found = await read_recent(world.frontier, "shop")
    assert [
        (one.url[-1], one.ending, one.status, one.kind, one.seconds, one.items) for one in found.pages
    ] == [
        ("1", "done", 200, "", 0.5, 2),
        ("2", "dead", 0, "timeout", 2.0, 0),
        ("3", "retry", 0, "timeout", 2.0, 0),
        ("5", "redirect", 0, "", 0.0, 0),
    ]
    assert {one.handler for one in found.pages} == {"first"}
    assert [json.loads(one.data) for one in found.rows] == [{"n": 1}, {"n": 2}]


async def test_the_newest_of_all_processes(world: World) -> None:
    made_at, one, other = await world.made_at(), world.recorder(), world.recorder()
    for n in range(40):
        (one if n % 2 else other).add(page(n, rows=(row(n=n),)))
    for recorder in (one, other, one):
        await recorder.write(made_at)
    found = await read_recent(world.frontier, "shop")
    assert [json.loads(entry.data)["n"] for entry in found.rows] == list(range(40 - ROWS_KEPT, 40))
    assert [entry.url for entry in found.pages] == [f"http://a.test/{n}" for n in range(40 - PAGES_KEPT, 40)]


async def test_equal_rows_are_rows_but_a_key_is_written_once(world: World) -> None:
    made_at, recorder = await world.made_at(), world.recorder()
    recorder.add(page(1, rows=(row(n=1), row(n=1))))
    for n in (2, 3):
        recorder.add(page(n, rows=(Row(b"{}\n", key=7, table="book"),)))
        await recorder.write(made_at)
    found = await read_recent(world.frontier, "shop")
    assert [(entry.data, entry.url[-1]) for entry in found.rows] == [
        (b'{"n": 1}', "1"),
        (b'{"n": 1}', "1"),
        (b"{}", "2"),
    ]


async def test_another_job_of_that_name_begins_anew(world: World) -> None:
    made_at, recorder = await world.made_at(), world.recorder()
    recorder.add(page(1, rows=(row(n=1),)))
    await recorder.write(made_at)
    await world.frontier.drop_job("shop")
    assert (await read_recent(world.frontier, "shop")).rows == ()
    again = await world.made_at()
    assert again != made_at
    assert (await read_recent(world.frontier, "shop")).rows == ()
    recorder.add(page(2, rows=(row(n=2),)))
    await recorder.write(made_at)  # a worker that serves the former one
    assert (await read_recent(world.frontier, "shop")).rows == ()


async def test_what_could_not_be_written_is_written_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_at, recorder = await world.made_at(), world.recorder()

    async def refuse(*_: object) -> bool:
        return False

    recorder.add(page(1, rows=(row(n=1),)))
    with monkeypatch.context() as context:
        context.setattr(world.frontier, "set_note", refuse)
        await recorder.write(made_at)
    assert recorder.is_due
    recorder.add(page(2, rows=(row(n=2),)))
    await recorder.write(made_at)
    assert not recorder.is_due
    assert [json.loads(one.data)["n"] for one in (await read_recent(world.frontier, "shop")).rows] == [1, 2]


async def test_the_note_stays_small(world: World) -> None:
    made_at, recorder = await world.made_at(), world.recorder()
    for n in range(30):
        recorder.add(
            page(n, rows=(row(text="x" * 1_000_000), row(text="\x00" * 200_000), row(a=["é" * 99] * 999)))
        )
    await recorder.write(made_at)
    note = await world.frontier.note(recent_key("shop"))
    assert note is not None
    assert len(note.value) < ROWS_KEPT * (MOST_ROW + 100) + PAGES_KEPT * 200


@pytest.mark.parametrize(
    "value",
    [
        {"text": "x" * 100_000, "n": 1},
        {f"field {n}": "x" * 50 for n in range(500)},
        {"deep": [[[[["x" * 99] * 99] * 9] * 9] * 9]},
        ["\x00" * 5_000] * 10,
        "\x00" * 50_000,
        {"\x00" * 5_000 + str(n): n for n in range(30)},
    ],
)
def test_a_row_is_cut_where_it_is_long(value: object) -> None:
    data = json.dumps(value).encode() + b"\n"
    short = short_row(data, len(data))
    assert len(short) <= MOST_ROW
    cut = json.loads(short)
    if isinstance(value, dict) and "n" in value:
        assert cut["n"] == 1
        assert cut["text"] == "x" * 400 + "…"


def test_a_short_row_is_kept_as_it_is() -> None:
    data = json.dumps({"a": [1, {"b": "é" * 100}]}).encode() + b"\n"
    assert short_row(data, len(data)) == data[:-1]
