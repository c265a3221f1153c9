"""One worker process: serves the jobs of its spiders, and hosts the coordinator when it is its turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager

from shoal.crew import ProcessCrew
from shoal.fleet.coordinator import Coordinator
from shoal.fleet.plan import WorkerPlan
from shoal.fleet.roster import Roster
from shoal.frontier import open_frontier
from shoal.jobnote import is_for_fleet
from shoal.plan import finish
from shoal.policy.signals import Traffic
from shoal.signals import Stoppable, stopping_on_signals

log = logging.getLogger("shoal")

Guidance = Callable[[Stoppable], AbstractContextManager[None]]  # what tells the engine to stop


async def serve(plan: WorkerPlan, guidance: Guidance = stopping_on_signals) -> None:
    """Works until it is told to stop; with `until_done`, until no job is left to do."""
    spiders, settings = plan.load_spiders(), plan.settings()
    async with AsyncExitStack() as stack:
        frontier = await stack.enter_async_context(open_frontier(plan.store))
        traffic = Traffic()
        roster = Roster(frontier, plan, spiders, settings, traffic)
        stack.push_async_callback(roster.close)
        crew = ProcessCrew(frontier, roster, settings, traffic, spiders=tuple(spiders))
        await stack.enter_async_context(crew)
        roster.holds = crew.engine.holds
        stack.enter_context(guidance(crew.engine))
        coordinator = Coordinator(frontier, plan, spiders, name=crew.engine.name)
        coordinating = coordinator.run() if plan.coordinates else asyncio.sleep(0)
        async with meanwhile(roster.run(), crew.engine), meanwhile(coordinating, crew.engine):
            await crew.engine.run()
        if plan.until_done:
            for job in await frontier.jobs("running"):
                if job.spec.spider in spiders and is_for_fleet(job.spec):
                    await finish(frontier, job.spec.name)


async def coordinate(plan: WorkerPlan) -> None:
    """Only coordinates, until it is told to stop."""
    spiders = plan.load_spiders()
    async with open_frontier(plan.store) as frontier:
        coordinator = Coordinator(frontier, plan, spiders)
        stop = _Stop()
        with stopping_on_signals(stop, "stopping"):
            async with meanwhile(coordinator.run(), stop):
                await stop.told.wait()


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
