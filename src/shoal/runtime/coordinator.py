"""The coordinator does what must be done once for all jobs. Any worker may host it; one leads at a time.

It starts recurring jobs, takes back the leases of workers that died, marks jobs as finished, and warns about jobs that
make no progress. It also feeds the start URLs of jobs whose spiders it has. It never fetches a page. All of it may be
done twice without harm (`jobs/leader.py`).
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

from shoal.engine.feeder import Feeder
from shoal.engine.tally import Tally
from shoal.errors import ShoalError, StoreError
from shoal.events import event
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import OWN_START, Job
from shoal.inspect.retention import SECONDS, find_outdated, prune, prune_letters, retention_of
from shoal.jobs.leader import Leadership, feeder_key
from shoal.jobs.note import is_for_fleet
from shoal.jobs.schedule import start_due_runs
from shoal.jobs.trouble import report_trouble
from shoal.jobs.worker_status import status_of
from shoal.runtime.admission import make_admission
from shoal.runtime.served_jobs import RunningJobs
from shoal.runtime.stalled_jobs import StalledJobs, say_why
from shoal.runtime.submit import finish
from shoal.runtime.worker_plan import WorkerPlan
from shoal.spider.spider import Spider
from shoal.text import error_line

_EVERY = 0.7  # seconds between rounds while jobs run
_SELDOM = 2.0  # … while none does, unless there is news; and between looks at schedules and workers
_LONGEST_LEASE = 15.0
_PRUNE_EVERY = 5.0
_LETTERS_EVERY = 3_600.0
_PAUSE = 2.0  # seconds before it tries again after the store failed


class Coordinator:
    def __init__(
        self,
        frontier: Frontier,
        plan: WorkerPlan,
        spiders: Mapping[str, Spider],
        *,
        name: str = "",
        running: RunningJobs | None = None,
    ) -> None:
        self._frontier = frontier
        self._running = running or RunningJobs(frontier)
        self._stalled = StalledJobs()
        self._name = name = name or f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._retention = retention_of(plan.settings())
        self._prune_at = self._letters_at = 0.0
        lease = min(_LONGEST_LEASE, plan.settings().lease)
        self._leadership = Leadership(frontier, name, lease)
        self._feeders = Feeders(frontier, plan, spiders, name=name, lease=lease)

    async def run(self) -> None:
        await asyncio.gather(_persist(self._feed), _persist(self._lead))

    async def _feed(self) -> None:
        try:
            while True:
                self._feeders.tend(await self._running.get())
                await self._feeders.listen()
                await self._running.change(_EVERY)
        finally:
            await self._feeders.stop()

    async def _lead(self) -> None:
        await self._leadership.lead(self._duties)

    async def _duties(self) -> None:
        event("leader_changed", worker=self._name)
        loop, seldom = asyncio.get_running_loop(), 0.0
        while True:
            news = self._frontier.news.count
            jobs = await self._finish_jobs()
            await self._prune()
            if loop.time() >= seldom:
                await self._look_around(jobs)
                seldom = loop.time() + _SELDOM
            running = any(job.state == "running" for job in jobs)
            await self._frontier.news.after(news, _EVERY if running else _SELDOM)

    async def _finish_jobs(self) -> Sequence[Job]:
        """Marks jobs as finished that have nothing left to do; returns all jobs of the fleet as they were before."""
        frontier = self._frontier
        await frontier.reap()
        jobs = [job for job in await frontier.jobs() if is_for_fleet(job.spec)]
        for job in jobs:
            if job.state == "running" and job.exhausted:
                await finish(frontier, job.spec.name)
            elif job.state == "finished" and not job.exhausted:
                # A process that added work died before it had told every shard of the store.
                await frontier.add(job.spec.name, [])
        return jobs

    async def _look_around(self, jobs: Sequence[Job]) -> None:
        """Starts recurring jobs that are due, and warns about jobs that make no progress."""
        frontier = self._frontier
        still_open = frozenset(job.spec.name for job in jobs if job.state in ("running", "paused"))
        for run in await start_due_runs(frontier, still_open):
            event("schedule_ran", job=run)
        workers = await frontier.workers()
        for job, waited in self._stalled.look(jobs, asyncio.get_running_loop().time()):
            if reason := await say_why(frontier, job, waited, workers):
                event("job_stuck", job=job.spec.name, reason=reason)

    async def _prune(self) -> None:
        """Prunes old jobs every few seconds, and only for a short time: the rest follows in the next round."""
        now = asyncio.get_running_loop().time()
        if now < self._prune_at:
            return
        old = await find_outdated(self._frontier, self._retention)
        gone = await prune(self._frontier, old, SECONDS)
        if now >= self._letters_at:
            await prune_letters(self._frontier, self._retention)
            self._letters_at = now + _LETTERS_EVERY
        self._prune_at = now + (_EVERY if len(gone) < len(old) else _PRUNE_EVERY)


async def _persist(work: Callable[[], Coroutine[None, None, None]]) -> None:
    """Runs `work` for ever, and starts it again when the store fails."""
    while True:
        try:
            await work()
        except ShoalError as error:
            event("coordinating_failed", reason=str(error))
            await asyncio.sleep(_PAUSE)


# -- feeding start URLs

_Made = tuple[str, float]  # a job that is dropped and made anew has the same name, and is another one


class _Fed(Exception):
    """There is no more to feed."""


class Feeders:
    """Feeds the start URLs of running jobs whose spiders are in this process.

    Every job has a lease for its feeder (`jobs/leader.py`): the coordinator need not have its spider, and if a feeder
    dies, another process that has the spider goes on. The position is committed with the URLs, so none is missed, and
    they are deduplicated, so none comes twice."""

    def __init__(
        self, frontier: Frontier, plan: WorkerPlan, spiders: Mapping[str, Spider], *, name: str, lease: float
    ) -> None:
        self._frontier = frontier
        self._plan = plan
        self._spiders = spiders
        self._name = name
        self._lease = lease
        self._feeding: dict[_Made, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._held: set[str] = set()  # jobs whose workers ask for no more

    async def listen(self) -> None:
        """Reads which jobs their workers hold back by backpressure."""
        if self._feeding:
            statuses = [status_of(record) for record in await self._frontier.workers()]
            self._held = {reason.job for status in statuses for reason in status.pressure}

    def tend(self, jobs: Iterable[Job]) -> None:
        """Starts feeders for new jobs, and ends those of jobs that are paused or cancelled. A feeder that has fed
        everything ends by itself, after the store has made sure of the last URLs."""
        mine = {(job.spec.name, job.created_at): job for job in jobs if self._is_mine(job)}
        for made in [made for made, task in self._feeding.items() if task.done() or made not in mine]:
            self._end(self._feeding.pop(made))
        wanted = {made: job for made, job in mine.items() if OWN_START in job.unfed}
        for made in wanted.keys() - self._feeding.keys():
            self._feeding[made] = asyncio.create_task(self._feed(wanted[made]))

    def _end(self, feeding: asyncio.Task[None]) -> None:
        """It has its lease to hand back: else whoever feeds the job next waits until that has run out."""
        feeding.cancel()
        self._ending.add(feeding)
        feeding.add_done_callback(self._ending.discard)

    def _is_mine(self, job: Job) -> bool:
        return job.state == "running" and is_for_fleet(job.spec) and job.spec.spider in self._spiders

    async def _feed(self, job: Job) -> None:
        key = feeder_key(job.spec.name)
        try:
            await Leadership(self._frontier, self._name, self._lease, key).lead(lambda: self._feed_all(job))
        except _Fed:
            pass
        except ShoalError as error:
            event("feeding_failed", job=job.spec.name, reason=str(error))

    async def _feed_all(self, job: Job) -> None:
        name = job.spec.name
        event("feeding_started", job=name)
        try:
            spider = self._spiders[job.spec.spider]
            settings = self._plan.settings_for(job.spec, spider)
            admission = make_admission(spider, settings)
            feeder = Feeder(
                spider,
                self._frontier,
                admission,
                settings,
                Tally(),
                job=name,
                paused=lambda: name in self._held,
            )
            await feeder.feed()
        except StoreError:
            raise
        except ShoalError as error:
            await report_trouble(self._frontier, name, str(error))
        except Exception as error:
            await report_trouble(self._frontier, name, f"its start cannot be fed: {error_line(error)}")
        raise _Fed

    async def stop(self) -> None:
        for feeding in self._feeding.values():
            self._end(feeding)
        self._feeding.clear()
        if self._ending:
            await asyncio.wait(self._ending)
