"""The jobs that a worker serves: opened when they appear in the store, retired when they end.

new, resumed, changed ──▶ opening ──▶ current ──▶ retired ──▶ closed
                            │           │  its job ended, or is opened anew
                            └── aside ◀─┘  its rows cannot be written: tried again after a while
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.engine.process_hooks import ProcessHooks
from shoal.engine.served import EngineJob
from shoal.engine.tally import TallyReport, merge
from shoal.errors import (
    HandlerMissing,
    JobHookError,
    OutputTaken,
    SessionKeyError,
    SettingsError,
    ShoalError,
    SinkError,
    TrustError,
)
from shoal.events import event
from shoal.fetch.browser.executable import available
from shoal.frontier import is_local
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job, JobSpec
from shoal.jobs.note import note_of
from shoal.jobs.trouble import report_trouble, with_pages_left
from shoal.policy.lanes import Lane, cap_of
from shoal.policy.load import Traffic
from shoal.runtime.job_hooks import end_missed, may_have_hooks
from shoal.runtime.job_runner import JobRunner
from shoal.runtime.submit import finish
from shoal.runtime.worker_plan import WorkerPlan
from shoal.settings import BROWSER, Settings
from shoal.sink import Sink, open_sink
from shoal.sink.outputs import wanted_by
from shoal.sink.ownership import Owner
from shoal.spider.schemas import columns_of
from shoal.spider.served_spiders import ServedSpiders
from shoal.spider.spider import Spider
from shoal.text import error_line

if TYPE_CHECKING:
    from shoal.engine.tracing import Tracing
    from shoal.sink.objects.object_spool import SpooledObjects


log = logging.getLogger("shoal")

_EVERY = 0.7  # seconds between rounds; the store is asked when there is news
_FRESH = 5.0  # seconds for which the running jobs are not read again, if there is no news
_ASIDE = 15.0  # seconds before a job whose rows could not be written is tried again


# A job that is dropped and made again has the same name, but not the same past: what a runner remembers of links that
# were admitted would no longer be true. So its time of creation is part of what it is.
Incarnation = tuple[JobSpec, float]

Holds = Callable[[EngineJob], int]


class ServedJobs:
    def __init__(
        self,
        frontier: Frontier,
        plan: WorkerPlan,
        spiders: Mapping[str, Spider],
        settings: Settings,
        traffic: Traffic,
        tracing: Tracing | None = None,
        running: RunningJobs | None = None,
        hooks: ProcessHooks | None = None,
    ) -> None:
        self._frontier = frontier
        self._running = running or RunningJobs(frontier)
        self._plan = plan
        self._spiders = spiders
        self._settings = settings
        self._traffic = traffic
        self._tracing = tracing
        self._hooks = hooks or ProcessHooks()
        self._ending: set[asyncio.Task[None]] = set()  # jobs that are finished, whose hooks run
        self._past = TallyReport()  # of jobs that were closed
        self._known: dict[str, Incarnation] = {}  # what the current ones were opened for
        self._current: dict[str, JobRunner] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._retired: list[JobRunner] = []
        self._aside: dict[str, float] = {}  # until when (the loop's time)
        self._lanes: dict[str, Lane] = {}
        self._has_browser = available(settings)
        self._choose_lanes()

    def __repr__(self) -> str:
        return f"<ServedJobs: {', '.join(self._current) or 'no jobs'}>"

    # -- asked by the engine

    def current(self) -> Sequence[JobRunner]:
        return tuple(self._current.values())

    def everyone(self) -> Sequence[JobRunner]:
        return (*self._current.values(), *self._retired)

    def lanes(self) -> Mapping[str, Lane]:
        return self._lanes

    async def over(self) -> bool:
        """A worker waits for more, unless it was told not to."""
        if not self._plan.until_done or self._opening:
            return False
        for job in await self._frontier.jobs("running"):
            if self._is_mine(job) and not (job.exhausted and await finish(self._frontier, job.spec.name)):
                return False  # there is work left, or somebody has just added some
        return True

    async def records(self) -> Sequence[Job]:
        jobs = [job for job in await self._running.get() if job.spec.name in self._current]
        for job in jobs:
            self._current[job.spec.name].hear(job.counters)
        return jobs

    def set_aside(self, job: EngineJob, error: SinkError | HandlerMissing | SessionKeyError) -> bool:
        if isinstance(error, HandlerMissing):
            self._retire(job.name)
            self._opening[job.name] = asyncio.create_task(self._pause(job.name, error))
            return True
        # A job whose file was taken is opened again at once, which pauses it.
        seconds = 0.0 if isinstance(error, OutputTaken) else _ASIDE
        event("job_set_aside", job=job.name, seconds=seconds, reason=str(error))
        self._aside[job.name] = asyncio.get_running_loop().time() + seconds
        if self._current.get(job.name) is job:
            self._retire(job.name)
        return True

    def report(self, *, in_flight: int) -> TallyReport:
        """What this process has counted for all jobs that it has served."""
        counted = [runner.tally.report(hosts=0) for runner in self.everyone()]
        return merge([TallyReport(in_flight=in_flight), self._past, *counted])

    # -- following the store

    async def run(self, holds: Holds) -> None:
        """Follows the store. `holds`: how many pages of a job the engine has in flight."""
        self._end(self._end_missed())
        self._end(self._finish_missed())
        while True:
            try:
                await self.refresh(holds)
            except ShoalError as error:
                log.debug("cannot look for jobs: %s", error)  # the engine meets the same error and reports it
            if self._plan.until_done:
                self._frontier.wake()
            await self._running.change(_EVERY)

    async def refresh(self, holds: Holds) -> None:
        jobs = [job for job in await self._running.get() if self._is_mine(job)]
        mine: dict[str, Incarnation] = {job.spec.name: (job.spec, job.created_at) for job in jobs}
        now = asyncio.get_running_loop().time()
        for name in [name for name in self._current if mine.get(name) != self._known[name]]:
            self._retire(name)
        for name, found in mine.items():
            if name not in self._current and name not in self._opening and self._aside.get(name, 0.0) <= now:
                self._opening[name] = asyncio.create_task(self._open(found))
        await self._close_retired(holds)

    def _is_mine(self, job: Job) -> bool:
        return job.state == "running" and self._plan.serves(job.spec, self._spiders)

    async def _open(self, found: Incarnation) -> None:
        spec, runner = found[0], None
        try:
            runner = self._checked_runner(spec)
            await runner.open(reconfigure=False)
            await runner.start_hooks(self._hooks)
        except (OutputTaken, TrustError, JobHookError) as error:
            await report_trouble(self._frontier, spec.name, str(error))
            if runner is not None:
                await runner.close()
        except ShoalError as error:
            said = f"job {spec.name} cannot be served here, tried again in {_ASIDE:.0f} s: {error}"
            event("job_set_aside", said, job=spec.name, seconds=_ASIDE, reason=str(error))
            self._aside[spec.name] = asyncio.get_running_loop().time() + _ASIDE
            if runner is not None:
                await runner.close()
        else:
            self._current[spec.name], self._known[spec.name] = runner, found
            self._choose_lanes()
            event("job_served", job=spec.name)
            self._frontier.wake()
        finally:
            del self._opening[spec.name]

    async def _pause(self, name: str, error: HandlerMissing) -> None:
        try:
            await report_trouble(self._frontier, name, await with_pages_left(self._frontier, name, error))
        finally:
            del self._opening[name]

    def _checked_runner(self, spec: JobSpec) -> JobRunner:
        """Raises SettingsError for settings that nobody has checked, such as those that another version has noted.
        Otherwise the same traceback would come with every round, and the job would run without a reason why it does
        not get on."""
        try:
            return self._make_runner(spec)
        except (ValueError, OverflowError) as error:
            log.debug("job %s cannot be opened", spec.name, exc_info=True)
            raise SettingsError(f"its settings cannot be used: {error_line(error)}") from error

    def _make_runner(self, spec: JobSpec) -> JobRunner:
        spider = self._spiders[spec.spider]
        settings = self._plan.settings_for(spec, spider)
        reach = self._plan.reach_for(spider)
        sink = self._open_sink(spec, settings)
        return JobRunner(
            spec.name,
            spider,
            settings,
            self._frontier,
            sink,
            traffic=self._traffic,
            tracing=self._tracing,
            may_reach=reach,
            trusts_tasks=self._plan.trusts(spider),
            hooks=self._hooks.of(spider, settings),
            wanted=wanted_by(self._plan.output_for(spec, spider)),
        )

    def _open_sink(self, spec: JobSpec, settings: Settings) -> Sink:
        spider = self._spiders[spec.spider]
        output = self._plan.output_for(spec, spider)
        return open_sink(
            output,
            job=spec.name,
            local=is_local(self._plan.store),
            settings=settings,
            columns=columns_of(spider),
        )

    def _choose_lanes(self) -> None:
        """The lanes of all jobs, or those of them that this worker was told to serve. None is ever removed: pages of
        jobs that have ended may still be in flight."""
        weights = self._settings.lane_weights
        for runner in self.everyone():
            weights |= runner.settings.lane_weights
        wanted = self._settings.serve or [name for name in weights if name != BROWSER or self._has_browser]
        names = [name for name in wanted if name in weights]
        lanes = {name: Lane(weights[name], cap_of(name, self._settings)) for name in names}
        if lanes != self._lanes:
            self._lanes = {**self._lanes, **lanes}

    # -- ending

    def _retire(self, name: str) -> None:
        event("job_retired", job=name)
        del self._known[name]
        self._retired.append(self._current.pop(name))

    async def _close_retired(self, holds: Holds) -> None:
        """Closes retired jobs that have nothing in flight. What they learnt about hosts is written first."""
        through = [runner for runner in self._retired if not holds(runner)]
        for runner in through:
            await runner.pages.write_back(everything=True)
            self._retired.remove(runner)
            self._past = merge([self._past, runner.tally.report()], hosts=0)
            # A browser takes its time: if this process is told to stop meanwhile, the closing goes on, and what
            # follows it.
            closing = asyncio.create_task(runner.close())
            self._end(self._end_hooks(runner, closing))
            await asyncio.shield(closing)

    def _end(self, hooks: Coroutine[Any, Any, None]) -> None:
        """Runs them beside the jobs that go on."""
        ending = asyncio.create_task(hooks)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end_hooks(self, runner: JobRunner, closing: asyncio.Task[None]) -> None:
        await asyncio.wait([closing])
        try:
            await runner.output.finish_objects()
        except ShoalError as error:
            event("output_unfinished", job=runner.name, error=str(error))
        try:
            await runner.end_hooks()
        except ShoalError as error:
            event("job_hook_failed", job=runner.name, error=str(error))

    async def _end_missed(self) -> None:
        """Runs `on_job_end` of jobs that were finished when the process that was to run it died."""
        spiders = self._spiders
        may_have = bool(self._settings.plugins) or any(map(may_have_hooks, spiders.values()))
        if not may_have and not (isinstance(spiders, ServedSpiders) and spiders.factories):
            return
        name = ""
        try:
            for job in await self._frontier.jobs("finished"):
                name = job.spec.name
                if self._plan.serves(job.spec, self._spiders):
                    spider = self._spiders[job.spec.spider]
                    settings = self._plan.settings_for(job.spec, spider)
                    await end_missed(self._frontier, job, self._hooks, spider, settings)
        except ShoalError as error:
            event("job_hook_failed", job=name, error=str(error))

    async def _finish_missed(self) -> None:
        """Lists the parts of jobs that were finished when the processes that were to do it died."""
        from shoal.runtime.object_endings import finish_objects, is_listed
        from shoal.sink.objects.object_parts import ObjectParts
        from shoal.sink.objects.object_several import SeveralObjects
        from shoal.sink.objects.object_spool import SpooledObjects

        try:
            finished = await self._frontier.jobs("finished")
        except ShoalError as error:
            log.debug("cannot look for outputs that were left: %s", error)  # the next process looks again
            return
        for job in finished:
            if b"://" not in note_of(job.spec).output or not self._plan.serves(job.spec, self._spiders):
                continue
            try:
                settings = self._plan.settings_for(job.spec, self._spiders[job.spec.spider])
                journal = self._open_sink(job.spec, settings).journal
                if isinstance(journal, ObjectParts | SeveralObjects):
                    journal.owner = Owner(job.spec.name, job.created_at)
                    if not await is_listed(job, journal):
                        await finish_objects(self._frontier, job.spec.name, journal)
                elif isinstance(journal, SpooledObjects):
                    await self._ship_missed(job, journal)
            except ShoalError as error:
                event("output_unfinished", job=job.spec.name, error=str(error))

    async def _ship_missed(self, job: Job, journal: SpooledObjects) -> None:
        from shoal.runtime.object_endings import is_listed

        committed = await self._frontier.journal_length(job.spec.name, journal.key)
        journal.owner = Owner(job.spec.name, job.created_at)
        try:
            if committed and not await is_listed(job, journal):
                await asyncio.to_thread(journal.finish, committed)
        finally:
            journal.close()

    async def close(self) -> None:
        for task in list(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), *self._ending, return_exceptions=True)
        for runner in self.everyone():
            closing = asyncio.create_task(runner.close())
            await self._end_hooks(runner, closing)
            await closing


class RunningJobs:
    """The running jobs of a store, read once for all parts of this process.

    A store tells when something happens to a job (`frontier/news.py`). So the jobs are read again when there is news,
    and every few seconds in case some got lost."""

    def __init__(self, frontier: Frontier, rng: random.Random | None = None) -> None:
        self._frontier = frontier
        self._rng = rng or random.Random()
        self._running: Sequence[Job] = ()
        self._seen = -1  # the news that there was before the last look …
        self._epoch = ""  # … and of which store
        self._fresh_until = 0.0
        self._looking = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<RunningJobs: {len(self._running)} jobs run>"

    async def get(self) -> Sequence[Job]:
        """Their states are those of the latest news; their counters may be a few seconds old."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            news, epoch = self._frontier.news.count, self._frontier.epoch
            if (news, epoch) != (self._seen, self._epoch) or now >= self._fresh_until:
                self._running = await self._frontier.jobs("running")
                # Workers that got the news at the same time need not read at the same time for ever.
                self._fresh_until = now + self._rng.uniform(0.8, 1.2) * _FRESH
                self._seen, self._epoch = news, epoch
            return self._running

    async def change(self, seconds: float) -> None:
        """Returns when there is news, at the latest after so many seconds."""
        await self._frontier.news.after(self._seen, seconds)
