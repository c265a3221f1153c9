"""Running a crawl to its end.

results = await shoal.crawl(spider)            from a program that has an event loop
results = shoal.run(spider)                    from one that has none
view = await execute(plan, watch=…)            what the command line does
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

import msgspec
from msgspec.structs import replace

from shoal.config import load
from shoal.engine.feeder import Feeder
from shoal.engine.guardian import can_resume, guarded
from shoal.engine.lost_workers import report_loss
from shoal.engine.process_hooks import ProcessHooks
from shoal.engine.quality import is_watched
from shoal.engine.tally import Ledger, RateWindow, RunTotals, TallyReport, merge
from shoal.engine.tracing import tracing_if
from shoal.errors import SettingsError, ShoalError, SpiderError, StoreError, UsageError
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier, Journal
from shoal.frontier.values import DeadFilter, Job
from shoal.inspect.event_log import EventBook
from shoal.inspect.freshness import visited
from shoal.inspect.job import View
from shoal.inspect.overview import Horizon, eta
from shoal.inspect.retention import tidy, tidying
from shoal.jobs.trouble import pause_in_trouble
from shoal.model import REJECTED
from shoal.runtime.admission import make_admission
from shoal.runtime.job_hooks import end_missed
from shoal.runtime.job_plan import JobPlan
from shoal.runtime.running_loop import run_anywhere
from shoal.runtime.signals import Stoppable, stopping_on_signals
from shoal.runtime.submit import conclude, dated, submit
from shoal.runtime.worker import CrawlWorker
from shoal.sink import Output, Sink, make_journal, open_sink
from shoal.sink.file_sink import FileSink
from shoal.sink.journals import Several
from shoal.sink.jsonl import MemoryJournal
from shoal.sink.outputs import expand, read_output, wanted_by, with_archive
from shoal.sink.own import OwnSink
from shoal.spider import debugging
from shoal.spider.arguments import job_name
from shoal.spider.schemas import columns_of
from shoal.spider.spider import Spider, check_spider
from shoal.telemetry.endpoint import probes_at

if TYPE_CHECKING:
    from shoal.inspect.rejected import RejectedItem
    from shoal.runtime.results import DeadPage, Results
    from shoal.runtime.supervisor import Supervisor
    from shoal.settings.keywords import CrawlSettings

__all__ = ["JobPlan", "crawl", "execute", "run"]

_EVERY = 0.5  # seconds between looks at a running crawl
_LETTERS = 1_000  # items that were rejected, and pages that were given up, in the results

Watch = Callable[[View], None]


async def crawl(
    spider: Spider,
    *,
    store: str | Path | None = None,
    output: Output | Sink = None,
    job: str | None = None,
    fresh: bool = False,
    watch: Watch | None = None,
    **settings: Unpack[CrawlSettings],
) -> Results:
    """Crawls to the end, and returns the results.

    - `store`: where the queue is kept, so that a crawl can be resumed; without it nothing outlives the call
    - `output`: where the items go: a file, a database, several of them, or a sink of your own; without it they are
      returned
    - `job`: the name of the job; the spider's, if none is given
    - `fresh`: forgets what the job had done, and starts again
    - `watch`: a function that is called twice a second with how far the crawl is
    - `settings`: those of docs/settings.md; they win over the spider's own
    """
    from shoal.inspect.rejected import rejected_item
    from shoal.runtime.results import Results, dead_page

    check_spider(spider)
    name = job or job_name(spider)
    chosen = load(None, spider.settings, os.environ, settings, flag="shoal.crawl()")
    own, place = _own_or_place(output)
    if own is None:
        place = place or chosen.output or None
    plan = JobPlan(
        spider,
        chosen,
        name,
        ":memory:" if store is None else str(store),
        None if place is None else with_archive(expand(place, name), chosen),
        fresh,
    )
    plan = await dated(plan)
    if plan.settings.processes > 1:
        raise SettingsError(
            "processes: from code a crawl runs in this process; use `shoal crawl FILE.py --processes`"
        )
    kept = MemoryJournal()
    if own is not None and chosen.archive:
        raise SettingsError("archive: not with a sink of your own; name a place for the rows")
    sink = own or (FileSink(_memory(plan, kept)) if plan.output is None else _sink(plan))
    rejected: list[RejectedItem] = []
    dead: list[DeadPage] = []

    async def keep_letters(frontier: Frontier) -> None:
        query = DeadFilter(job=plan.job, limit=_LETTERS)
        dead.extend(dead_page(letter, spider) for letter in await frontier.dead(query))
        query = replace(query, kind=REJECTED)
        rejected.extend(rejected_item(letter) for letter in await frontier.dead(query))

    try:
        view = await _run(plan, sink, watch, signals=False, ended=keep_letters)
    finally:
        if plan.store == ":memory:" and plan.output is None and isinstance(sink.journal, Several):
            sink.journal.forget()
    return Results([msgspec.json.decode(row) for row in kept.rows], view, rejected, dead)


def run(
    spider: Spider,
    *,
    store: str | Path | None = None,
    output: Output | Sink = None,
    job: str | None = None,
    fresh: bool = False,
    watch: Watch | None = None,
    **settings: Unpack[CrawlSettings],
) -> Results:
    """As `crawl`, with the same arguments, for programs without an event loop and for notebooks."""
    try:
        return run_anywhere(
            lambda: crawl(spider, store=store, output=output, job=job, fresh=fresh, watch=watch, **settings)
        )
    except UsageError as error:
        # It says what is wrong. Twenty frames of ours would hide that in a notebook.
        raise error.with_traceback(None) from error.__cause__


async def execute(plan: JobPlan, watch: Watch | None = None) -> View:
    """Runs a plan to its end, or until a signal; answers the last view."""
    plan = await dated(plan)
    if plan.settings.processes == 1:
        return await _run(plan, _sink(plan), watch, signals=True)
    if plan.source is None or any(place.kind == "stdout" for place in read_output(plan.output)):
        raise SettingsError(
            "processes: several processes need an output file; leave out `-o -` or --processes"
        )
    return await _run(plan, None, watch, signals=True)


def _sink(plan: JobPlan) -> Sink:
    return open_sink(plan.output, job=plan.job, settings=plan.settings, columns=columns_of(plan.spider))


def _memory(plan: JobPlan, kept: MemoryJournal) -> Journal:
    """A journal for rows that are returned, and for the archive if there is one."""
    if not plan.settings.archive:
        return kept
    output = with_archive(("-",), plan.settings)
    # A store that outlives the call goes on with this archive. Otherwise every crawl is another job.
    log = f"{plan.job}-{os.urandom(6).hex()}" if plan.store == ":memory:" else ""
    journal = make_journal(output, job=plan.job, settings=plan.settings, memory=kept, log=log)
    assert journal is not None
    return journal


def _own_or_place(output: Output | Sink) -> tuple[OwnSink | None, Output]:
    """A sink of the user's, or the name of a place."""
    if output is None or isinstance(output, str | Path | list | tuple):
        return None, output
    return OwnSink(cast(Sink, output)), None


