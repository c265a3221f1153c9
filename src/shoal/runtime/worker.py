"""One worker process: serves the jobs of its spiders, and hosts the coordinator when it is its turn."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Self

from shoal.clock import SystemClock
from shoal.engine.dispatcher import Engine
from shoal.engine.guardian import can_resume, guarded
from shoal.engine.lost_workers import report_loss, tell_loss
from shoal.engine.pressure import Governor
from shoal.engine.served import Jobs
from shoal.engine.tally import TallyReport
from shoal.engine.tracing import tracing_if
from shoal.engine.vitals import OwnVitals, StatusSource, Vitals
from shoal.engine.watchdog import Watchdog
from shoal.events import event
from shoal.fetch.slots import within_file_limit
from shoal.frontier import open_frontier, shown
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.inspect.event_log import EventBook, tell
from shoal.jobs.leader import watch_leader
from shoal.jobs.note import SUMMARY
from shoal.jobs.trouble import check_all_done
from shoal.jobs.worker_status import tell_other_versions
from shoal.policy.load import Backlog, Traffic
from shoal.runtime.coordinator import Coordinator
from shoal.runtime.served_jobs import RunningJobs, ServedJobs
from shoal.runtime.signals import Stoppable, stopping_on_signals
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import Settings
from shoal.telemetry.health import probes_at

if TYPE_CHECKING:
    pass

Guidance = Callable[[Stoppable], AbstractContextManager[None]]  # what tells the engine to stop


_ROUND = 60.0  # seconds after which an engine that has not ended its round hangs


class Worker:
    """What a process has once: the engine, the governor that holds it back, and the watchdog over its handlers."""

    def __init__(
        self,
        frontier: Frontier,
        jobs: Jobs,
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
        self._watchdog = Watchdog(settings, liveness, self._handler_timeout)
        self.engine = Engine(
            frontier,
            jobs,
            settings,
            name=f"{os.getpid()}-{uuid.uuid4().hex[:8]}",
            pressure=lambda: self._governor.pressure,
            spiders=spiders,
            liveness=liveness,
        )
        self._governor = Governor(
            settings,
            traffic,
            load=self.engine.load,
            pending=self._pending,
            on_change=frontier.wake,
            clock=SystemClock(),
            room=frontier.room,
        )
        self._governing: asyncio.Task[None] | None = None

    def _handler_timeout(self) -> float:
        """The longest that a handler may take now."""
        jobs = self._jobs.everyone()
        return max((job.settings.handler_timeout for job in jobs), default=self._settings.handler_timeout)

    async def _pending(self) -> Backlog:
        """What waits in the fullest of the jobs."""
        backlogs = [backlog_of(job) for job in await self._jobs.records()]
        return max(backlogs, key=lambda one: one.pending, default=Backlog())

    async def __aenter__(self) -> Self:
        if (mine := self._guarded) is not None:
            if mine.loss is not None:
                tell_loss(mine.loss, mine.loss.worker)
                await report_loss(self._frontier, mine.loss)
            mine.liveness.name(self.engine.name, self._frontier.obituary(self.engine.name))
        self._watchdog.start()
        self._governing = asyncio.create_task(self._governor.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._governing is not None:
            self._governing.cancel()
            await asyncio.gather(
                self._governing, return_exceptions=True
            )  # the engine tells of a broken store
        self._watchdog.stop()

    @property
    def feeding_paused(self) -> bool:
        return self._governor.pressure.feeding_paused

    def subject(self, report: Callable[[], TallyReport]) -> StatusSource:
        """This process, for whoever asks how it is; `report` is what it has counted."""
        return StatusSource(report, self._vitals, self._hangs, lambda: self.engine.stopping)

    def _vitals(self) -> Vitals:
        pressure, signals = self._governor.pressure, self._governor.signals()
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

    def _hangs(self) -> str:
        takes = self.engine.round_takes()
        return f"the engine has not moved for {takes:.0f} s" if takes > _ROUND else ""


def backlog_of(job: Job) -> Backlog:
    c = job.counters
    ended = c.done + c.dead + c.merged
    return Backlog(job.spec.name, c.pending, max(0, c.admitted - job.fed), ended, feeding=not job.fed_all)


async def serve(
    plan: WorkerPlan,
    guidance: Guidance | None = None,
    tell: Callable[[StatusSource], Coroutine[None, None, None]] | None = None,
) -> None:
    """Works until it is told to stop; with `until_done`, until no job is left to do. `tell` runs beside it."""
    spiders, settings = plan.load_spiders(), plan.settings()
    async with AsyncExitStack() as stack:
        probes = await stack.enter_async_context(probes_at(plan.metrics))
        tracing = await stack.enter_async_context(tracing_if(plan.trace))
        frontier = await stack.enter_async_context(open_frontier(plan.store, patient=True))
        await stack.enter_async_context(present(frontier, "worker", spiders, plan.store))
        traffic = Traffic()
        running = RunningJobs(frontier)
        roster = ServedJobs(frontier, plan, spiders, settings, traffic, tracing, running)
        stack.push_async_callback(roster.close)
        worker = Worker(frontier, roster, settings, traffic, spiders=tuple(spiders))
        await stack.enter_async_context(worker)
        roster.holds = worker.engine.holds
        subject = worker.subject(lambda: roster.report(in_flight=worker.engine.in_flight))
        probes.watch(frontier, subject, whole_store=False)
        if tell is not None:
            await stack.enter_async_context(meanwhile(tell(subject), worker.engine))
        can_resume()
        if guidance is None:
            guidance = partial(stopping_on_signals, grace=settings.grace)
        stack.enter_context(guidance(worker.engine))
        coordinator = Coordinator(frontier, plan, spiders, name=worker.engine.name, running=running)
        coordinating = coordinator.run() if plan.coordinates else watch_leader(frontier)
        async with meanwhile(roster.run(), worker.engine), meanwhile(coordinating, worker.engine):
            await worker.engine.run()
        if plan.until_done and tell is None:  # else whoever has started this process looks
            await check_all_done(frontier, lambda spec: plan.serves(spec, spiders))


async def coordinate(plan: WorkerPlan) -> None:
    """Only coordinates, until it is told to stop."""
    spiders = plan.load_spiders()
    async with probes_at(plan.metrics) as probes, open_frontier(plan.store, patient=True) as frontier:
        coordinator = Coordinator(frontier, plan, spiders)
        stop = _Stop()
        with stopping_on_signals(stop, "stopping"), OwnVitals() as pulse:
            probes.watch(frontier, StatusSource(TallyReport, pulse.vitals), whole_store=True)
            async with (
                present(frontier, "coordinator", spiders, plan.store),
                meanwhile(coordinator.run(), stop),
            ):
                await stop.told.wait()


@asynccontextmanager
async def present(frontier: Frontier, role: str, spiders: Iterable[str], store: str) -> AsyncIterator[None]:
    """Tells, where all can read it, that this process is there, what happens in it, and that it has ended."""
    async with EventBook(frontier):
        names = ", ".join(name for name in spiders if name != SUMMARY)
        await tell(
            frontier, "worker_started", role=role, spiders=names or "submitted URLs", store=shown(store)
        )
        await tell_other_versions(frontier)
        try:
            yield
        finally:
            event("worker_stopped", role=role)


class _Stop:
    """There is nothing to drain: what was fed is in the store, and another goes on from there."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    def stop(self) -> None:
        self.told.set()

    force = stop


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
