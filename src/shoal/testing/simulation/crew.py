"""The real parts of one worker, put together as in `runtime/worker.py`, in a simulated world."""

from __future__ import annotations

import asyncio

from shoal.engine.dispatcher import Engine
from shoal.engine.feeder import Feeder
from shoal.engine.machine import Reading
from shoal.engine.pressure import Governor
from shoal.engine.served import OneJob
from shoal.engine.tally import Tally
from shoal.fetch.transport import Transport
from shoal.frontier.protocol import Frontier, Journal
from shoal.policy.load import Backlog, Traffic
from shoal.runtime.admission import make_admission
from shoal.runtime.job_runner import JobRunner
from shoal.runtime.plan import Plan
from shoal.runtime.worker import backlog_of
from shoal.testing.simulation.process import Process
from shoal.testing.sinks import JournalSink


class SimulatedCrew:
    def __init__(
        self, plan: Plan, process: Process, frontier: Frontier, transport: Transport, journal: Journal
    ) -> None:
        settings, clock, traffic = plan.settings, process.clock, Traffic()
        self._plan = plan
        self._frontier = frontier
        self._job = JobRunner(
            plan.job,
            plan.spider,
            settings,
            frontier,
            JournalSink(journal),
            traffic=traffic,
            clock=clock,
            rng=process.rng,
            transport=transport,
        )
        self.engine = Engine(
            frontier,
            OneJob(frontier, self._job, settings),
            settings,
            name=process.name,
            pressure=lambda: self._governor.pressure,
        )
        self._governor = Governor(
            settings,
            traffic,
            load=self.engine.load,
            pending=self._pending,
            on_change=frontier.wake,
            clock=clock,
            machine=Reading,  # nothing is known of it: what else runs here must not change the story
        )

    async def run(self) -> None:
        await self._job.open()
        # Without rules there is nothing to feel, and a world is through in half the time.
        governs = bool(self._plan.settings.backpressure)
        governing = [asyncio.create_task(self._governor.run())] if governs else []
        try:
            await self.engine.run()
        finally:
            for task in governing:
                task.cancel()
            await asyncio.gather(*governing, return_exceptions=True)

    async def _pending(self) -> Backlog:
        job = await self._frontier.job(self._plan.job)
        return backlog_of(job) if job is not None else Backlog()


def make_feeder(plan: Plan, frontier: Frontier) -> Feeder:
    settings = plan.settings
    return Feeder(
        plan.spider, frontier, make_admission(plan.spider, settings), settings, Tally(), job=plan.job
    )
