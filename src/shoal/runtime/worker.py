"""A worker: what every process that works on pages has, and the one that works on the job of a crawl."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import ExitStack, asynccontextmanager
from typing import Self

from msgspec.structs import replace

from shoal.clock import SystemClock
from shoal.engine.dispatcher import Engine
from shoal.engine.guardian import guarded
from shoal.engine.lost_workers import report_loss, tell_loss
from shoal.engine.pressure import PressureMonitor
from shoal.engine.process_hooks import ProcessHooks
from shoal.engine.served import EngineJobs, OneJob
from shoal.engine.tally import TallyReport
from shoal.engine.tracing import Tracing
from shoal.engine.vitals import Vitals
from shoal.engine.watchdog import Watchdog
from shoal.errors import HandlerMissing, JobHookError, ShoalError, SpiderError
from shoal.fetch.slots import within_file_limit
from shoal.frontier import for_other_thread
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.jobs.trouble import pause_in_trouble, with_pages_left
from shoal.policy.backpressure import DISCOVERY
from shoal.policy.load import Backlog, Traffic
from shoal.runtime.job_runner import JobRunner
from shoal.runtime.signals import Stoppable
from shoal.settings import Settings
from shoal.sink import Sink
from shoal.sink.outputs import NOTHING_MORE, Wanted
from shoal.spider import debugging
from shoal.spider.spider import Spider

_ROUND = 60.0  # seconds after which an engine that has not ended its round hangs


class Worker:
    """What a process has once: the engine, the backpressure that holds it back, and the watchdog over its handlers."""

    def __init__(
        self,
        frontier: Frontier,
        jobs: EngineJobs,
        settings: Settings,
        traffic: Traffic,
        *,
        spiders: tuple[str, ...] = (),
    ) -> None:
        settings = within_file_limit(settings)
        self._frontier = frontier
        self._jobs = jobs
        self._slots = settings.concurrency
        self._settings = settings
        self._guarded = guarded()
        liveness = self._guarded.liveness if self._guarded is not None else None
        self._watchdog = Watchdog(settings, liveness, self._handler_timeout, self._renew_leases)
        self._debugging = ExitStack()
        self.engine = Engine(
            frontier,
            jobs,
            settings,
            name=f"{os.getpid()}-{uuid.uuid4().hex[:8]}",
            pressure=lambda: self._monitor.pressure,
            spiders=spiders,
            liveness=liveness,
        )
        self._monitor = PressureMonitor(
            settings,
            traffic,
            load=self.engine.load,
            pending=self._pending,
            on_change=frontier.wake,
            clock=SystemClock(),
            room=frontier.room,
        )
        self._monitoring: asyncio.Task[None] | None = None

    def _handler_timeout(self) -> float:
        """The longest that a handler may take now."""
        jobs = self._jobs.everyone()
        return max((job.settings.handler_timeout for job in jobs), default=self._settings.handler_timeout)

    async def _pending(self) -> Backlog:
        """What waits in the fullest of the jobs."""
        return await longest_backlog(self._frontier, await self._jobs.records())

    async def __aenter__(self) -> Self:
        if (mine := self._guarded) is not None:
            if mine.loss is not None:
                tell_loss(mine.loss, mine.loss.worker)
                await report_loss(self._frontier, mine.loss)
            mine.liveness.name(self.engine.name, self._frontier.loss_file(self.engine.name))
        self._debugging.enter_context(debugging.breakpoints())
        self._debugging.enter_context(debugging.listening(self._at_prompt))
        self._watchdog.start()
        self._monitoring = asyncio.create_task(self._monitor.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._monitoring is not None:
            self._monitoring.cancel()
            # Errors are ignored: the engine tells of a broken store.
            await asyncio.gather(self._monitoring, return_exceptions=True)
        self._watchdog.stop()
        self._debugging.close()

    def _at_prompt(self, opened: bool) -> None:
        if self._guarded is not None:
            self._guarded.liveness.at_prompt(opened)
        if opened:
            self.engine.hand_others_back()

    def _renew_leases(self) -> None:
        """Called in the watchdog's thread, while the loop stands still in a debugger."""

        async def renew() -> None:
            async with (
                asyncio.timeout(self._settings.lease / 3),
                for_other_thread(self._frontier) as frontier,
            ):
                await self.engine.renew_leases(frontier)

        try:
            asyncio.run(renew())
        except (ShoalError, TimeoutError, OSError):
            pass  # the store is away; a page that loses its lease is told of

    def stop(self) -> None:
        self.engine.stop()

    def force(self) -> None:
        self.engine.force()

    def stopping(self) -> bool:
        return self.engine.stopping

    def feeding_paused(self) -> bool:
        return self._monitor.pressure.feeding_paused

    def report(self) -> TallyReport:
        """What this process has counted."""
        raise NotImplementedError

    def vitals(self) -> Vitals:
        pressure, signals = self._monitor.pressure, self._monitor.signals()
        return Vitals(
            stale=self.engine.stale,
            cpu=time.process_time(),
            processes=1,
            slots=self._slots,
            usable=pressure.slots(self._slots),
            held_by={reason.rule: 1 for reason in pressure.reasons},
            settling_lag=signals.sink_lag,
            loop_lag=signals.loop_lag,
            memory=signals.memory,
            memory_limit=signals.memory_limit,
            open_files=signals.open_files,
            file_limit=signals.file_limit,
            waiting=self.engine.waiting,
        )

    def hangs(self) -> str:
        takes = self.engine.round_takes()
        return f"the engine has not moved for {takes:.0f} s" if takes > _ROUND else ""


