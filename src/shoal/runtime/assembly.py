"""The parts that crawl, put together: those of one job, and those that a process has once for all its jobs."""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self

from shoal.admit import Admission
from shoal.clock import Clock, SystemClock
from shoal.engine.dispatcher import Engine
from shoal.engine.escalation import Escalation
from shoal.engine.feeder import Feeder
from shoal.engine.fetching import Fetcher
from shoal.engine.guardian import guarded
from shoal.engine.handling import Handling
from shoal.engine.history_recorder import Recorder
from shoal.engine.judging import Judge
from shoal.engine.learning import Learner
from shoal.engine.links import Links
from shoal.engine.lost_workers import report_loss, tell_loss
from shoal.engine.permission import Permission
from shoal.engine.pipeline import Pipeline
from shoal.engine.pressure import Governor
from shoal.engine.served import Jobs, OneJob, Pages
from shoal.engine.tally import Tally, TallyReport
from shoal.engine.vitals import Subject, Vitals
from shoal.engine.watchdog import Watchdog
from shoal.errors import HandlerMissing
from shoal.fetch.browser.executable import available
from shoal.fetch.challenge import Challenges
from shoal.fetch.file_limit import within_file_limit
from shoal.fetch.guard import Guard
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import Transport
from shoal.fetch.transports import AtHosts, Confined, Transports
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job
from shoal.hosts.cache import HostCache
from shoal.hosts.given_up import BuriedPages
from shoal.hosts.robots import RobotsFetcher
from shoal.hosts.state import state_of
from shoal.jobs.note import handlers_of
from shoal.policy.budget import RetryBudget
from shoal.policy.host_table import HostTable
from shoal.policy.load import Backlog, Traffic
from shoal.runtime.plan import Plan, file_claim
from shoal.settings import HostSettings, Settings
from shoal.sink.jsonl import JsonLines
from shoal.sink.ownership import FileClaim
from shoal.sink.protocol import Sink
from shoal.spider.handlers import Yielded, collect
from shoal.spider.spider import Handler, Spider

if TYPE_CHECKING:
    from shoal.engine.tracing import Tracing

Own = Callable[[str], HostSettings]

_ROUND = 60.0  # seconds after which an engine that has not ended its round hangs


def make_pipeline(
    spider: Spider,
    settings: Settings,
    *,
    frontier: Frontier,
    hosts: HostCache,
    robots: RobotsFetcher,
    buried: BuriedPages,
    transport: Transport,
    guard: Guard,
    traffic: Traffic,
    admission: Admission,
    tally: Tally,
    recorder: Recorder,
    clock: Clock,
    frontier_clock: FrontierClock,
    rng: random.Random,
    routes: Routes | None = None,
    browser: bool = False,
    confined: Confined | None = None,
    collecting: Callable[..., Awaitable[Yielded]] = collect,
) -> Pipeline:
    """The steps of a page's path, in their order. `browser`: there is one to open pages with."""
    budget, challenges = RetryBudget(settings), Challenges(settings, browser=browser)
    escalation = Escalation(hosts, frontier_clock, rng, on=challenges.escalates)
    judge = Judge(
        settings, hosts=hosts, budget=budget, challenges=challenges, clock=clock, rng=rng, routes=routes
    )
    learner = Learner(
        settings,
        hosts=hosts,
        buried=buried,
        escalation=escalation,
        traffic=traffic,
        budget=budget,
        clock=clock,
        frontier_clock=frontier_clock,
        routes=routes,
    )
    permission = Permission(
        settings,
        frontier=frontier,
        hosts=hosts,
        robots=robots,
        buried=buried,
        judge=judge,
        learner=learner,
        escalation=escalation,
        clock=clock,
        frontier_clock=frontier_clock,
        rng=rng,
        routes=routes,
        confined=confined,
    )
    fetcher = Fetcher(
        transport,
        hosts=hosts,
        guard=guard,
        frontier_clock=frontier_clock,
        escalation=escalation,
        routes=routes,
        waits=waits_of(spider),
    )
    links = Links(settings, admission=admission, escalation=escalation, tally=tally, now=clock.time)
    handling = Handling(spider, settings, links=links, tally=tally, clock=clock, collecting=collecting)
    return Pipeline(
        settings,
        hosts=hosts,
        buried=buried,
        permission=permission,
        fetcher=fetcher,
        judge=judge,
        learner=learner,
        handling=handling,
        links=links,
        admission=admission,
        tally=tally,
        recorder=recorder,
        routes=routes,
        clock=clock,
        frontier_clock=frontier_clock,
    )


