"""One crawl as a value, and what must be in order before it begins and after it ends."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from msgspec import Struct

from shoal import humanize
from shoal.errors import OutputTaken, SettingsError, SinkError, SpiderError, UsageError
from shoal.events import event
from shoal.fetch.browser.executable import available, why_not
from shoal.fetch.proxy.pools import find_pools
from shoal.frontier.protocol import Frontier, Jobs, Queue, Viewing
from shoal.frontier.values import OWN_START, Job, JobSpec
from shoal.jobs.note import FedBy, handlers_of, note_of, write_note
from shoal.jobs.trouble import forget_trouble
from shoal.jobs.worker_status import is_silent, status_of
from shoal.policy.compose import HostPolicies, domain_limit, first_valve
from shoal.policy.host_table import table_name
from shoal.policy.lanes import no_such_lane, served
from shoal.settings import BROWSER, Settings
from shoal.sink import describe, is_database, output_key
from shoal.sink.jsonl import JsonLines, describe_existing
from shoal.sink.ownership import FileClaim, Owner, claim
from shoal.spider.loading import SpiderSource
from shoal.spider.spider import Spider
from shoal.text import command


class Plan(Struct, frozen=True):
    """Everything that makes up one crawl."""

    spider: Spider
    settings: Settings
    job: str
    store: str = ":memory:"
    output: str | Path | None = None  # a file or a database; None: standard output, or the caller's memory
    fresh: bool = False
    source: SpiderSource | None = None  # how another process gets the same spider
    fed_by: FedBy = "crawl"
    feeds: str = OWN_START  # the source of the job that its start is
    priority: int = 0  # among the jobs of a store
    metrics: str = ""  # where to answer how it is: [HOST:]PORT
    trace: bool = False


async def prepare(plan: Plan, frontier: Frontier) -> Job:
    """Makes or resumes the job, and makes sure its output is what it left behind."""
    check_parts(plan)
    known = await frontier.job(plan.job)
    check_start(plan, known)
    if plan.fresh and known is not None:
        await check_idle(frontier, plan.job)
        await frontier.drop_job(plan.job)
        known = None
    if plan.output is not None:
        await check_output(plan, frontier, known)
    await forget_trouble(frontier, plan.job)
    job = await frontier.open_job(spec_of(plan), plan.feeds, again=plan.spider.reads_stdin())
    if known is None:
        await tell_anew(frontier, plan)
    claim_output(plan, job)
    if job.state == "finished":
        await _trim_output(plan, frontier, job)
    else:
        event("job_started", job=plan.job, spider=plan.spider.name, done=job.counters.done)
    return job


async def tell_anew(frontier: Jobs, plan: Plan) -> None:
    """Whoever runs a job again expects that it goes on where it was."""
    if not plan.fresh and await frontier.past_job(plan.job) is not None:
        event("job_anew", job=plan.job)


def check_parts(plan: Plan) -> None:
    """What the settings name exists. Found out here, and not by every process on its own."""
    serves_browser = plan.fed_by == "crawl" and BROWSER in served(plan.settings)
    HostPolicies(plan.settings)
    if plan.fed_by == "crawl":  # the workers of a fleet have proxies of their own
        pools = [handler.pool for handler in plan.spider.handlers.values() if handler.pool]
        find_pools(plan.settings, pools, os.environ)
    lanes = plan.settings.lane_weights
    for name, table in plan.settings.host.items():
        if table.lane is not None and table.lane not in lanes:
            raise SettingsError(f"{table_name(name, table)} lane: {no_such_lane(table.lane, lanes)}")
        if table.lane == BROWSER and serves_browser and not available(plan.settings):
            raise SettingsError(f"{table_name(name, table)} lane: {why_not(plan.settings)}")
    for handler in plan.spider.handlers.values():
        if handler.lane not in lanes:
            problem = no_such_lane(handler.lane, lanes)
            raise SpiderError(f"spider {plan.spider.name!r}: handler {handler.name!r}: {problem}")
        if handler.lane == BROWSER and serves_browser and not available(plan.settings):
            raise SpiderError(f"handler {handler.name!r} is in the browser lane: {why_not(plan.settings)}")


def check_start(plan: Plan, known: Job | None) -> None:
    """A job that has pages can go on without a start; a new one would end before it has begun."""
    spider = plan.spider
    if not spider.start and (known is None or plan.fresh):
        raise SpiderError(
            f"spider {spider.name!r} has no start, so there is nothing to crawl: Spider({spider.name!r}, start=…)"
        )


async def check_idle(frontier: Viewing, job: str) -> None:
    """Refuses to forget a job under the hands of a process that works on it."""
    now = await frontier.now()
    for record in await frontier.workers():
        status = status_of(record)
        if not status.serves(job) or is_silent(record, now):
            continue
        where = "" if status.node == socket.gethostname() else f" on {status.node}"
        raise UsageError(
            f"job {job} is being crawled by process {status.pid}{where}, last heard of "
            f"{humanize.span(now - record.seen_at)} ago: stop it before you start again with --fresh; if it has died, "
            "try again in a few seconds"
        )


def spec_of(plan: Plan) -> JobSpec:
    settings = plan.settings
    return JobSpec(
        plan.job,
        spider=plan.spider.name,
        valve=first_valve(settings),
        max_attempts=settings.max_attempts,
        max_pages=settings.max_pages,
        max_pages_per_host=settings.max_pages_per_host,
        # The output is noted before anything is written to it: a crash in the very first write leaves rows in a file
        # that no commit vouches for, and without the note they would look like somebody else's.
        settings=write_note(output_key(plan.output), settings, plan.fed_by, handlers_of(plan.spider)),
        priority=plan.priority,
        dedupe=settings.dedupe,
        capacity=settings.dedupe_capacity if settings.dedupe == "bloom" else 0,
        domain=domain_limit(settings),
    )


async def check_output(plan: Plan, frontier: Frontier, known: Job | None) -> None:
    """Before the job is made: whether its rows can go where they are to go."""
    await check_shared(plan, frontier)
    named = known is not None and note_of(known.spec).output == output_key(plan.output)
    if is_database(plan.output):
        if known is not None and not named and not plan.fresh:
            _check_elsewhere(known)
        return
    journal = JsonLines(Path(plan.output or ""))
    committed = await frontier.journal_length(plan.job, journal.key) if known is not None else None
    if committed is None and not plan.fresh and not named:
        if known is not None:
            _check_elsewhere(known)
        if existing := describe_existing(journal.path):
            past = await frontier.past_job(plan.job)
            if past is not None and note_of(past.job.spec).output == output_key(plan.output):
                raise OutputTaken(
                    f"{existing}, all from this job before it was pruned: what it had seen is forgotten, so its pages"
                    " would be fetched and written again; choose another file with -o, or replace it with --fresh"
                )
            raise OutputTaken(
                f"{existing}, and not from this job: choose another file with -o, or replace it with --fresh"
            )
    try:
        # What a crash left is cut by the next write, inside its transaction: here another process of the same job may
        # be writing, and a cut would take its rows.
        journal.check(0 if plan.fresh else committed or 0)
    finally:
        journal.close()


async def check_shared(plan: Plan, frontier: Jobs, mine: Job | None = None) -> None:
    """Refuses a file that another job of this store writes to. `mine`: the job, if it is made already; of two that
    were made at once the elder may stay."""
    if plan.output is None or is_database(plan.output):
        return
    for job in await frontier.jobs():
        other = job.spec.name
        if other == plan.job or job.state not in ("running", "paused") or not _writes_to(job, plan):
            continue
        if mine is None or (job.created_at, other) < (mine.created_at, plan.job):
            raise OutputTaken(
                f"job {other}, which is not finished, writes to {plan.output}: choose another file with -o, or end "
                f"that job with {command(f'cancel {other}')}"
            )


def _writes_to(job: Job, plan: Plan) -> bool:
    """Jobs of a fleet with a server note a path as it was given: it is relative to each worker's folder."""
    return note_of(job.spec).output in (output_key(plan.output), os.fsencode(plan.output or ""))