async def _run(
    plan: JobPlan,
    sink: Sink | None,
    watch: Watch | None,
    *,
    signals: bool,
    ended: Callable[[Frontier], Awaitable[None]] | None = None,
) -> View:
    """Feeds a job while workers work on it, until it is done. Without a sink, they are processes of their own. `ended`
    is called before the store is closed."""
    async with AsyncExitStack() as stack:
        probes = await stack.enter_async_context(probes_at(plan.metrics))
        # Of several processes, each traces its own pages.
        tracing = await stack.enter_async_context(tracing_if(plan.trace)) if sink is not None else None
        frontier = await stack.enter_async_context(open_frontier(plan.store))
        await stack.enter_async_context(EventBook(frontier))
        job = await submit(plan, frontier)
        if job.state == "finished":
            await _end_missed(plan, frontier, job)
            if ended is not None:
                await ended(frontier)
            return View(job, TallyReport(), note="already finished")
        if plan.store != ":memory:":
            can_resume()
        workers: CrawlWorker | Supervisor
        if sink is not None:
            wanted = wanted_by(plan.output)
            workers = CrawlWorker(
                plan.job, plan.spider, plan.settings, frontier, sink, tracing, wanted=wanted
            )
            admission = workers.admission
        else:
            workers = _supervisor(plan, frontier)
            admission = make_admission(plan.spider, plan.settings)
        await stack.enter_async_context(workers)
        probes.watch(frontier, workers, whole_store=True)
        told = _Told(workers)
        stack.enter_context(debugging.stopped_by_quit(told.stop))
        if signals:
            stack.enter_context(stopping_on_signals(told, grace=plan.settings.grace))
        look = await stack.enter_async_context(progress_reports(plan, frontier, workers.report, watch))
        feeder = Feeder(
            plan.spider,
            frontier,
            admission,
            plan.settings,
            workers.tally,
            job=plan.job,
            source=plan.feeds,
            paused=workers.feeding_paused,
        )
        async with (
            feeding(feeder, workers, frontier, plan.job),
            tidying(frontier, plan.settings, spared={plan.job}),
        ):
            await workers.run()
        await conclude(plan, frontier, lambda: told.to_stop)
        view = await look()
        if is_watched(plan.spider, plan.settings):
            from shoal.inspect.quality import quality_of_job

            view = replace(view, quality=await quality_of_job(frontier, plan.job, plan.spider.name))
        if ended is not None:
            await ended(frontier)
        await tidy(frontier, plan.settings, spared={plan.job})
        return view