class JobCrew:
    """The parts of one job in one process: its settings, guard, cookies, host cache and sink are its own."""

    def __init__(
        self,
        job: str,
        spider: Spider,
        settings: Settings,
        frontier: Frontier,
        sink: Sink,
        *,
        traffic: Traffic,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        transport: Transport | None = None,
        tracing: Tracing | None = None,
        may_reach: Callable[[str], bool] | None = None,
    ) -> None:
        clock, guard, rng = clock or SystemClock(), Guard(settings.allow_network), rng or random.Random()
        frontier_clock = FrontierClock(clock)
        self.name = job
        self.made_at = 0.0
        self.spider = spider
        self.settings = settings
        self.sink = sink
        self.tally = Tally()
        self._frontier = frontier
        self._hosts = hosts = HostCache(frontier, settings, clock, frontier_clock, job=job)
        self.admission = make_admission(spider, settings, hosts.own)
        web = AtHosts(transport or Transports(settings, guard, clock), hosts.own)
        confined = Confined(web, may_reach) if may_reach is not None else None
        self._transport = routes = Routes(
            confined or web,
            settings,
            frontier,
            traffic=traffic,
            clock=clock,
            rng=rng,
            now=frontier_clock.now,
            handlers=pools_of(spider),
            own=hosts.own,
        )
        self._recorder = Recorder(frontier, job, self.tally, frontier_clock.now)
        pages = make_pipeline(
            spider,
            settings,
            frontier=frontier,
            hosts=hosts,
            robots=RobotsFetcher(routes, hosts, frontier, settings, clock, frontier_clock),
            buried=BuriedPages(frontier, job),
            transport=routes if tracing is None else tracing.transport(routes),
            guard=guard,
            traffic=traffic,
            admission=self.admission,
            tally=self.tally,
            recorder=self._recorder,
            clock=clock,
            frontier_clock=frontier_clock,
            rng=rng,
            routes=routes,
            browser=transport is None and available(settings),
            confined=confined,
            collecting=collect if tracing is None else tracing.collect,
        )
        self.pages: Pages = pages if tracing is None else tracing.pages(pages)

    def __repr__(self) -> str:
        return f"<JobCrew {self.name}>"

    async def open(self, *, reconfigure: bool = True) -> None:
        """`reconfigure`: gives the hosts of a resumed job the valves of these settings."""
        await self.sink.open(await self._file_claim())
        await self._recorder.open()
        job = await self._frontier.job(self.name)
        self.made_at = job.created_at if job is not None else 0.0
        await self._hosts.open(self.made_at)
        async for record in self._frontier.hosts(self.name):
            if state_of(record).start:
                self.admission.welcome(record.name)
        if reconfigure:
            await self._hosts.reconfigure(self.name)

    async def _file_claim(self) -> FileClaim | None:
        journal = self.sink.journal
        job = await self._frontier.job(self.name) if isinstance(journal, JsonLines) else None
        return await file_claim(self._frontier, job, journal.key) if journal and job else None

    async def close(self) -> None:
        await self._transport.close()
        await self.sink.close()


class ProcessCrew:
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
        flight = self._guarded.flight if self._guarded is not None else None
        self._watchdog = Watchdog(settings, flight, self._handler_timeout)
        self.engine = Engine(
            frontier,
            jobs,
            settings,
            name=f"{os.getpid()}-{uuid.uuid4().hex[:8]}",
            pressure=lambda: self._governor.pressure,
            spiders=spiders,
            flight=flight,
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
            mine.flight.name(self.engine.name, self._frontier.obituary(self.engine.name))
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

    def subject(self, report: Callable[[], TallyReport]) -> Subject:
        """This process, for whoever asks how it is; `report` is what it has counted."""
        return Subject(report, self._vitals, self._hangs, lambda: self.engine.stopping)

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


class Crew:
    """A process with one job: `shoal crawl`."""

    def __init__(self, plan: Plan, frontier: Frontier, sink: Sink, tracing: Tracing | None = None) -> None:
        traffic = Traffic()
        self._plan = plan
        self._frontier = frontier
        self._job = JobCrew(
            plan.job, plan.spider, plan.settings, frontier, sink, traffic=traffic, tracing=tracing
        )
        self._jobs = OneJob(frontier, self._job, plan.settings)
        self._process = ProcessCrew(frontier, self._jobs, plan.settings, traffic)
        self.engine = self._process.engine

    async def __aenter__(self) -> Self:
        try:
            await self._job.open()
        except BaseException:
            await self._job.close()
            raise
        await self._process.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._process.__aexit__()
        await self._job.close()

    @property
    def trouble(self) -> HandlerMissing | None:
        """Why the engine ended before its work was done."""
        return self._jobs.trouble

    def was_replaced(self, job: Job | None) -> bool:
        """Whether the job is no longer the one that was opened here."""
        return job is None or job.created_at != self._job.made_at

    def feeder(self) -> Feeder:
        plan, job = self._plan, self._job
        return Feeder(
            plan.spider,
            self._frontier,
            job.admission,
            plan.settings,
            job.tally,
            job=plan.job,
            source=plan.feeds,
            paused=lambda: self.feeding_paused,
        )

    @property
    def feeding_paused(self) -> bool:
        return self._process.feeding_paused

    def report(self) -> TallyReport:
        return self._job.tally.report(in_flight=self.engine.in_flight)

    def subject(self) -> Subject:
        return self._process.subject(self.report)


def backlog_of(job: Job) -> Backlog:
    c = job.counters
    ended = c.done + c.dead + c.merged
    return Backlog(job.spec.name, c.pending, max(0, c.admitted - job.fed), ended, feeding=not job.fed_all)


def make_admission(spider: Spider, settings: Settings, own: Own | None = None) -> Admission:
    """`own`: what is set for a host alone, if more is known of that than the settings say."""
    spider.handler_named("")  # it has one
    return admission_by(handlers_of(spider), settings, spider.start_urls_known(), own)


def admission_by(
    handlers: Mapping[str, tuple[str, int]],
    settings: Settings,
    starts: Iterable[str] = (),
    own: Own | None = None,
) -> Admission:
    """By the handlers' names, lanes and priorities, the first one first."""
    first = next(iter(handlers))
    return Admission(
        settings, starts, {**handlers, "": handlers[first]}, first, own or HostTable(settings.host).of
    )


def pools_of(spider: Spider) -> dict[str, str]:
    """The pools that handlers ask for."""
    return {name: handler.pool for name, handler in _by_name(spider) if handler.pool}


def waits_of(spider: Spider) -> dict[str, str]:
    """What the pages of handlers wait for in a browser."""
    return {name: handler.wait_for for name, handler in _by_name(spider) if handler.wait_for}


def _by_name(spider: Spider) -> list[tuple[str, Handler]]:
    return [*spider.handlers.items(), ("", spider.handler_named(""))]
