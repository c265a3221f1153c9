"""Checks of a job's output: whether its rows may be written there, and which job owns a result file."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from shoal.errors import OutputTaken, SinkAway, SinkError
from shoal.frontier.protocol import Frontier, Jobs, Queue
from shoal.frontier.values import Job
from shoal.jobs.note import note_of
from shoal.runtime.job_plan import JobPlan, spec_of
from shoal.sink import (
    Output,
    describe,
    describe_noted,
    is_database,
    lines_of,
    local_files,
    make_journal,
    output_key,
)
from shoal.sink.journals import LocalJournal, Pausing, Several
from shoal.sink.jsonl import describe_existing
from shoal.sink.objects.in_objects import claim_objects, object_journals
from shoal.sink.objects.outage import Outage
from shoal.sink.outputs import read_output
from shoal.sink.ownership import FileClaim, Owner, claim
from shoal.spider.schemas import columns_of
from shoal.text import command
from shoal.text.humanize import plural

PATIENCE = 300.0  # seconds that an object store may be away at the end of a crawl

_LOOK = 0.1


async def check_output(plan: JobPlan, frontier: Frontier, known: Job | None) -> None:
    """Raises an error if the rows of a job, which is not made yet, may not be written to its output."""
    await check_shared(plan, frontier)
    if known is not None and not plan.fresh:
        _check_archive(plan, known)
    named = known is not None and note_of(known.spec).output == output_key(plan.output)
    if is_database(plan.output):
        if known is not None and not named and not plan.fresh:
            _check_elsewhere(known)
        return
    journal = _journal(plan)
    if journal is None:
        return
    committed = await frontier.journal_length(plan.job, journal.key) if known is not None else None
    if known is not None and not plan.fresh and isinstance(journal, Several) and not _are_noted(plan, known):
        _check_elsewhere(known)
    if committed is None and not plan.fresh and not named:
        if known is not None:
            _check_elsewhere(known)
        await _check_existing(plan, frontier)
    try:
        # What a crash left is cut by the next write, inside its transaction: here another process of the same job may
        # be writing, and a cut would take its rows.
        journal.check(0 if plan.fresh else committed or 0)
    finally:
        journal.close()


def _journal(plan: JobPlan) -> LocalJournal | None:
    """The journal of the files on this machine, if there are any."""
    journal = make_journal(plan.output, job=plan.job, settings=plan.settings, columns=columns_of(plan.spider))
    return journal if isinstance(journal, LocalJournal) else None


async def _check_existing(plan: JobPlan, frontier: Jobs) -> None:
    for path in local_files(plan.output):
        if existing := describe_existing(path):
            past = await frontier.past_job(plan.job)
            if past is not None and note_of(past.job.spec).output == output_key(plan.output):
                raise OutputTaken(
                    f"{existing}, all from this job before it was pruned: what it had seen is forgotten, so its pages"
                    " would be fetched and written again; choose another file with -o, or replace it with --fresh"
                )
            raise OutputTaken(
                f"{existing}, and not from this job: choose another file with -o, or replace it with --fresh"
            )


async def check_shared(plan: JobPlan, frontier: Jobs, mine: Job | None = None) -> None:
    """Refuses a file that another job of this store writes to. `mine`: the job, if it is made already; of two that
    were made at the same time the older one keeps the file."""
    if plan.output is None or is_database(plan.output):
        return
    for job in await frontier.jobs():
        other = job.spec.name
        if other == plan.job or job.state not in ("running", "paused"):
            continue
        shared = _shared(job, plan)
        if shared and (mine is None or (job.created_at, other) < (mine.created_at, plan.job)):
            raise OutputTaken(
                f"job {other}, which is not finished, writes to {shared}: choose another file with -o, or end "
                f"that job with {command(f'cancel {other}')}"
            )


def _shared(job: Job, plan: JobPlan) -> str:
    """A file that both write to. Jobs of a fleet with a server note a path as it was given: it is relative to each
    worker's folder."""
    theirs = {place.target for place in read_output(lines_of(note_of(job.spec).output), stored=True)}
    for place in read_output(plan.output):
        if place.kind in ("database", "archive"):  # many jobs may have the same one
            continue
        if not theirs.isdisjoint({place.target, os.path.abspath(place.target)}):
            return place.target
    return ""


def claim_output(plan: JobPlan, job: Job) -> None:
    """Makes a file on this machine the property of the job."""
    # That rows of the job are in these files, and in no others, was checked before.
    committed = 0 if job.counters.items else None
    asked = FileClaim(Owner(plan.job, job.created_at), committed)
    journal = _journal(plan)
    files = journal.files(plan.job) if isinstance(journal, Several) else local_files(plan.output)
    for path in files:
        claim(path, asked, replace_any=plan.fresh)
    for objects in object_journals(journal):
        if isinstance(objects, LocalJournal):
            claim(objects.path, asked, replace_any=plan.fresh)
    claim_objects(journal, asked, replace_any=plan.fresh)


