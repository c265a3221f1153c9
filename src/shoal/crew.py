"""The parts of one crawling process, put together: transport, guard, host book, worker, engine."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from typing import Self

from shoal.admit import Admission
from shoal.asking import Asker
from shoal.clock import SystemClock
from shoal.engine import Engine
from shoal.feeding import Feeder
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.frontier.protocol import Frontier, Journal
from shoal.governor import Governor
from shoal.hostbook import HostBook
from shoal.hoststate import state_of
from shoal.observe.tally import Tally, TallyReport
from shoal.plan import Plan
from shoal.policy.signals import Traffic
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
        traffic = Traffic()
        asker = Asker(
            settings,
            hosts=self._hosts,
            transport=self._transport,
            guard=guard,
            traffic=traffic,
            clock=clock,
            rng=random.Random(),
        )
        worker = Worker(
            plan.spider,
            settings,
            admission=self._admission,
            hosts=self._hosts,
            asker=asker,
            tally=self._tally,
            clock=clock,
        )
        name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.engine = Engine(
            frontier,
            worker,
            settings,
            job=plan.job,
            name=name,
            journal=journal,
            pressure=lambda: self._governor.pressure,
        )
        self._governor = Governor(
            settings,
            traffic,
            load=self.engine.load,
            pending=self._pending,
            on_change=frontier.wake,
            clock=clock,
        )
        self._governing: asyncio.Task[None] | None = None

    async def _pending(self) -> int:
        job = await self._frontier.job(self._plan.job)
        return job.counters.pending if job is not None else 0

    async def __aenter__(self) -> Self:
        async for record in self._frontier.hosts(self._plan.job):
            if state_of(record).start:
                self._admission.welcome(record.name)
        await self._hosts.reconfigure(self._plan.job)
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
        await self._transport.close()

    def feeder(self) -> Feeder:
        plan = self._plan
        return Feeder(
            plan.spider,
            self._frontier,
            self._admission,
            plan.settings,
            self._tally,
            job=plan.job,
            paused=lambda: self.feeding_paused,
        )

    @property
    def feeding_paused(self) -> bool:
        return self._governor.pressure.feeding_paused

    def report(self) -> TallyReport:
        return self._tally.report(in_flight=self.engine.in_flight)


def make_admission(spider: Spider, settings: Settings) -> Admission:
    defaults = {name: (handler.lane, handler.priority) for name, handler in spider.handlers.items()}
    first = spider.handler_named("")
    defaults[""] = (first.lane, first.priority)
    return Admission(settings, spider.start_urls_known(), defaults)
