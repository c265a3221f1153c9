"""Feeding several jobs at once, each by one process that has its spider.

Every job that is being fed has a lease of its own (see `leader.py`): whoever coordinates need not have its spider, and
if the one that feeds dies, another that has it goes on. The position is committed with the URLs, so none is missed;
and they are deduplicated, so none comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from shoal.engine.feeder import Feeder
from shoal.engine.tally import Tally
from shoal.errors import ShoalError, StoreError
from shoal.events import event
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import OWN_START, Job
from shoal.jobs.leader import Leadership, feeder_key
from shoal.jobs.note import is_for_fleet
from shoal.jobs.trouble import report_trouble
from shoal.jobs.worker_status import status_of
from shoal.runtime.admission import make_admission
from shoal.runtime.worker_plan import WorkerPlan
from shoal.spider.spider import Spider
from shoal.text import error_line

_Made = tuple[str, float]  # a job that is dropped and made anew has the same name, and is another one


class _Fed(Exception):
    """There is no more to feed."""


class Feeders:
    """Feeds the start of every running job that has not been fed to the end and whose spider is here, when it is this
    process's turn."""

    def __init__(
        self, frontier: Frontier, plan: WorkerPlan, spiders: Mapping[str, Spider], *, name: str, lease: float
    ) -> None:
        self._frontier = frontier
        self._plan = plan
        self._spiders = spiders
        self._name = name
        self._lease = lease
        self._feeding: dict[_Made, asyncio.Task[None]] = {}
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
            self._feeding.pop(made).cancel()
        wanted = {made: job for made, job in mine.items() if OWN_START in job.unfed}
        for made in wanted.keys() - self._feeding.keys():
            self._feeding[made] = asyncio.create_task(self._feed(wanted[made]))

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
        name, spider = job.spec.name, self._spiders[job.spec.spider]
        event("feeding_started", job=name)
        try:
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
        tasks = list(self._feeding.values())
        self._feeding.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
