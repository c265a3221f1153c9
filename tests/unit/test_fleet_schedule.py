"""Recurring jobs: when a run is due, what it is called, and that none is begun twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Counters, Cursor, Job, JobSpec, JobState
from shoal.jobs.note import note_of, settings_of, write_note
from shoal.jobs.schedule import (
    KEY,
    Schedule,
    change_schedules,
    old_runs,
    run_output,
    schedules,
    start_due_runs,
)
from shoal.settings import Settings
from shoal.testing import ManualClock

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()
SPEC = JobSpec(
    "books", spider="books", settings=write_note(b"/rows/books.jsonl", Settings(rate=5.0), "coordinator")
)
HOURLY = Schedule(SPEC, NOON, every=3600)
NOBODY: frozenset[str] = frozenset()


def test_it_is_due_at_its_time_and_not_while_the_last_run_is_open() -> None:
    assert not HOURLY.due(NOON - 1, NOBODY)
    assert HOURLY.due(NOON, NOBODY)
    again = HOURLY.started("books-1", NOON)
    assert (again.next_at, again.last_run) == (NOON + 3600, "books-1")
    assert not again.due(NOON + 3600, frozenset({"books-1"}))
    assert again.due(NOON + 3600, NOBODY)
    assert not replace(again, paused=True).due(NOON + 3600, NOBODY)


def test_missed_times_are_made_up_for_by_one_run() -> None:
    late = NOON + 5 * 3600 + 10
    assert HOURLY.due(late, NOBODY)
    assert HOURLY.started("run", late).next_at == NOON + 6 * 3600
    daily = Schedule(SPEC, NOON, cron="0 12 * * *")
    assert daily.started("run", NOON + 3 * 86_400 + 60).next_at == NOON + 4 * 86_400


def test_a_run_is_a_job_of_its_own_with_a_file_of_its_own() -> None:
    run = replace(HOURLY, every=0.0, cron="0 * * * *").run()
    assert run.name == "books-20261115-1200"
    assert note_of(run).output == b"/rows/books-20261115-1200.jsonl"
    assert note_of(run).fed_by == "coordinator"
    settings = settings_of(run)
    assert settings is not None
    assert settings.rate == 5.0
    assert HOURLY.run().name == "books-20261115-120000"


@pytest.mark.parametrize("place", ["", "postgresql://db.example/shop"])
def test_a_database_is_shared_by_all_runs(place: str) -> None:
    assert run_output(place, "20261115-1200") == place


def test_the_store_remembers_the_latest_runs_only() -> None:
    def job(name: str, state: JobState, at: float) -> Job:
        return Job(replace(SPEC, name=name), state, Counters(), NOON + at)

    jobs = [
        job("books-20261115-1200", "finished", 1),
        job("books-20261115-1300", "cancelled", 2),
        job("books-20261115-1400", "paused", 3),
        job("books-20261115-1500", "finished", 4),
        job("books-20261115-1600", "running", 5),
        job("books-new-20261115-1200", "finished", 0),
        job("books", "finished", 0),
    ]
    assert old_runs(replace(HOURLY, keep=2), jobs) == ["books-20261115-1200"]
    assert old_runs(replace(HOURLY, keep=1), jobs) == ["books-20261115-1200", "books-20261115-1300"]
    assert old_runs(HOURLY, jobs) == []


async def home(clock: ManualClock, *kept: Schedule) -> MemoryFrontier:
    frontier = MemoryFrontier(clock)
    await change_schedules(frontier, lambda _: {one.name: one for one in kept})
    return frontier


async def test_due_runs_are_started_once() -> None:
    clock = ManualClock()
    frontier = await home(clock)
    now = await frontier.now()
    await change_schedules(frontier, lambda _: {"books": replace(HOURLY, next_at=now)})
    [run] = await start_due_runs(frontier, NOBODY)
    assert await start_due_runs(frontier, NOBODY) == []
    assert [job.spec.name for job in await frontier.jobs()] == [run]
    clock.advance(3600)
    assert await start_due_runs(frontier, frozenset({run})) == []
    [second] = await start_due_runs(frontier, NOBODY)
    assert second != run


async def test_a_leader_that_dies_between_job_and_note_is_made_up_for_by_the_next() -> None:
    clock = ManualClock()
    frontier = await home(clock)
    now = await frontier.now()
    due = replace(HOURLY, next_at=now)
    await change_schedules(frontier, lambda _: {"books": due})
    await frontier.open_job(due.run())  # … and died
    await frontier.add(due.run().name, [], Cursor(fed_all=True))
    await frontier.set_state(due.run().name, "finished")
    [run] = await start_due_runs(frontier, NOBODY)
    assert run == due.run().name
    [job] = await frontier.jobs()
    assert job.state == "finished", "it ran, and does not run again"
    assert (await schedules(frontier))["books"].next_at == now + 3600


async def test_two_who_change_schedules_at_once_both_succeed() -> None:
    frontier = MemoryFrontier()
    other = Schedule(replace(SPEC, name="other"), NOON, every=60)
    await change_schedules(frontier, lambda known: {**known, "other": other})
    note = await frontier.note(KEY)
    assert note is not None
    set_note, raced = frontier.set_note, []

    async def racing(key: str, value: bytes, version: int) -> bool:
        if not raced:
            raced.append(True)
            await set_note(key, note.value, version)  # somebody else writes first
        return await set_note(key, value, version)

    frontier.set_note = racing  # type: ignore[method-assign]
    await change_schedules(frontier, lambda known: {**known, "books": HOURLY})
    assert set(await schedules(frontier)) == {"books", "other"}