class CrawlWorker(Worker):
    """Works on one job until it is done. Whatever keeps the job from going on ends the worker."""

    def __init__(
        self,
        job: str,
        spider: Spider,
        settings: Settings,
        frontier: Frontier,
        sink: Sink,
        tracing: Tracing | None = None,
        *,
        wanted: Wanted = NOTHING_MORE,
    ) -> None:
        """`wanted`: what the output takes besides items."""
        traffic = Traffic()
        self._hooks = ProcessHooks()
        self._runner = JobRunner(
            job,
            spider,
            settings,
            frontier,
            sink,
            traffic=traffic,
            tracing=tracing,
            hooks=self._hooks.of(spider, settings),
            wanted=wanted,
        )
        self._job = OneJob(frontier, self._runner, settings)
        super().__init__(frontier, self._job, settings, traffic)
        self.admission, self.tally = self._runner.admission, self._runner.tally

    async def __aenter__(self) -> Self:
        try:
            await self._runner.open()
            await super().__aenter__()
        except BaseException:
            await self._runner.close()
            raise
        try:
            await self._runner.start_hooks(self._hooks)
        except BaseException as error:
            await self.__aexit__(type(error))
            if isinstance(error, SpiderError):
                raise type(error)(f"{error}; put it right and run the same command again") from error
            raise
        return self

    async def __aexit__(self, kind: object = None, *_: object) -> None:
        try:
            await self._runner.close()
            await self._hooks.close(failing=kind is not None)
        finally:
            await super().__aexit__()  # the watchdog is there until the last hook has ended

    def report(self) -> TallyReport:
        return self.tally.report(in_flight=self.engine.in_flight)

    async def run(self) -> None:
        """Raises an error if the job cannot go on. Pages that no handler takes stay in its queue, and it is paused."""
        await self.engine.run()
        name = self._runner.name
        job = await self._frontier.job(name)
        if job is None or job.created_at != self._runner.made_at:
            raise ShoalError(
                f"job {name} was forgotten or started anew by another command, or its store lost it, so this one ends"
            )
        if (trouble := self._job.trouble) is not None:
            sentence = await with_pages_left(self._frontier, name, trouble)
            await pause_in_trouble(self._frontier, name, sentence)
            raise HandlerMissing(f"job {name} is paused: {sentence}; run the same command again to go on")
        try:
            await self._runner.end_hooks()
        except JobHookError as error:
            raise JobHookError(
                f"job {name} is finished, but not its {error}; run the same command again to repeat that"
            ) from error


async def longest_backlog(frontier: Frontier, jobs: Iterable[Job]) -> Backlog:
    job = max(jobs, key=lambda one: one.counters.pending, default=None)
    if job is None:
        return Backlog()
    backlog = backlog_of(job)
    if backlog.pending and job.counters.waiting:
        lanes = await frontier.lanes(backlog.job)
        return replace(backlog, only_discovery=lanes.keys() == DISCOVERY)
    return backlog


def backlog_of(job: Job) -> Backlog:
    c = job.counters
    ended = c.done + c.dead + c.merged + c.waiting
    return Backlog(job.spec.name, c.pending, max(0, c.admitted - job.fed), ended, feeding=not job.fed_all)


@asynccontextmanager
async def meanwhile(work: Coroutine[None, None, None], main: Stoppable) -> AsyncIterator[None]:
    """Runs `work` beside the block and ends it with the block. If it fails it stops what the block waits for, and its
    error comes out at the end: a worker that no longer looks for jobs must not look alive."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            main.stop()

    task = asyncio.create_task(work)
    task.add_done_callback(ended)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()
