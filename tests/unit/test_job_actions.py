"""What is paused, resumed and cancelled by a name: a job, a schedule, or both."""

from __future__ import annotations

import pytest

from shoal.errors import UsageError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import JobSpec
from shoal.jobs.schedule import Schedule, change_schedules, schedules
from shoal.runtime.job_actions import cancel, pause, resume
from shoal.testing.conformance.tools import make_task

RUN = "prices-20261115-1200"


async def store(*jobs: str, scheduled: bool = True) -> MemoryFrontier:
    frontier = MemoryFrontier()
    for name in jobs:
        await frontier.open_job(JobSpec(name))
        await frontier.add(name, [make_task("http://shop.test/")])
    if scheduled:
        schedule = Schedule(JobSpec("prices"), next_at=0.0, every=3600, last_run=RUN)
        await change_schedules(frontier, lambda known: {**known, "prices": schedule})
    return frontier


async def state(frontier: MemoryFrontier, name: str = "prices") -> str:
    job = await frontier.job(name)
    assert job is not None
    return job.state


async def test_a_job_that_has_the_name_of_a_schedule_is_meant_as_well() -> None:
    frontier = await store("prices", RUN)
    said = await pause(frontier, "prices")
    assert said == "schedule prices is paused: it starts no more runs; job prices is paused"
    assert ((await schedules(frontier))["prices"].paused, await state(frontier)) == (True, "paused")
    assert await resume(frontier, "prices") == "schedule prices goes on; job prices goes on"
    assert ((await schedules(frontier))["prices"].paused, await state(frontier)) == (False, "running")
    said = await cancel(frontier, "prices")
    assert said == (
        "schedule prices is taken back; a run that has begun goes on; job prices is cancelled, 1 pages were left;"
        " submit it again to go on, or with --fresh to start over"
    )
    assert (await schedules(frontier), await state(frontier)) == ({}, "cancelled")
    assert await state(frontier, RUN) == "running", "a run has a name of its own"


async def test_a_schedule_is_paused_if_the_job_of_its_name_is_in_no_state_for_it() -> None:
    frontier = await store("prices")
    await frontier.set_state("prices", "cancelled")
    assert await pause(frontier, "prices") == "schedule prices is paused: it starts no more runs"
    assert await resume(frontier, "prices") == "schedule prices goes on"
    assert await state(frontier) == "cancelled"
    await frontier.set_state("prices", "paused")
    assert await pause(frontier, "prices") == "schedule prices is paused: it starts no more runs"
    assert "job prices goes on" in await resume(frontier, "prices")


async def test_a_schedule_alone() -> None:
    frontier = await store(RUN)
    assert await pause(frontier, "prices") == "schedule prices is paused: it starts no more runs"
    assert await resume(frontier, "prices") == "schedule prices goes on"
    assert await cancel(frontier, "prices") == "schedule prices is taken back; a run that has begun goes on"
    assert await state(frontier, RUN) == "running"


async def test_a_job_alone_must_be_in_a_state_for_it() -> None:
    frontier = await store("prices", scheduled=False)
    assert await pause(frontier, "prices") == "job prices is paused"
    with pytest.raises(UsageError, match="job prices is paused already"):
        await pause(frontier, "prices")
    assert await resume(frontier, "prices") == "job prices goes on"
    await frontier.set_state("prices", "finished")
    with pytest.raises(UsageError, match="job prices is finished, not running"):
        await pause(frontier, "prices")
    with pytest.raises(UsageError, match="none"):
        await cancel(frontier, "none")
