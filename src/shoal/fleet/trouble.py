"""A job that cannot go on without a person: paused, with the reason where every machine can read it."""

from __future__ import annotations

import logging

from shoal.errors import HandlerMissing, ShoalError
from shoal.frontier.protocol import Frontier, Job
from shoal.observe.words import plural
from shoal.telling import event

log = logging.getLogger("shoal")

_LONGEST = 500  # characters


def trouble_key(job: str) -> str:
    return f"trouble/{job}"


async def report_trouble(frontier: Frontier, job: str, sentence: str) -> None:
    event("job_in_trouble", job=job, reason=sentence)
    await pause_in_trouble(frontier, job, sentence)


async def pause_in_trouble(frontier: Frontier, job: str, sentence: str) -> None:
    """Where the one who can help hears of it anyway."""
    try:
        await _write(frontier, job, sentence)
        await frontier.set_state(job, "paused")
    except ShoalError as error:
        log.warning("job %s could not be paused: %s", job, error)


async def with_pages_left(frontier: Frontier, job: str, error: HandlerMissing) -> str:
    """The sentence, with how many pages the job still has; which of them are for that handler, no counter tells."""
    found = await frontier.job(job)
    left = found.counters.open if found is not None else 0
    return f"{error}; {plural(left, 'page')} of the job are left, and none of them is lost"


async def forget_trouble(frontier: Frontier, job: str) -> None:
    if await frontier.note(trouble_key(job)) is not None:
        await _write(frontier, job, "")


async def _write(frontier: Frontier, job: str, sentence: str) -> None:
    value = sentence[:_LONGEST].encode(errors="replace")
    note = await frontier.note(trouble_key(job))
    await frontier.set_note(trouble_key(job), value, note.version if note is not None else 0)


async def trouble_of(frontier: Frontier, job: Job) -> str:
    """Why a job is paused, if it was not by a person."""
    note = await frontier.note(trouble_key(job.spec.name)) if job.state == "paused" else None
    return note.value.decode() if note is not None else ""
