"""The pipeline, with a handler that keeps the answers it is given."""

from __future__ import annotations

import random

from shoal.engine.history_recorder import HistoryRecorder
from shoal.engine.tally import Tally
from shoal.fetch.guard import Guard
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import Transport
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Frontier
from shoal.hosts.cache import HostCache
from shoal.hosts.robots import RobotsFetcher
from shoal.model import Done, Lease, Response, Settlement
from shoal.policy.load import Traffic
from shoal.policy.retry import RetryBudget
from shoal.runtime.admission import make_admission
from shoal.runtime.page_steps import PageSteps
from shoal.settings import Settings
from shoal.spider.handlers import Yielded
from shoal.spider.page import Page
from shoal.spider.spider import Handler, Spider


def page(page: Page) -> None:
    """The handler that tasks of tests name; it is not run."""


class Pages:
    def __init__(
        self,
        settings: Settings,
        frontier: Frontier,
        hosts: HostCache,
        transport: Transport,
        clock: FrontierClock,
        *,
        traffic: Traffic | None = None,
        rng: random.Random | None = None,
        routes: Routes | None = None,
        browser: bool = False,
    ) -> None:
        spider = Spider("any")
        spider.handler(page)
        tally, traffic, rng = Tally(), traffic or Traffic(), rng or random.Random(0)
        if routes is None:
            routes = Routes(
                transport, settings, LocalPools(), traffic=traffic, clock=clock, rng=rng, now=clock.now
            )
        self._taken: list[Response] = []
        self.pipeline = PageSteps(
            spider=spider,
            settings=settings,
            frontier=frontier,
            hosts=hosts,
            robots=RobotsFetcher(transport, hosts, frontier, settings, clock),
            transport=transport,
            routes=routes,
            guard=Guard([]),
            traffic=traffic,
            budget=RetryBudget(settings),
            admission=make_admission(spider, settings),
            tally=tally,
            recorder=HistoryRecorder(frontier, "job", tally, clock.now),
            clock=clock,
            rng=rng,
            browser=browser,
            collecting=self._take,
        ).pipeline()

    async def ask(self, lease: Lease) -> Response | Settlement | None:
        """The answer that a handler got, or how the page ended without."""
        settlement = await self.pipeline.process(lease)
        return (
            self._taken.pop()
            if settlement is not None and isinstance(settlement.verdict, Done)
            else settlement
        )

    async def _take(self, handler: Handler, page: Page, **_: object) -> Yielded:
        self._taken.append(page.response)
        return Yielded()
