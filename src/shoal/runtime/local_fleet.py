"""`shoal up`: several workers on this machine, started, watched and restarted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from shoal.engine.guardian import can_resume
from shoal.engine.lost_workers import report_loss
from shoal.engine.tally import TallyReport, merge
from shoal.engine.vitals import Machine, OwnVitals
from shoal.errors import ShoalError
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.inspect.event_log import EventBook
from shoal.inspect.fleet import FleetSight, Horizon, look_at_fleet
from shoal.jobs.trouble import check_all_done
from shoal.runtime.processes import Child, Lost, subject_of
from shoal.runtime.signals import stopping_on_signals
from shoal.runtime.worker_plan import WorkerPlan
from shoal.telemetry.health import probes_at

log = logging.getLogger("shoal")

_EVERY = 0.5

Watch = Callable[[FleetSight], None]


class Workers:
    """The processes. They last: whatever one dies of, it is started again, after a pause that grows."""

    def __init__(self, plan: WorkerPlan, count: int, lost: Lost | None = None) -> None:
        settings = plan.settings()
        memory = Machine(settings.memory_limit, processes=count).read().memory_limit
        part = replace(plan, flags={**plan.flags, "memory_limit": memory}, metrics="")
        self.grace = settings.grace
        self.children = [
            Child(
                number + 1,
                part,
                grace=self.grace,
                module="shoal.runtime.fleet_child",
                lasting=True,
                lost=lost,
            )
            for number in range(count)
        ]

    def report(self) -> TallyReport:
        return merge([report for child in self.children for report in child.reports])

    async def run(self) -> None:
        await asyncio.gather(*(child.run() for child in self.children))

    def stop(self) -> None:
        for child in self.children:
            child.stop()

    def force(self) -> None:
        for child in self.children:
            child.force()


async def keep_up(plan: WorkerPlan, count: int, watch: Watch) -> FleetSight:
    """Runs `count` workers until a signal, or until all is done if they were told so; answers the last look."""
    async with (
        probes_at(plan.metrics) as probes,
        open_frontier(plan.store, patient=True) as frontier,
        EventBook(frontier),
    ):
        can_resume()
        workers = Workers(plan, count, partial(report_loss, frontier))
        with stopping_on_signals(workers, grace=workers.grace), OwnVitals() as pulse:
            probes.watch(frontier, subject_of(workers.children, workers.report, pulse), whole_store=True)
            looking = asyncio.create_task(_look_regularly(frontier, watch))
            try:
                await workers.run()
            finally:
                looking.cancel()
        if plan.until_done:
            spiders = plan.load_spiders()
            await check_all_done(frontier, lambda spec: plan.serves(spec, spiders))
        return await look_at_fleet(frontier)


async def _look_regularly(frontier: Frontier, watch: Watch) -> None:
    horizon = Horizon()
    while True:
        try:
            watch(await look_at_fleet(frontier, horizon))
        except ShoalError as error:
            log.debug("cannot look at the fleet: %s", error)
        await asyncio.sleep(_EVERY)