class _Told:
    """Remembers that somebody wants the crawl to stop. Workers that have ended do not know."""

    def __init__(self, target: Stoppable) -> None:
        self._target = target
        self.to_stop = False

    def stop(self) -> None:
        self.to_stop = True
        self._target.stop()

    def force(self) -> None:
        self._target.force()


async def _end_missed(plan: JobPlan, frontier: Frontier, job: Job) -> None:
    hooks = ProcessHooks()
    try:
        await end_missed(frontier, job, hooks, plan.spider, plan.settings)
    except BaseException:
        await hooks.close(failing=True)
        raise
    await hooks.close()


def _supervisor(plan: JobPlan, frontier: Frontier) -> Supervisor:
    from shoal.runtime.supervisor import Supervisor
    from shoal.runtime.worker_plan import CrawlPlan, WorkerPlan

    assert plan.source is not None
    output = tuple(place.text for place in read_output(plan.output))
    crawl = CrawlPlan(plan.source, plan.settings, plan.job, output)
    worker = WorkerPlan((), plan.store, trace=plan.trace, crawl=crawl)
    return Supervisor(worker, plan.settings.processes, partial(report_loss, frontier))


@asynccontextmanager
async def feeding(feeder: Feeder, workers: Stoppable, frontier: Frontier, job: str) -> AsyncIterator[None]:
    """Feeds while the block runs. A source that fails stops the workers, and its error is raised at the end. The job is
    paused and says why, until the same command goes on with it."""
    failures: list[Exception] = []

    async def feed() -> None:
        try:
            await feeder.feed(stays=True)
        except SpiderError as error:
            failure = SpiderError(f"{error}; put it right and run the same command again to go on")
            failure.__cause__ = error.__cause__  # what a start function raised
            failures.append(failure)
            workers.stop()
            await pause_in_trouble(frontier, job, str(error))
        except Exception as error:
            failures.append(error)
            workers.stop()

    task = asyncio.create_task(feed())
    try:
        yield
    finally:
        if not failures:  # else it ends by itself
            task.cancel()
        await asyncio.wait([task])
    if failures:
        raise failures[0]


@asynccontextmanager
async def progress_reports(
    plan: JobPlan, frontier: Frontier, report: Callable[[], TallyReport], watch: Watch | None
) -> AsyncIterator[Callable[[], Awaitable[View]]]:
    """Calls `watch` twice a second while the block runs; yields a function that makes one view. A process that replaces
    one that died goes on from its counts."""
    began, mine = time.monotonic(), guarded()
    ledger = Ledger(mine.ledger if mine is not None else None)
    before = ledger.before
    window = RateWindow()
    horizon = Horizon()
    job = await frontier.job(plan.job)
    done_before = visited(job) if job is not None else 0

    async def look() -> View:
        job = await frontier.job(plan.job)
        if job is None:
            raise StoreError(
                f"job {plan.job} was dropped while it ran, or the store has gone back to a time before it was made; "
                "run the same command again"
            )
        at = await frontier.now()
        slow = await horizon.slow_hosts(frontier, plan.job, at) if job.counters.pending else ()
        now = time.monotonic()
        rate = window.add(now, visited(job))
        return View(
            job,
            merge([before.report, report()]),
            elapsed=before.elapsed + now - began,
            restarts=before.restarts,
            rate=rate if now - began > 1 else (visited(job) - done_before) / max(0.1, now - began),
            eta=eta(job, rate, slow, at),
            queues=[(one.record.name, one.pending) for one in slow],
            processes=plan.settings.processes,
            freshness=await horizon.freshness(frontier, job),
            now=at,
        )

    async def look_regularly() -> None:
        while watch is not None:
            try:
                view = await look()
            except ShoalError:
                return  # the engine meets the same error and reports it
            ledger.write(RunTotals(view.report, view.elapsed, view.restarts))
            watch(view)
            await asyncio.sleep(_EVERY)

    looking = asyncio.create_task(look_regularly())
    try:
        yield look
    finally:
        looking.cancel()
