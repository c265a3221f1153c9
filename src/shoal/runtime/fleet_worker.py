"""Worker processes: of a fleet, which serve the jobs of a store and coordinate when they lead, and of a crawl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager

from shoal.engine.guardian import can_resume
from shoal.engine.process_hooks import ProcessHooks
from shoal.engine.tally import TallyReport
from shoal.engine.tracing import Tracing, tracing_if
from shoal.engine.vitals import OwnVitals, Vitals
from shoal.events import event
from shoal.frontier import open_frontier, shown
from shoal.frontier.protocol import Frontier
from shoal.inspect.event_log import EventBook
from shoal.jobs.leader import watch_leader
from shoal.jobs.note import SUMMARY
from shoal.jobs.trouble import check_all_done
from shoal.jobs.worker_status import tell_other_versions
from shoal.policy.load import Traffic
from shoal.runtime.coordinator import Coordinator
from shoal.runtime.served_jobs import RunningJobs, ServedJobs
from shoal.runtime.signals import Stoppable, stopping_on_signals
from shoal.runtime.worker import CrawlWorker, Worker, meanwhile
from shoal.runtime.worker_plan import WorkerPlan
from shoal.sink import open_sink
from shoal.sink.outputs import wanted_by
from shoal.spider import debugging
from shoal.spider.schemas import columns_of
from shoal.spider.served_spiders import ServedSpiders
from shoal.telemetry.endpoint import probes_at

Guidance = Callable[[Stoppable], AbstractContextManager[None]]  # what tells a worker to stop
Report = Callable[[Worker], Coroutine[None, None, None]]  # runs beside a worker and tells how it is doing


class FleetWorker(Worker):
    """Serves the jobs of its spiders until it is told to stop; with `until_done`, until no job is left to do."""

    def __init__(
        self,
        plan: WorkerPlan,
        spiders: ServedSpiders,
        frontier: Frontier,
        tracing: Tracing | None = None,
    ) -> None:
        settings, traffic, running = plan.settings(), Traffic(), RunningJobs(frontier)
        self._plan = plan
        self._hooks = ProcessHooks()
        self._served = ServedJobs(
            frontier, plan, spiders, settings, traffic, tracing, running, hooks=self._hooks
        )
        super().__init__(frontier, self._served, settings, traffic, spiders=spiders.names)
        self._coordinator = Coordinator(frontier, plan, spiders, name=self.engine.name, running=running)

    async def __aexit__(self, kind: object = None, *_: object) -> None:
        try:
            await self._served.close()
            await self._hooks.close(failing=kind is not None)
        finally:
            await super().__aexit__()  # the watchdog is there until the last hook has ended

    def report(self) -> TallyReport:
        return self._served.report(in_flight=self.engine.in_flight)

    async def run(self) -> None:
        coordinating = self._coordinator.run() if self._plan.coordinates else watch_leader(self._frontier)
        async with (
            meanwhile(self._served.run(self.engine.holds), self),
            meanwhile(coordinating, self),
        ):
            await self.engine.run()


async def serve(plan: WorkerPlan, guidance: Guidance | None = None, report: Report | None = None) -> None:
    """Runs the worker of a plan to its end. `guidance` tells it to stop, in place of signals."""
    spiders = plan.load_spiders()
    async with AsyncExitStack() as stack:
        probes = await stack.enter_async_context(probes_at(plan.metrics))
        tracing = await stack.enter_async_context(tracing_if(plan.trace))
        frontier = await stack.enter_async_context(open_frontier(plan.store, patient=plan.crawl is None))
        worker: CrawlWorker | FleetWorker
        if (crawl := plan.crawl) is not None:
            await stack.enter_async_context(EventBook(frontier))
            [spider] = spiders.values()
            sink = open_sink(crawl.output, job=crawl.job, settings=crawl.settings, columns=columns_of(spider))
            wanted = wanted_by(crawl.output)
            worker = CrawlWorker(crawl.job, spider, crawl.settings, frontier, sink, tracing, wanted=wanted)
        else:
            await stack.enter_async_context(present(frontier, "worker", spiders.names, plan.store))
            worker = FleetWorker(plan, spiders, frontier, tracing)
        await stack.enter_async_context(worker)
        probes.watch(frontier, worker, whole_store=False)
        if report is not None:
            await stack.enter_async_context(meanwhile(report(worker), worker))
        can_resume()
        stack.enter_context(debugging.stopped_by_quit(worker.stop))
        stack.enter_context(
            guidance(worker) if guidance else stopping_on_signals(worker, grace=plan.settings().grace)
        )
        await worker.run()
        if plan.until_done and report is None:  # else the process that started this one looks
            await check_all_done(frontier, lambda spec: plan.serves(spec, spiders))


async def coordinate(plan: WorkerPlan) -> None:
    """Only coordinates, until it is told to stop."""
    spiders = plan.load_spiders()
    async with probes_at(plan.metrics) as probes, open_frontier(plan.store, patient=True) as frontier:
        coordinator, process = Coordinator(frontier, plan, spiders), _CoordinatorProcess()
        with stopping_on_signals(process, "stopping"), process.own_vitals:
            probes.watch(frontier, process, whole_store=True)
            async with (
                present(frontier, "coordinator", spiders.names, plan.store),
                meanwhile(coordinator.run(), process),
            ):
                await process.told.wait()


class _CoordinatorProcess:
    """There is nothing to drain: what was fed is in the store, and another process goes on from there."""

    def __init__(self) -> None:
        self.told = asyncio.Event()  # to stop
        self.own_vitals = OwnVitals()

    def stop(self) -> None:
        self.told.set()

    force = stop

    def stopping(self) -> bool:
        return self.told.is_set()

    def report(self) -> TallyReport:
        return TallyReport()

    def vitals(self) -> Vitals:
        return self.own_vitals.vitals()

    def hangs(self) -> str:
        return ""


@asynccontextmanager
async def present(frontier: Frontier, role: str, spiders: Iterable[str], store: str) -> AsyncIterator[None]:
    """Keeps the events of this process in the store, with its start and its end."""
    async with EventBook(frontier):
        names = ", ".join(name for name in spiders if name != SUMMARY) or "submitted URLs"
        event("worker_started", role=role, spiders=names, store=shown(store))
        await tell_other_versions(frontier)
        try:
            yield
        finally:
            event("worker_stopped", role=role)
