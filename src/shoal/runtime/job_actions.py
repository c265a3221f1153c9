"""What a person may decide about jobs and schedules. Each decision answers with a sentence that says what it did.

A job may have the name of a schedule. Then a decision is about both; but if the job is in no state for it, such as one
that has ended, about the schedule only.
"""

from __future__ import annotations

from msgspec.structs import replace

from shoal.errors import UsageError
from shoal.frontier.protocol import Frontier, Jobs, Notes
from shoal.frontier.values import Job, JobState
from shoal.inspect.event_log import tell
from shoal.inspect.job import unknown_job
from shoal.jobs.schedule import change_schedules, schedules
from shoal.jobs.trouble import forget_trouble


async def pause(frontier: Frontier, name: str) -> str:
    said = ""
    if await _change_schedule(frontier, name, paused=True):
        await tell(frontier, "schedule_paused", schedule=name)
        said = f"schedule {name} is paused: it starts no more runs"
    job = await _job_beside(said, frontier, name, "running", done="paused")
    if job is None:
        return said
    await frontier.set_state(name, "paused")
    await tell(frontier, "job_paused", job=name)
    left = job.counters.leased
    return _both(said, f"job {name} is paused" + (f"; {left:,} in flight are finished" if left else ""))


async def resume(frontier: Frontier, name: str) -> str:
    said = ""
    if await _change_schedule(frontier, name, paused=False):
        await tell(frontier, "schedule_resumed", schedule=name)
        said = f"schedule {name} goes on"
    if await _job_beside(said, frontier, name, "paused", done="running") is None:
        return said
    await forget_trouble(frontier, name)
    await frontier.set_state(name, "running")
    await tell(frontier, "job_resumed", job=name)
    return _both(said, f"job {name} goes on")


async def cancel(frontier: Frontier, name: str) -> str:
    said = ""
    if name in await schedules(frontier):
        await change_schedules(frontier, lambda known: {k: s for k, s in known.items() if k != name})
        await tell(frontier, "schedule_removed", schedule=name)
        said = f"schedule {name} is taken back; a run that has begun goes on"
    job = await _job_beside(said, frontier, name, "running", "paused", done="cancelled")
    if job is None:
        return said
    await frontier.set_state(name, "cancelled")
    left = job.counters.pending + job.counters.delayed
    await tell(frontier, "job_cancelled", job=name, left=left)
    then = "submit it again to go on, or with --fresh to start over"
    return _both(said, f"job {name} is cancelled, {left:,} pages were left; {then}")


async def forget_job(frontier: Frontier, name: str) -> str:
    from shoal.runtime.submit import forget

    if await frontier.job(name) is None and await frontier.past_job(name) is not None:
        await frontier.drop_job(name)
        return f"what was left of job {name}, which was pruned, is forgotten; its rows stay"
    await _job(frontier, name, "running", "paused", "finished", "cancelled", done="")
    await forget(frontier, name)
    await tell(frontier, "job_forgotten", job=name)
    return f"job {name} is forgotten, with its queue, its dead letters and what it has seen; its rows stay"


async def _change_schedule(frontier: Notes, name: str, *, paused: bool) -> bool:
    if name not in await schedules(frontier):
        return False
    await change_schedules(
        frontier, lambda known: {k: replace(s, paused=paused) if k == name else s for k, s in known.items()}
    )
    return True


async def _job_beside(
    schedule: str, frontier: Frontier, name: str, *states: JobState, done: str
) -> Job | None:
    """The job, which must be in one of these states. If something was done to a schedule of that name, as `schedule`
    says, there may be no such job: None."""
    if not schedule:
        return await _job(frontier, name, *states, done=done)
    job = await frontier.job(name)
    return job if job is not None and job.state in states else None


def _both(of_schedule: str, of_job: str) -> str:
    return f"{of_schedule}; {of_job}" if of_schedule else of_job


async def _job(frontier: Jobs, name: str, *states: JobState, done: str) -> Job:
    """The job, which must be in one of these states."""
    job = await frontier.job(name)
    if job is None:
        raise await unknown_job(frontier, name, "job or schedule")
    if job.state in states:
        return job
    if job.state == done:
        raise UsageError(f"job {name} is {done} already")
    hint = "; submit it again to go on" if job.state == "cancelled" else ""
    raise UsageError(f"job {name} is {job.state}, not {' or '.join(states)}{hint}")
