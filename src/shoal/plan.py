"""One crawl as a value, and what must be in order before it begins and after it ends."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from shoal.errors import SinkError, SpiderError
from shoal.frontier.protocol import Frontier, Job, JobSpec
from shoal.jobnote import note_of, write_note
from shoal.policy.compose import HostPolicies
from shoal.policy.host import first_valve
from shoal.policy.lanes import known, no_such_lane, served
from shoal.settings import Settings
from shoal.sink.jsonl import JsonLines, describe_existing
from shoal.source import SpiderSource
from shoal.spider import Spider


class Plan(Struct, frozen=True):
    """Everything that makes up one crawl."""

    spider: Spider
    settings: Settings
    job: str
    store: str = ":memory:"
    output: Path | None = None  # None: standard output, or the caller's memory
    fresh: bool = False
    source: SpiderSource | None = None  # how another process gets the same spider


async def prepare(plan: Plan, frontier: Frontier) -> Job:
    """Makes or resumes the job, and makes sure its output is what it left behind."""
    _check_parts(plan)
    if plan.fresh:
        await frontier.drop_job(plan.job)
    known = await frontier.job(plan.job)
    if plan.output is not None:
        await _check_output(plan, plan.output, frontier, known)
    job = await frontier.open_job(_spec(plan))
    if job.state == "finished":
        await _trim_output(plan, frontier, job)
    return job


def _check_parts(plan: Plan) -> None:
    """What the settings name exists. Found out here, and not by every process on its own."""
    served(plan.settings)
    HostPolicies(plan.settings)
    lanes = known(plan.settings)
    for handler in plan.spider.handlers.values():
        if handler.lane not in lanes:
            problem = no_such_lane(handler.lane, lanes)
            raise SpiderError(f"spider {plan.spider.name!r}: handler {handler.name!r}: {problem}")


def _spec(plan: Plan) -> JobSpec:
    settings = plan.settings
    return JobSpec(
        plan.job,
        spider=plan.spider.name,
        valve=first_valve(settings),
        max_attempts=settings.max_attempts,
        max_pages=settings.max_pages,
        max_pages_per_host=settings.max_pages_per_host,
        settings=write_note(_file_key(plan.output), settings),
    )


def _file_key(output: Path | None) -> bytes:
    """Noted before anything is written to the file: a crash in the very first write leaves rows there that no commit
    vouches for, and without the note they would look like somebody else's."""
    return JsonLines(output).key.encode(errors="surrogateescape") if output is not None else b""


async def _check_output(plan: Plan, output: Path, frontier: Frontier, known: Job | None) -> None:
    journal = JsonLines(output)
    committed = await frontier.journal_length(plan.job, journal.key) if known is not None else None
    named = known is not None and note_of(known.spec).output == _file_key(output)
    if committed is None and not plan.fresh and not named:
        if known is not None and known.counters.items:
            raise SinkError(
                f"job {plan.job} has written its {known.counters.items:,} rows elsewhere: "
                "name that file with -o, or start again with --fresh"
            )
        if existing := describe_existing(output):
            raise SinkError(
                f"{existing}, and not from this job: choose another file with -o, or replace it with --fresh"
            )
    try:
        if plan.fresh:
            journal.append(0, [])
        else:
            # What a crash left is cut by the next write, inside its transaction: here another process of the same
            # job may be writing, and a cut would take its rows.
            journal.check(committed or 0)
    finally:
        journal.close()


async def _trim_output(plan: Plan, frontier: Frontier, job: Job) -> None:
    """Cuts what a crash left, if no later write did. Nobody holds a page any more, so nobody writes."""
    if plan.output is None or job.counters.leased:
        return
    journal = JsonLines(plan.output)
    try:
        journal.append(await frontier.journal_length(plan.job, journal.key) or 0, [])
    finally:
        journal.close()


async def conclude(plan: Plan, frontier: Frontier) -> None:
    """Closes the job if there is nothing left to do."""
    job = await frontier.job(plan.job)
    if job is not None and job.exhausted and job.state == "running":
        await _trim_output(plan, frontier, job)
        await frontier.set_state(plan.job, "finished")