async def file_claim(frontier: Queue, job: Job, key: str) -> FileClaim:
    name = job.spec.name
    committed = await frontier.journal_length(name, key)
    return FileClaim(Owner(name, job.created_at), committed, replace=note_of(job.spec).fresh)


def _check_elsewhere(known: Job) -> None:
    if known.counters.items:
        raise SinkError(
            f"job {known.spec.name} has its {plural(known.counters.items, 'row')} elsewhere: go on with "
            f"{_asked(note_of(known.spec).output)}, or start again with --fresh"
        )


def _asked(note: bytes) -> str:
    """The options that name these outputs, as short as they can be typed here."""
    here = os.getcwd()
    options = []
    for place in read_output(lines_of(note), stored=True):
        if place.is_here and os.path.commonpath([here, os.path.abspath(place.target)]) == here:
            place = replace(place, target=os.path.relpath(place.target, here))
        if place.kind != "archive":
            options.append(f"-o {shlex.quote(describe(place.text))}")
    return " ".join(options) or "-o -"


def _are_noted(plan: JobPlan, known: Job) -> bool:
    """Whether several outputs are those of the job. Their log does not tell: it is found by the job's name."""
    return _names(plan.output) == _names(lines_of(note_of(known.spec).output))


def _names(output: Output) -> set[str]:
    """The outputs in any order, as seen from the first of them: with a server as store, folders may be moved."""
    places = read_output(lines_of(output_key(output)), stored=True)
    folder = next((place.folder for place in places if place.is_here), Path())
    return {
        replace(place, target=os.path.relpath(place.target, folder)).text if place.is_here else place.text
        for place in places
    }


def _check_archive(plan: JobPlan, known: Job) -> None:
    """Refuses another archive than the job has, which would then lack pages."""
    before, after = _archive_in(lines_of(note_of(known.spec).output)), _archive_in(plan.output)
    if before == after or not (known.counters.items or known.counters.done):
        return
    begun = (
        f"with an archive in {before}: name it again with --archive"
        if before
        else "without an archive: go on without"
    )
    raise SinkError(f"job {known.spec.name} was begun {begun}, or start again with --fresh")


def _archive_in(output: Output) -> str:
    return next(
        (
            os.path.abspath(place.target) if place.is_here else place.target
            for place in read_output(output, stored=True)
            if place.kind == "archive"
        ),
        "",
    )


async def trim_output(
    plan: JobPlan, frontier: Queue, job: Job, stopping: Callable[[], bool] = lambda: False
) -> None:
    """Removes what a crash left at the end of a file, if no later write did, and makes the file what its readers
    expect. No page is leased, so no process writes. Waits for an object store that is away, unless it is `stopping`."""
    journal = None if plan.output is None or job.counters.leased else _journal(plan)
    if journal is None:
        return
    try:
        committed = await frontier.journal_length(plan.job, journal.key) or 0
        journal.owner = Owner(plan.job, job.created_at)
        await asyncio.to_thread(journal.append, committed, ())
        await _finish_patiently(journal, committed, stopping)
    finally:
        journal.close()


async def _finish_patiently(journal: LocalJournal, committed: int, stopping: Callable[[], bool]) -> None:
    outage, until = Outage(), time.monotonic() + PATIENCE
    while True:
        try:
            await asyncio.to_thread(journal.finish, committed)
        except SinkAway as error:
            again = time.monotonic() + outage.pause(error)
            if again > until or stopping():
                raise
            while time.monotonic() < again and not stopping():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)
        else:
            outage.end()
            return


async def pause_output(plan: JobPlan, frontier: Queue) -> None:
    """Shows people what a run has written that ended before its job. Another process may be writing."""
    journal = None if plan.output is None else _journal(plan)
    if journal is None:
        return
    try:
        committed = await frontier.journal_length(plan.job, journal.key)
        if committed and isinstance(journal, Pausing):
            await asyncio.to_thread(journal.pause, committed)
    finally:
        journal.close()


def check_same_output(plan: JobPlan, known: Job) -> None:
    """Refuses another output for a job that has one. It may change while no row can have been written."""
    before, after = note_of(known.spec).output, note_of(spec_of(plan)).output
    if before == after or not before:
        return
    _check_archive(plan, known)
    name, c = known.spec.name, known.counters
    place = describe_noted(before)
    said = f"job {name} writes its rows to {place}, not to {describe(plan.output)}"
    if c.items:
        raise OutputTaken(
            f"{said}, and has {plural(c.items, 'row')} there: submit it with -o {shlex.quote(place)}, under another"
            " name (--job), or start again with --fresh"
        )
    if known.state == "running" or c.leased:
        raise OutputTaken(
            f"{said}, and is at it: submit it with -o {shlex.quote(place)}; or pause it first"
            f" ({command(f'pause {name}')}), and then submit it when nothing is in flight"
        )
