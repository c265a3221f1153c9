"""Running a crawl to its end.

results = await shoal.crawl(spider)            from a program that has an event loop
results = shoal.run(spider)                    from one that has none
view = await execute(plan, watch=…)            what the command line does
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from shoal.config import load
from shoal.engine.event_loop import run_loop
from shoal.engine.feeder import Feeder
from shoal.engine.guardian import can_resume
from shoal.engine.served import OneJob
from shoal.engine.tally import TallyReport
from shoal.engine.tracing import Tracing, tracing_if
from shoal.engine.vitals import StatusSource
from shoal.errors import HandlerMissing, SettingsError, ShoalError, SpiderError
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.inspect.event_log import EventBook
from shoal.inspect.progress import View
from shoal.inspect.retention import tidy
from shoal.jobs.trouble import pause_in_trouble, with_pages_left
from shoal.policy.load import Traffic
from shoal.runtime.job_runner import JobRunner
from shoal.runtime.plan import Plan, conclude, prepare
from shoal.runtime.signals import Stoppable, stopping_on_signals
from shoal.runtime.watching import Watch, watching
from shoal.runtime.worker import Worker
from shoal.sink import is_database, open_sink
from shoal.sink.jsonl import FileSink, MemoryJournal
from shoal.sink.protocol import Sink
from shoal.spider.spider import Spider
from shoal.telemetry.health import probes_at

__all__ = ["Plan", "Results", "crawl", "execute", "run"]


class Results(Struct, frozen=True):
    """What a crawl from code gives back: the items it yielded (unless they went to a file) and how it ended."""

    items: list[Any]
    view: View

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


async def crawl(
    spider: Spider,
    *,
    store: str | Path | None = None,
    output: str | Path | None = None,
    job: str | None = None,
    fresh: bool = False,
    watch: Watch | None = None,
    **settings: object,
) -> Results:
    """Crawls and returns the results. Without `store` nothing outlives the call; without `output` (a file or a
    database) the items are returned. Settings given here win over the spider's own."""
    plan = Plan(
        spider,
        load(None, spider.settings, os.environ, settings),
        job or spider.name,
        ":memory:" if store is None else str(store),
        output if output is None or is_database(output) else Path(output),
        fresh,
    )
    if plan.settings.processes > 1:
        raise SettingsError(
            "processes: from code a crawl runs in this process; use `shoal crawl FILE.py --processes`"
        )
    kept = MemoryJournal()
    sink = FileSink(kept) if plan.output is None else open_sink(plan.output, job=plan.job)
    view = await _run_here(plan, sink, watch, signals=False)
    return Results([msgspec.json.decode(row) for row in kept.rows], view)


def run(spider: Spider, **options: Any) -> Results:
    """`crawl` for programs without an event loop."""
    return run_loop(crawl(spider, **options))


async def execute(plan: Plan, watch: Watch | None = None) -> View:
    """Runs a plan to its end, or until a signal; answers the last view."""
    if plan.settings.processes > 1:
        from shoal.runtime.processes import supervise

        return await supervise(plan, watch)
    return await _run_here(plan, open_sink(plan.output, job=plan.job), watch, signals=True)


async def _run_here(plan: Plan, sink: Sink, watch: Watch | None, *, signals: bool) -> View:
    async with AsyncExitStack() as stack:
        probes = await stack.enter_async_context(probes_at(plan.metrics))
        tracing = await stack.enter_async_context(tracing_if(plan.trace))
        frontier = await stack.enter_async_context(open_frontier(plan.store))
        await stack.enter_async_context(EventBook(frontier))
        job = await prepare(plan, frontier)
        if job.state == "finished":
            return View(job, TallyReport(), note="already finished")
        if plan.store != ":memory:":
            can_resume()
        crew = await stack.enter_async_context(Crew(plan, frontier, sink, tracing))
        probes.watch(frontier, crew.subject(), whole_store=True)
        if signals:
            stack.enter_context(stopping_on_signals(crew.engine, grace=plan.settings.grace))
        look = await stack.enter_async_context(watching(plan, frontier, crew.report, watch))
        async with feeding(crew.feeder(), crew.engine, frontier, plan.job):
            await work_through(crew, frontier, plan.job)
        await conclude(plan, frontier)
        view = await look()
        await tidy(frontier, plan.settings, spared={plan.job})
        return view


class Crew:
    """A process with one job: `shoal crawl`."""

    def __init__(self, plan: Plan, frontier: Frontier, sink: Sink, tracing: Tracing | None = None) -> None:
        traffic = Traffic()
        self._plan = plan
        self._frontier = frontier
        self._job = JobRunner(
            plan.job, plan.spider, plan.settings, frontier, sink, traffic=traffic, tracing=tracing
        )
        self._jobs = OneJob(frontier, self._job, plan.settings)
        self._process = Worker(frontier, self._jobs, plan.settings, traffic)
        self.engine = self._process.engine

    async def __aenter__(self) -> Self:
        try:
            await self._job.open()
        except BaseException:
            await self._job.close()
            raise
        await self._process.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._process.__aexit__()
        await self._job.close()

    @property
    def trouble(self) -> HandlerMissing | None:
        """Why the engine ended before its work was done."""
        return self._jobs.trouble

    def was_replaced(self, job: Job | None) -> bool:
        """Whether the job is no longer the one that was opened here."""
        return job is None or job.created_at != self._job.made_at

    def feeder(self) -> Feeder:
        plan, job = self._plan, self._job
        return Feeder(
            plan.spider,
            self._frontier,
            job.admission,
            plan.settings,
            job.tally,
            job=plan.job,
            source=plan.feeds,
            paused=lambda: self.feeding_paused,
        )

    @property
    def feeding_paused(self) -> bool:
        return self._process.feeding_paused

    def report(self) -> TallyReport:
        return self._job.tally.report(in_flight=self.engine.in_flight)

    def subject(self) -> StatusSource:
        return self._process.subject(self.report)


async def work_through(crew: Crew, frontier: Frontier, job: str) -> None:
    """Runs the engine to its end. Pages that nobody can handle stay in the queue of a job that is paused."""
    await crew.engine.run()
    if crew.was_replaced(await frontier.job(job)):
        raise ShoalError(f"job {job} was forgotten or started anew by another command, so this one ends")
    if (trouble := crew.trouble) is not None:
        sentence = await with_pages_left(frontier, job, trouble)
        await pause_in_trouble(frontier, job, sentence)
        raise HandlerMissing(f"job {job} is paused: {sentence}; run the same command again to go on")


class feeding:  # noqa: N801 (a context manager, used like a function)
    """Feeds in the background. A source that fails stops the crawl, and its error comes out at the end; the job is
    paused and says why, until the same command goes on with it."""

    def __init__(self, feeder: Feeder, crawl: Stoppable, frontier: Frontier, job: str) -> None:
        self._feeder = feeder
        self._crawl = crawl
        self._frontier = frontier
        self._job = job
        self._error: Exception | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._feed())

    async def _feed(self) -> None:
        try:
            await self._feeder.feed(stays=True)
        except SpiderError as error:
            self._error = SpiderError(f"{error}; put it right and run the same command again to go on")
            self._error.__cause__ = error.__cause__  # what a start function raised
            self._crawl.stop()
            await pause_in_trouble(self._frontier, self._job, str(error))
        except Exception as error:
            self._error = error
            self._crawl.stop()

    async def __aexit__(self, kind: object, *_: object) -> None:
        if self._error is None:  # else it is on its way to its end
            self._task.cancel()
        await asyncio.wait([self._task])
        if self._error is not None and kind is None:
            raise self._error
