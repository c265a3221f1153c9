"""The parts of one crawling process, put together: transport, guard, host book, worker, engine."""

from __future__ import annotations

import os
import random
import uuid
from typing import Self

from shoal.admit import Admission
from shoal.clock import SystemClock
from shoal.engine import Engine
from shoal.feeding import Feeder
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.frontier.protocol import Frontier, Journal
from shoal.hostbook import HostBook, state_of
from shoal.observe.tally import Tally, TallyReport
from shoal.plan import Plan
from shoal.settings import Settings
from shoal.spider import Spider
from shoal.watchdog import Watchdog
from shoal.worker import Worker


class Crew:
    def __init__(self, plan: Plan, frontier: Frontier, journal: Journal) -> None:
        settings, clock = plan.settings, SystemClock()
        guard = Guard(settings.allow_network)
        self._plan = plan
        self._frontier = frontier
        self._tally = Tally()
        self._admission = make_admission(plan.spider, settings)
        self._transport = HttpTransport(settings, guard, clock)
        self._hosts = HostBook(frontier, self._transport, settings, clock)
        self._watchdog = Watchdog(settings)
        worker = Worker(
            plan.spider,
            settings,
            admission=self._admission,
            transport=self._transport,
            hosts=self._hosts,
            guard=guard,
            tally=self._tally,
            clock=clock,
            rng=random.Random(),
        )
        name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.engine = Engine(frontier, worker, settings, job=plan.job, name=name, journal=journal)

    async def __aenter__(self) -> Self:
        async for record in self._frontier.hosts(self._plan.job):
            if state_of(record).start:
                self._admission.welcome(record.name)
        await self._hosts.reconfigure(self._plan.job)
        self._watchdog.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watchdog.stop()
        await self._transport.close()

    def feeder(self) -> Feeder:
        plan = self._plan
        return Feeder(plan.spider, self._frontier, self._admission, plan.settings, self._tally, job=plan.job)

    def report(self) -> TallyReport:
        return self._tally.report(in_flight=self.engine.in_flight)


def make_admission(spider: Spider, settings: Settings) -> Admission:
    defaults = {name: (handler.lane, handler.priority) for name, handler in spider.handlers.items()}
    first = spider.handler_named("")
    defaults[""] = (first.lane, first.priority)
    return Admission(settings, spider.start_urls_known(), defaults)
