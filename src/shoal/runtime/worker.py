"""One worker process: serves the jobs of its spiders, and hosts the coordinator when it is its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from shoal.engine.guardian import can_resume
from shoal.engine.tally import TallyReport
from shoal.engine.tracing import tracing_if
from shoal.engine.vitals import Pulse, Subject
from shoal.events import event
from shoal.frontier import open_frontier, shown
from shoal.frontier.protocol import Frontier
from shoal.inspect.event_log import EventBook, tell
from shoal.jobs.leader import watch_leader
from shoal.jobs.note import SUMMARY
from shoal.jobs.trouble import check_all_done
from shoal.jobs.worker_status import tell_other_versions
from shoal.policy.load import Traffic
from shoal.runtime.assembly import ProcessCrew
from shoal.runtime.coordinator import Coordinator
from shoal.runtime.fleet_plan import WorkerPlan
from shoal.runtime.lookout import Lookout
from shoal.runtime.roster import Roster
from shoal.runtime.signals import Stoppable, stopping_on_signals
from shoal.telemetry.health import probes_at

Guidance = Callable[[Stoppable], AbstractContextManager[None]]  # what tells the engine to stop


async def serve(
    plan: WorkerPlan,
    guidance: Guidance | None = None,
    tell: Callable[[Subject], Coroutine[None, None, None]] | None = None,
) -> None:
    """Works until it is told to stop; with `until_done`, until no job is left to do. `tell` runs beside it."""
    spiders, settings = plan.load_spiders(), plan.settings()
    async with AsyncExitStack() as stack:
        probes = await stack.enter_async_context(probes_at(plan.metrics))
        tracing = await stack.enter_async_context(tracing_if(plan.trace))
        frontier = await stack.enter_async_context(open_frontier(plan.store, patient=True))
        await stack.enter_async_context(present(frontier, "worker", spiders, plan.store))
        traffic = Traffic()
        lookout = Lookout(frontier)
        roster = Roster(frontier, plan, spiders, settings, traffic, tracing, lookout)
        stack.push_async_callback(roster.close)
        crew = ProcessCrew(frontier, roster, settings, traffic, spiders=tuple(spiders))
        await stack.enter_async_context(crew)
        roster.holds = crew.engine.holds
        subject = crew.subject(lambda: roster.report(in_flight=crew.engine.in_flight))
        probes.watch(frontier, subject, whole_store=False)
        if tell is not None:
            await stack.enter_async_context(meanwhile(tell(subject), crew.engine))
        can_resume()
        if guidance is None:
            guidance = partial(stopping_on_signals, grace=settings.grace)
        stack.enter_context(guidance(crew.engine))
        coordinator = Coordinator(frontier, plan, spiders, name=crew.engine.name, lookout=lookout)
        coordinating = coordinator.run() if plan.coordinates else watch_leader(frontier)
        async with meanwhile(roster.run(), crew.engine), meanwhile(coordinating, crew.engine):
            await crew.engine.run()
        if plan.until_done and tell is None:  # else whoever has started this process looks
            await check_all_done(frontier, lambda spec: plan.serves(spec, spiders))


async def coordinate(plan: WorkerPlan) -> None:
    """Only coordinates, until it is told to stop."""
    spiders = plan.load_spiders()
    async with probes_at(plan.metrics) as probes, open_frontier(plan.store, patient=True) as frontier:
        coordinator = Coordinator(frontier, plan, spiders)
        stop = _Stop()
        with stopping_on_signals(stop, "stopping"), Pulse() as pulse:
            probes.watch(frontier, Subject(TallyReport, pulse.vitals), whole_store=True)
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
