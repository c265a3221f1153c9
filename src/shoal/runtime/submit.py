"""Making a job and ending it: for a crawl, and for the workers of a fleet."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from shoal.engine.feeder import Feeder, too_full
from shoal.engine.tally import RateWindow, Tally, TallyReport
from shoal.errors import OutputTaken, ShoalError, SinkError, UsageError
from shoal.events import event
from shoal.frontier import is_local, open_frontier
from shoal.frontier.compare_and_set import change_host
from shoal.frontier.protocol import Frontier, Hosts, Viewing
from shoal.frontier.values import Job
from shoal.hosts.host_limits import HostRules
from shoal.inspect.event_log import tell
from shoal.inspect.freshness import visited
from shoal.inspect.job import View
from shoal.inspect.overview import Horizon, look_at_job
from shoal.inspect.retention import forget_notes
from shoal.jobs.note import note_of
from shoal.jobs.schedule import Schedule, change_schedules
from shoal.jobs.source_runs import end_run
from shoal.jobs.trouble import forget_trouble, trouble_of
from shoal.jobs.worker_status import is_silent, status_of
from shoal.runtime.admission import make_admission
from shoal.runtime.job_plan import JobPlan, check_arguments, check_parts, check_start, spec_of
from shoal.runtime.output_checks import (
    check_output,
    check_same_output,
    check_shared,
    claim_output,
    pause_output,
    trim_output,
)
from shoal.settings import Settings
from shoal.sink import Output, describe_noted, is_database, local_files
from shoal.sink.files import FileStore, files_folder
from shoal.sink.outputs import expand, not_on_a_fleet, read_output, with_archive
from shoal.text import command, humanize

_HIGH_WATER = 1_000_000  # URLs that were given are queued also while no worker is there yet
_EVERY = 0.5
_LET_GO = 15.0  # seconds
_SURE = 2.0  # seconds after which a store does not forget what it said, unless a replica lags far behind

Watch = Callable[[View], None]


async def dated(plan: JobPlan) -> JobPlan:
    """The plan with the day on which the job was made in place of {date}: today, if it is not made yet."""
    if not any("{date}" in place.target for place in read_output(plan.output)):
        return plan
    made_at = time.time()
    if not plan.fresh and plan.store != ":memory:":
        async with open_frontier(plan.store) as frontier:
            known = await frontier.job(plan.job)
            made_at = known.created_at if known is not None else await frontier.now()
    day = datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%d")
    return replace(plan, output=expand(plan.output, plan.job, day))


async def submit(plan: JobPlan, frontier: Frontier) -> Job:
    """Makes the job, or goes on with it, and checks that its output is as it left it. To run the same command again is
    safe at any point."""
    check_parts(plan)
    known = await frontier.job(plan.job)
    check_start(plan, known)
    check_arguments(plan, known)
    if plan.fresh and known is not None:
        if plan.is_crawl:
            await _check_idle(frontier, plan.job)
        await forget(frontier, plan.job)
        known = None
    if not plan.is_crawl:
        if known is not None:
            check_same_output(plan, known)
        elif full := too_full(await frontier.room(), plan.settings):
            raise full
    here = plan.is_crawl or is_local(plan.store)  # else a file is where the workers are, and they look at it
    if plan.output is not None and (here or is_database(plan.output)):
        await check_output(plan, frontier, known)
    else:
        await check_shared(plan, frontier)
    await forget_trouble(frontier, plan.job)
    # URLs that were given are a source of their own, beside those that the job has. Submitting a list again means what
    # it holds now.
    again = plan.spider.reads_stdin() if plan.is_crawl else plan.start is not None
    job = await frontier.open_job(spec_of(plan), plan.feeds, again=again)
    try:
        await check_shared(plan, frontier, job)
        if here:
            claim_output(plan, job)
    except OutputTaken:
        if known is None:
            await forget(frontier, plan.job)
        raise
    await _tell_begun(plan, frontier, known, job)
    if plan.is_crawl:
        if job.state == "finished":
            await trim_output(plan, frontier, job)
    elif known is not None and known.spec.settings != job.spec.settings:
        await _reconfigure(frontier, plan)
    return job


async def _tell_begun(plan: JobPlan, frontier: Frontier, known: Job | None, job: Job) -> None:
    # Running a job again usually means that it goes on where it was.
    if known is None and not plan.fresh and await frontier.past_job(plan.job) is not None:
        event("job_anew", job=plan.job)
    if not plan.is_crawl:
        await tell(frontier, "job_submitted", job=plan.job, spider=plan.spider.name)
    elif job.state != "finished":
        event("job_started", job=plan.job, spider=plan.spider.name, done=job.counters.done)


async def _check_idle(frontier: Viewing, job: str) -> None:
    """Refuses to forget a job that a process works on."""
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


async def forget(frontier: Frontier, name: str) -> None:
    """Drops a job once no worker that can be heard serves it. A silent worker is not waited for: if it comes back, it
    gets no page of a job that was made anew, and what it settles is refused."""
    if await frontier.job(name) is None:
        await frontier.drop_job(name)  # what is left of one that was pruned
        return
    await frontier.set_state(name, "cancelled")
    try:
        async with asyncio.timeout(_LET_GO):
            while holding := await _holding(frontier, name):  # noqa: ASYNC110
                await asyncio.sleep(_EVERY / 2)
    except TimeoutError:
        raise ShoalError(
            f"job {name} is cancelled, but {holding} still holds on to it; run the same command again"
        ) from None
    await frontier.drop_job(name)
    await forget_notes(frontier, name)


async def _holding(frontier: Viewing, name: str) -> str:
    """A worker that can be heard and serves the job, by its process and machine; "": there is none."""
    now = await frontier.now()
    for record in await frontier.workers():
        if (status := status_of(record)).serves(name) and not is_silent(record, now):
            return f"process {status.pid} on {status.node}"
    return ""


async def _reconfigure(frontier: Hosts, plan: JobPlan) -> None:
    """Gives the hosts of a job that is submitted again the valves of its new settings: once, and not in every
    worker."""
    change = HostRules(plan.settings, plan.job).folded(lambda state: state, await frontier.now())
    async for record in frontier.hosts(plan.job):
        if change(record).valve != record.valve:
            await change_host(frontier, record.name, change)


async def feed(
    plan: JobPlan,
    frontier: Frontier,
    on_wait: Callable[[int, int], None] = lambda fed, pending: None,
) -> TallyReport:
    """Adds the URLs that were given, from where an earlier run of the same command stopped. Tells what was refused, and
    when the queue is full: how many were given so far, and how many wait."""
    tally = Tally()
    assert plan.start is not None
    settings = replace(plan.settings, high_water=max(_HIGH_WATER, plan.settings.high_water))
    admission = make_admission(plan.start, settings)
    feeder = Feeder(
        plan.start,
        frontier,
        admission,
        settings,
        tally,
        job=plan.job,
        source=plan.feeds,
        waits_for_room=False,
        on_wait=on_wait,
    )
    await feeder.feed()
    return tally.report()


async def schedule(
    plan: JobPlan, frontier: Frontier, *, every: float = 0.0, cron: str = "", keep: int = 10
) -> Schedule:
    """Stores a recurring job. Its first run is due at once, or when cron says."""
    check_parts(plan)
    if plan.output is None:
        raise UsageError("a recurring job needs a place for its rows: -o FILE or a database, not -")
    now = await frontier.now()
    made = Schedule(spec_of(plan), now, every, cron, keep=keep)
    if cron:
        made = replace(made, next_at=made.following(now))
    kept = await change_schedules(
        frontier, lambda known: {**known, plan.job: _keeping(known.get(plan.job), made)}
    )
    await tell(frontier, "schedule_set", schedule=plan.job, every=every, cron=cron)
    return kept[plan.job]


def _keeping(old: Schedule | None, new: Schedule) -> Schedule:
    """A schedule that is submitted again keeps the time of its next run, unless its interval was changed."""
    if old is None:
        return new
    same_beat = (old.every, old.cron) == (new.every, new.cron)
    return replace(new, last_run=old.last_run, next_at=old.next_at if same_beat else new.next_at)


async def wait_for(frontier: Frontier, name: str, watch: Watch) -> View:
    """Looks at the job twice a second until it has finished, and the store will not forget that; answers the last
    look."""
    began, window, horizon = time.monotonic(), RateWindow(), Horizon()
    while True:
        view = await _look(frontier, name, time.monotonic() - began, window, horizon)
        watch(view)
        if view.job.state == "finished" and await _stays_so(frontier, view.job):
            return view
        if view.job.state == "cancelled":
            raise ShoalError(f"job {name} was cancelled")
        if trouble := await trouble_of(frontier, view.job):
            raise ShoalError(
                f"job {name} is paused: {trouble}; put it right and run: {command(f'resume {name}')}"
            )
        await asyncio.sleep(_EVERY)


async def _stays_so(frontier: Frontier, job: Job) -> bool:
    """A store that goes back may have forgotten the last pages of the job; then it is not finished after all."""
    if frontier.epoch:
        await asyncio.sleep(job.finished_at + _SURE - await frontier.now())
    again = await frontier.job(job.spec.name)
    return again is not None and (again.state, again.finished_at) == (job.state, job.finished_at)


async def _look(frontier: Frontier, name: str, elapsed: float, window: RateWindow, horizon: Horizon) -> View:
    job = await frontier.job(name)
    if job is None:
        raise ShoalError(f"job {name} was dropped, or the store has gone back to a time before it was made")
    workers = [status_of(record) for record in await frontier.workers()]
    now = await frontier.now()
    seen = await look_at_job(frontier, job, workers, now, horizon)
    c = job.counters
    report = TallyReport(pages=c.done, retries=c.retried, dead=c.dead, in_flight=c.leased)
    note = "" if seen.workers or job.state != "running" else "no worker serves it yet"
    if job.state == "paused":
        note = "paused"
    rate = window.add(elapsed, visited(job))
    queues = [(host.record.name, host.pending) for host in seen.slow]
    ends = seen.caught_up if seen.freshness is not None else seen.eta
    view = View(job, report, elapsed, rate, ends, queues, max(1, seen.workers), note)
    return replace(view, freshness=seen.freshness, now=now)


def place_on_fleet(output: Sequence[str], job: str, store: str, settings: Settings) -> Output:
    """Where the rows of a submitted job go, and its archive."""
    places = read_output(with_archive(expand(output or [f"{job}.jsonl"], job), settings))
    if any(place.kind == "stdout" for place in places):
        raise SinkError("-o -: a fleet's rows cannot go to standard output; name a file or a database")
    for place in places:
        if place.kind == "archive" and not place.is_here and not is_local(store):
            raise not_on_a_fleet(place)
    if is_local(store):
        places = tuple(
            replace(place, target=os.path.abspath(place.target)) if place.is_here else place
            for place in places
        )
    return tuple(place.text for place in places)


async def conclude(plan: JobPlan, frontier: Frontier, stopping: Callable[[], bool] = lambda: False) -> None:
    """Finishes the job of a crawl if nothing is left to do, and tells how it ended."""
    job = await frontier.job(plan.job)
    if job is not None and job.state == "running" and await frontier.finish(plan.job):
        job = await frontier.job(plan.job)
    if job is None:
        return
    if job.state == "finished":
        await end_run(frontier, job)
        await trim_output(plan, frontier, job, stopping)
        beside = next(iter(local_files(plan.output)), None)
        files = FileStore(files_folder(plan.settings.files, beside), plan.job, job.created_at)
        await asyncio.to_thread(files.sweep)
        _tell_finished(job)
        return
    await pause_output(plan, frontier)
    c = job.counters
    event(
        "job_stopped", job=plan.job, done=c.done, dead=c.dead, rejected=c.rejected, rows=c.items, left=c.open
    )


def _tell_finished(job: Job) -> None:
    c, seconds = job.counters, round(job.finished_at - job.created_at, 3)
    event(
        "job_finished",
        job=job.spec.name,
        done=c.done,
        dead=c.dead,
        rejected=c.rejected,
        left=c.open,
        rows=c.items,
        retried=c.retried,
        seconds=seconds,
        output=describe_noted(note_of(job.spec).output),
    )


async def finish(frontier: Frontier, name: str) -> bool:
    """Marks a running job as finished if nothing is left to do. Returns whether it did."""
    if not await frontier.finish(name):
        return False
    if (job := await frontier.job(name)) is not None:
        await end_run(frontier, job)
        _tell_finished(job)
    return True
