"""Jobs that cannot go on without a person: they are paused, and the reason is stored for all machines."""

from __future__ import annotations

import logging
from collections.abc import Callable

from shoal.errors import HandlerMissing, ShoalError
from shoal.events import event
from shoal.frontier.protocol import Frontier, Jobs, Notes
from shoal.frontier.values import Job, JobSpec
from shoal.text import command, without_secrets
from shoal.text.humanize import plural

log = logging.getLogger("shoal")

_LONGEST = 500  # characters


def trouble_key(job: str) -> str:
    return f"trouble/{job}"


async def report_trouble(frontier: Frontier, job: str, sentence: str) -> None:
    event("job_in_trouble", job=job, reason=sentence)
    await pause_in_trouble(frontier, job, sentence)


async def pause_in_trouble(frontier: Frontier, job: str, sentence: str) -> None:
    """Pauses a job without an event: the caller raises an error that says why."""
    try:
        await _write(frontier, job, sentence)
        await frontier.set_state(job, "paused")
    except ShoalError as error:
        log.warning("job %s could not be paused: %s", job, error)


async def with_pages_left(frontier: Jobs, job: str, error: HandlerMissing) -> str:
    """The error, and how many pages the job still has. Pages are not counted by handler."""
    found = await frontier.job(job)
    left = found.counters.open if found is not None else 0
    return f"{error}; of all handlers together {plural(left, 'page')} are left, and none of them is lost"


async def check_all_done(frontier: Frontier, mine: Callable[[JobSpec], bool]) -> None:
    """Raises an error if none of these jobs runs and one of them cannot go on. While one runs, other workers work on
    it, or this process was told to stop."""
    jobs = [job for job in await frontier.jobs() if mine(job.spec)]
    if any(job.state == "running" for job in jobs):
        return
    troubles = [(job.spec.name, said) for job in jobs if (said := await trouble_of(frontier, job))]
    if troubles:
        (name, said), more = troubles[0], len(troubles) - 1
        others = f" (and {plural(more, 'other job')})" if more else ""
        raise ShoalError(
            f"not all is done: job {name} is paused{others}: {said}; put it right and run: {command(f'resume {name}')}"
        )


async def forget_trouble(frontier: Notes, job: str) -> None:
    if await frontier.note(trouble_key(job)) is not None:
        await _write(frontier, job, "")


async def _write(frontier: Notes, job: str, sentence: str) -> None:
    value = without_secrets(sentence)[:_LONGEST].encode(errors="replace")
    note = await frontier.note(trouble_key(job))
    await frontier.set_note(trouble_key(job), value, note.version if note is not None else 0)


async def trouble_of(frontier: Notes, job: Job) -> str:
    """Why a job is paused, if no person paused it."""
    note = await frontier.note(trouble_key(job.spec.name)) if job.state == "paused" else None
    return note.value.decode() if note is not None else ""