def claim_output(plan: Plan, job: Job) -> None:
    """Makes a file on this machine the job's own, which has just been made or found."""
    if plan.output is not None and not is_database(plan.output):
        # That rows of the job are in this file, and in no other, was checked before.
        committed = 0 if job.counters.items else None
        asked = FileClaim(Owner(plan.job, job.created_at), committed)
        claim(Path(plan.output), asked, replace_any=plan.fresh)


async def file_claim(frontier: Queue, job: Job, key: str) -> FileClaim:
    name = job.spec.name
    committed = await frontier.journal_length(name, key)
    return FileClaim(Owner(name, job.created_at), committed, replace=note_of(job.spec).fresh)


def _check_elsewhere(known: Job) -> None:
    if known.counters.items:
        raise SinkError(
            f"job {known.spec.name} has written its {known.counters.items:,} rows elsewhere: "
            "name that place with -o, or start again with --fresh"
        )


async def _trim_output(plan: Plan, frontier: Queue, job: Job) -> None:
    """Cuts what a crash left in a file, if no later write did. Nobody holds a page any more, so nobody writes."""
    if plan.output is None or is_database(plan.output) or job.counters.leased:
        return
    journal = JsonLines(Path(plan.output))
    try:
        journal.append(await frontier.journal_length(plan.job, journal.key) or 0, [])
    finally:
        journal.close()


async def conclude(plan: Plan, frontier: Frontier) -> None:
    """Closes the job if there is nothing left to do."""
    job = await frontier.job(plan.job)
    if job is not None and job.state == "running" and await frontier.finish(plan.job):
        job = await frontier.job(plan.job)
    if job is None:
        return
    if job.state == "finished":
        await _trim_output(plan, frontier, job)
        _tell_finished(job)
        return
    c = job.counters
    event("job_stopped", job=plan.job, done=c.done, dead=c.dead, rows=c.items, left=c.open)


def _tell_finished(job: Job) -> None:
    c, seconds = job.counters, round(job.finished_at - job.created_at, 3)
    output = note_of(job.spec).output.decode(errors="replace")
    event(
        "job_finished",
        job=job.spec.name,
        done=c.done,
        dead=c.dead,
        left=c.open,
        rows=c.items,
        retried=c.retried,
        seconds=seconds,
        output=describe(output or None),
    )


async def finish(frontier: Jobs, name: str) -> bool:
    """Marks a running job as finished if there is nothing left to do, and tells; whoever sees it first may."""
    if not await frontier.finish(name):
        return False
    if (job := await frontier.job(name)) is not None:
        _tell_finished(job)
    return True
