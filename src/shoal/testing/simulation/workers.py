"""Simulated workers: the real parts, in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.engine.dispatcher import Engine
from shoal.engine.feeder import Feeder
from shoal.engine.pressure import PressureMonitor
from shoal.engine.served import EngineJobs, OneJob
from shoal.engine.tally import Tally
from shoal.engine.vitals import Reading
from shoal.fetch.transport import Transport
from shoal.frontier.protocol import Frontier, Journal
from shoal.frontier.values import JobSpec
from shoal.policy.load import Backlog, Traffic
from shoal.runtime.admission import make_admission
from shoal.runtime.coordinator import Coordinator
from shoal.runtime.job_plan import JobPlan
from shoal.runtime.job_runner import JobRunner
from shoal.runtime.served_jobs import RunningJobs, ServedJobs
from shoal.runtime.worker import backlog_of, meanwhile
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import Settings
from shoal.sink import Sink
from shoal.sink.outputs import Wanted
from shoal.spider.spider import Spider
from shoal.testing.conformance.tools import JournalSink
from shoal.testing.simulation.virtual import Process


class _Worker:
    """An engine and its pressure monitor, put together as in `shoal.runtime.worker`."""

    def __init__(
        self, plan: JobPlan, process: Process, frontier: Frontier, served: EngineJobs, traffic: Traffic
    ) -> None:
        self._frontier = frontier
        self._served = served
        self._monitors = bool(plan.settings.backpressure)
        self.engine = Engine(
            frontier,
            served,
            plan.settings,
            name=process.name,
            pressure=lambda: self._monitor.pressure,
            spiders=(plan.spider.name,),
        )
        self._monitor = PressureMonitor(
            plan.settings,
            traffic,
            load=self.engine.load,
            pending=self._pending,
            on_change=frontier.wake,
            clock=process.clock,
            machine=Reading,  # nothing is known of it: what else runs here must not change the story
        )

    @asynccontextmanager
    async def _monitored(self) -> AsyncIterator[None]:
        # Without rules there is nothing to feel, and a world is through in half the time.
        monitoring = [asyncio.create_task(self._monitor.run())] if self._monitors else []
        try:
            yield
        finally:
            for task in monitoring:
                task.cancel()
            await asyncio.gather(*monitoring, return_exceptions=True)

    async def _pending(self) -> Backlog:
        jobs = [await self._frontier.job(job.name) for job in self._served.current()]
        backlogs = [backlog_of(job) for job in jobs if job is not None]
        return max(backlogs, key=lambda one: one.pending, default=Backlog())


class CrawlWorker(_Worker):
    """A worker of one crawl."""

    def __init__(
        self, plan: JobPlan, process: Process, frontier: Frontier, transport: Transport, journal: Journal
    ) -> None:
        traffic = Traffic()
        self._job = JobRunner(
            plan.job,
            plan.spider,
            plan.settings,
            frontier,
            JournalSink(journal),
            traffic=traffic,
            clock=process.clock,
            rng=process.rng,
            transport=transport,
            wanted=Wanted(changes=True),
        )
        super().__init__(plan, process, frontier, OneJob(frontier, self._job, plan.settings), traffic)

    async def run(self) -> None:
        await self._job.open()
        async with self._monitored():
            await self.engine.run()


class _OwnPlan(WorkerPlan, frozen=True, kw_only=True):
    own: Settings

    def settings(self, spider: Spider | None = None) -> Settings:
        return self.own

    def settings_for(self, spec: JobSpec, spider: Spider) -> Settings:
        return self.own


class _SimulatedJobs(ServedJobs):
    """Serves its jobs from the generated web."""

    def __init__(
        self,
        plan: JobPlan,
        process: Process,
        frontier: Frontier,
        transport: Transport,
        sink: Sink,
        traffic: Traffic,
        running: RunningJobs,
    ) -> None:
        spiders = {plan.spider.name: plan.spider}
        super().__init__(frontier, _own(plan), spiders, plan.settings, traffic, running=running)
        self._process = process
        self._web = transport
        self._sink = sink

    def _make_runner(self, spec: JobSpec) -> JobRunner:
        return JobRunner(
            spec.name,
            self._spiders[spec.spider],
            self._settings,
            self._frontier,
            self._sink,
            traffic=self._traffic,
            clock=self._process.clock,
            rng=self._process.rng,
            transport=self._web,
            wanted=Wanted(changes=True),
        )


class FleetWorker(_Worker):
    """A worker of a fleet. It serves the jobs that it finds in the store, and coordinates when it is its turn."""

    def __init__(
        self, plan: JobPlan, process: Process, frontier: Frontier, transport: Transport, sink: Sink
    ) -> None:
        traffic, running = Traffic(), RunningJobs(frontier, process.rng)
        self._jobs = _SimulatedJobs(plan, process, frontier, transport, sink, traffic, running)
        super().__init__(plan, process, frontier, self._jobs, traffic)
        spiders = {plan.spider.name: plan.spider}
        self._coordinator = Coordinator(frontier, _own(plan), spiders, name=process.name, running=running)

    async def run(self) -> None:
        try:
            async with (
                self._monitored(),
                meanwhile(self._jobs.run(self.engine.holds), self.engine),
                meanwhile(self._coordinator.run(), self.engine),
            ):
                await self.engine.run()
        finally:
            await self._jobs.close()


def _own(plan: JobPlan) -> WorkerPlan:
    return _OwnPlan((), "", own=plan.settings)


def make_feeder(plan: JobPlan, frontier: Frontier) -> Feeder:
    settings = plan.settings
    return Feeder(
        plan.spider, frontier, make_admission(plan.spider, settings), settings, Tally(), job=plan.job
    )
