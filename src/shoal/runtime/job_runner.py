"""The parts that crawl one job in one process, put together."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.clock import Clock, SystemClock
from shoal.engine.history_recorder import HistoryRecorder, read_history
from shoal.engine.letter_hooks import LetterHooks
from shoal.engine.process_hooks import ProcessHooks
from shoal.engine.recent import RecentRecorder
from shoal.engine.served import Pages
from shoal.engine.tally import Tally
from shoal.engine.webhooks import Webhooks
from shoal.events import event
from shoal.fetch.browser.executable import available
from shoal.fetch.guard import Guard
from shoal.fetch.own_transport import with_own_transport
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import Transport
from shoal.fetch.transports import HostTransport, RestrictedTransport, Transports
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Counters
from shoal.hosts.cache import HostCache
from shoal.hosts.host_state import state_of
from shoal.hosts.proxy_pools import StoredPools
from shoal.hosts.robots import RobotsFetcher
from shoal.hosts.session_notes import SessionNotes
from shoal.jobs.state import StoredState
from shoal.policy.load import Traffic
from shoal.policy.retry import RetryBudget
from shoal.runtime.admission import make_admission
from shoal.runtime.job_hooks import JobHooks
from shoal.runtime.job_output import JobOutput
from shoal.runtime.job_plan import check_cache
from shoal.runtime.page_steps import PageSteps, by_handler
from shoal.settings import Settings
from shoal.sink import Sink
from shoal.sink.outputs import NOTHING_MORE, Wanted
from shoal.spider.handlers import collect
from shoal.spider.hooks import Hooks
from shoal.spider.plugins import hooks_of
from shoal.spider.spider import Spider

if TYPE_CHECKING:
    from shoal.archive.cache import ArchiveCache
    from shoal.engine.tracing import Tracing


class JobRunner:
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
        trusts_tasks: bool = True,
        hooks: Hooks | None = None,
        wanted: Wanted = NOTHING_MORE,
    ) -> None:
        # First of all, as each may be refused, and nothing is open yet.
        self._cache = _cache_of(settings)
        spider = spider.fitted(settings)
        notes = SessionNotes(frontier, settings.session_key)
        accounts = spider.logs_in.find_accounts() if spider.logs_in is not None else {}
        guard, rng = Guard(settings.allow_network), rng or random.Random()
        clock = FrontierClock(clock or SystemClock())
        self._webhooks = Webhooks(settings, clock, rng, os.environ)
        self.name = job
        self.hooks = hooks if hooks is not None else hooks_of(spider, settings)
        self.job_hooks = JobHooks(frontier, self.hooks, settings)
        self.made_at = 0.0
        self.spider = spider
        self.settings = settings
        self.sink = sink
        self.tally = Tally()
        self._frontier = frontier
        self.state = StoredState(frontier, job, lambda: self.made_at)
        self._letters = LetterHooks(self.hooks.on_dead_letter, settings, clock, self.state)
        self._hosts = hosts = HostCache(frontier, settings, clock, job=job)
        self.admission = make_admission(spider, settings, hosts.own)
        web = HostTransport(
            transport or with_own_transport(settings, lambda: Transports(settings, guard, clock)), hosts.own
        )
        confined = RestrictedTransport(web, may_reach) if may_reach is not None else None
        self._transport = routes = Routes(
            confined or web,
            settings,
            StoredPools(frontier),
            traffic=traffic,
            clock=clock,
            rng=rng,
            now=clock.now,
            handlers=by_handler(spider, "pool"),
            countries=by_handler(spider, "country"),
            own=hosts.own,
            trusts_tasks=trusts_tasks,
        )
        start = spider.handler_named("").name
        self.output = JobOutput(job, sink, frontier, settings, lambda: self.made_at)
        self._archiver = self.output.archiver(settings, start)
        self._recorder = HistoryRecorder(
            frontier,
            job,
            self.tally,
            clock.now,
            RecentRecorder(frontier, job, clock.now, start),
        )
        self._budget = RetryBudget(settings)
        steps = PageSteps(
            spider=spider,
            settings=settings,
            frontier=frontier,
            hosts=hosts,
            robots=RobotsFetcher(
                self._archiver.watching(routes, clock.now) if self._archiver else routes,
                hosts,
                frontier,
                settings,
                clock,
            ),
            transport=routes if tracing is None else tracing.transport(routes),
            guard=guard,
            traffic=traffic,
            budget=self._budget,
            job=job,
            notes=notes,
            accounts=accounts,
            admission=self.admission,
            tally=self.tally,
            recorder=self._recorder,
            clock=clock,
            rng=rng,
            routes=routes,
            browser=transport is None and available(settings),
            confined=confined,
            collecting=collect if tracing is None else tracing.collect,
            state=self.state,
            hooks=self.hooks,
            letters=self._letters,
            files=self.output.files,
            archiver=self._archiver,
            cache=self._cache,
            wanted=wanted,
            webhooks=self._webhooks,
            replaces=sink.writes_first,
        )
        pages = steps.pipeline()
        self.pages: Pages = pages if tracing is None else tracing.pages(pages)

    def __repr__(self) -> str:
        return f"<JobRunner {self.name}>"

    async def open(self, *, reconfigure: bool = True) -> None:
        """`reconfigure`: gives the hosts of a resumed job the valves of these settings."""
        await self.output.open()
        await self._recorder.open()
        made = (await read_history(self._frontier, self.name)).total()
        self._budget.resume(made.fetches - made.retries, made.retries)
        job = await self._frontier.job(self.name)
        self.made_at = job.created_at if job is not None else 0.0
        await self._hosts.open(self.made_at)
        async for record in self._frontier.hosts(self.name):
            if state_of(record).start:
                self.admission.welcome(record.name)
        if reconfigure:
            await self._hosts.reconfigure(self.name)
        if self._cache is not None:
            await self._open_cache(self._cache)
        self.output.check_files()

    def hear(self, counters: Counters) -> None:
        """What all processes have done for the job by now."""
        self._budget.hear(counters.done + counters.dead + counters.merged, counters.retried)

    async def _open_cache(self, cache: ArchiveCache) -> None:
        answers = await asyncio.to_thread(cache.open)
        event("cache_opened", job=self.name, folder=self.settings.archive, answers=answers)

    async def start_hooks(self, process: ProcessHooks) -> None:
        """Before its first page here. Raises SpiderError if a hook of the process fails, JobHookError if one of the job
        does."""
        await process.start(self.hooks, self.settings)
        if (self.hooks.on_job_start or self.hooks.on_job_end) and (
            job := await self._frontier.job(self.name)
        ):
            await self.job_hooks.start(job)

    async def end_hooks(self) -> None:
        """If the job is finished, and nobody has run them."""
        await self._letters.close()
        job = await self._frontier.job(self.name) if self.hooks.on_job_end else None
        if job is not None and job.created_at == self.made_at:
            await self.job_hooks.end(job)

    async def close(self) -> None:
        await self._letters.close()
        await self._transport.close()
        await self._webhooks.close()
        if self._archiver is not None:
            self._archiver.close()
        if self._cache is not None:
            if self._cache.broken:
                self.tally.cut("records of the archive that cannot be read", self._cache.broken)
            self._cache.close()
        await self.output.close()


def _cache_of(settings: Settings) -> ArchiveCache | None:
    check_cache(settings)
    if not settings.cache:
        return None
    from shoal.archive.cache import ArchiveCache

    return ArchiveCache(
        Path(settings.archive),
        settings.max_body,
        max_age=settings.cache_age,
        refresh=settings.cache_refresh,
    )
