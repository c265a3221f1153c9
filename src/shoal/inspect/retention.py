"""Which jobs a store keeps, and how the others are pruned.

A job that has ended keeps its queue, dead letters, history and what it has seen, so that somebody can look at it or go
on. After a while nobody does, and it is pruned: what is left is its past, which is how it ended and a short history.
Jobs with dead letters are kept for longer, as somebody may still want to look into those. Runs of a schedule go by the
number that the schedule keeps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.history_recorder import key_of, short_history
from shoal.engine.recent import recent_key
from shoal.errors import ShoalError
from shoal.events import event
from shoal.frontier.protocol import Frontier, Notes
from shoal.frontier.values import DeadFilter, Job
from shoal.inspect.actions import drop_letters
from shoal.jobs.hook_note import hook_key, hook_lead_key
from shoal.jobs.leader import feeder_key
from shoal.jobs.schedule import Schedules, old_runs, schedules
from shoal.jobs.source_runs import sources_key
from shoal.jobs.state import state_key
from shoal.jobs.trouble import trouble_key
from shoal.jobs.worker_status import status_of
from shoal.model import REJECTED
from shoal.settings import Settings

log = logging.getLogger("shoal")

DAY = 86_400.0
EVERY = 3_600.0  # seconds
SECONDS = 1.0  # that pruning may take at the end of a crawl, or in one round of a coordinator
_LETTERS = 1_000  # that are dropped at once


class Retention(Struct, frozen=True):
    """How many ended jobs are kept, and for how long (seconds after their end). None: no limit."""

    jobs: int | None = None
    age: float | None = None
    dead_jobs: int | None = None  # those with dead letters
    dead_age: float | None = None
    letter_age: float | None = None  # of dead letters, after the page was given up


def retention_of(settings: Settings) -> Retention:
    return Retention(
        settings.keep_jobs or None,
        settings.keep_days * DAY or None,
        settings.keep_dead_jobs or None,
        settings.keep_dead_days * DAY or None,
        settings.keep_letter_days * DAY or None,
    )


def ended_at(job: Job) -> float:
    return job.finished_at or job.created_at


def may_go(job: Job) -> bool:
    """A finished job that has work again is about to run."""
    return job.state == "cancelled" or (job.state == "finished" and job.exhausted)


def outdated(jobs: Iterable[Job], retention: Retention, known: Schedules, now: float) -> list[Job]:
    """The jobs to prune, oldest first."""
    ended = sorted((job for job in jobs if may_go(job)), key=ended_at)
    runs: set[str] = set()
    old: set[str] = set()
    for schedule in known.values():
        old.update(old_runs(schedule, ended))
        runs.update(job.spec.name for job in ended if schedule.is_run(job.spec.name))
    others = [job for job in ended if job.spec.name not in runs]
    clean = [job for job in others if not _has_letters(job)]
    dead = [job for job in others if _has_letters(job)]
    old.update(_too_many_or_old(clean, retention.jobs, retention.age, now))
    old.update(_too_many_or_old(dead, retention.dead_jobs, retention.dead_age, now))
    return [job for job in ended if job.spec.name in old]


def _has_letters(job: Job) -> bool:
    return bool(job.counters.dead or job.counters.rejected)


def _too_many_or_old(ended: Sequence[Job], most: int | None, age: float | None, now: float) -> set[str]:
    too_many = ended[: max(0, len(ended) - most)] if most is not None else ()
    too_old = [job for job in ended if now - ended_at(job) > age] if age is not None else ()
    return {job.spec.name for job in (*too_many, *too_old)}


async def find_outdated(
    frontier: Frontier,
    retention: Retention,
    *,
    jobs: Iterable[Job] | None = None,
    spared: Collection[str] = (),
) -> list[Job]:
    """Leaves out jobs that a worker still serves: it remembers their links, and would skip them in a new job of the
    same name."""
    jobs = await frontier.jobs() if jobs is None else jobs
    old = outdated(jobs, retention, await schedules(frontier), await frontier.now())
    old = [job for job in old if job.spec.name not in spared]
    statuses = [status_of(worker) for worker in await frontier.workers()] if old else []
    return [job for job in old if not any(status.serves(job.spec.name) for status in statuses)]


async def prune(frontier: Frontier, jobs: Iterable[Job], seconds: float = float("inf")) -> list[Job]:
    """Returns the jobs that were pruned. When the time is up, the rest waits for the next call."""
    until, gone = monotonic() + seconds, []
    for job in jobs:
        if monotonic() > until:
            break
        name = job.spec.name
        if await frontier.prune_job(job, await short_history(frontier, job)):
            await forget_notes(frontier, name)
            gone.append(job)
            c = job.counters
            event("job_pruned", job=name, done=c.done, dead=c.dead)
    return gone


async def prune_letters(frontier: Frontier, retention: Retention) -> int:
    """Drops dead letters and rejected items that are too old, a batch at a time. Pages stay seen, and counted as dead.
    Returns how many."""
    if retention.letter_age is None:
        return 0
    pages = DeadFilter(until=await frontier.now() - retention.letter_age, limit=_LETTERS)
    dropped = 0
    for old in (pages, replace(pages, kind=REJECTED)):
        while count := await drop_letters(frontier, old, "retention"):
            dropped += count
            if count < _LETTERS:
                break
    return dropped


async def tidy(frontier: Frontier, settings: Settings, *, spared: Collection[str] = ()) -> None:
    """Prunes what is due, for a short time. Errors of the store are only logged."""
    try:
        await prune(frontier, await find_outdated(frontier, retention_of(settings), spared=spared), SECONDS)
        await prune_letters(frontier, retention_of(settings))
    except ShoalError as error:
        log.debug("nothing is pruned: %s", error)


@asynccontextmanager
async def tidying(
    frontier: Frontier, settings: Settings, *, spared: Collection[str] = (), every: float = EVERY
) -> AsyncIterator[None]:
    """Prunes what is due every hour while the block runs: a crawl whose pages are visited again need not end for
    months. In a fleet the coordinator does."""

    async def go_on() -> None:
        while True:
            await asyncio.sleep(every)
            await tidy(frontier, settings, spared=spared)

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def forget_notes(frontier: Notes, job: str) -> None:
    """Drops the notes that belong to a job."""
    from shoal.hosts.session_notes import (
        session_prefixes,
    )  # loads the HTTP client, which `submit` does not need

    keys = (key_of, recent_key, feeder_key, trouble_key, state_key, hook_key, hook_lead_key, sources_key)
    for key in [key(job) for key in keys]:
        await frontier.drop_note(key)
    for prefix in session_prefixes(job):
        await frontier.drop_notes(prefix)
