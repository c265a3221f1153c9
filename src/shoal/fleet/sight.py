"""A fleet as a person looks at it: its jobs, how fast they are, when they will be through, and who works on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from shoal.fleet.leader import Term, leader
from shoal.fleet.schedule import Schedule, schedules
from shoal.fleet.trouble import trouble_of
from shoal.frontier.protocol import FOREVER, Frontier, Job
from shoal.observe.view import remaining
from shoal.workerstatus import WorkerStatus, status_of

# How many of a job's longest queues its ETA looks at. The time of a host is its queue times its interval, so a shorter
# queue decides only if its host is slower by more than the queue is shorter: rare beyond the first few, and each costs
# two reads.
_QUEUES = 20


class JobSight(Struct, frozen=True):
    job: Job
    rate: float = 0.0  # pages a second, lately, of all workers
    eta: float | None = None  # seconds; None: no telling
    workers: int = 0  # that serve it
    trouble: str = ""  # why it is paused, if not by a person


class FleetSight(Struct, frozen=True):
    now: float
    jobs: Sequence[JobSight]
    workers: Sequence[WorkerStatus]
    schedules: Sequence[Schedule]
    leader: Term | None

    @property
    def rate(self) -> float:
        return sum(worker.rate for worker in self.workers)


async def look_at_fleet(frontier: Frontier) -> FleetSight:
    workers = [status_of(record) for record in await frontier.workers()]
    now = await frontier.now()
    jobs = [await look_at_job(frontier, job, workers, now) for job in await frontier.jobs()]
    kept = (await schedules(frontier)).values()
    return FleetSight(now, jobs, workers, sorted(kept, key=lambda s: s.name), await leader(frontier))


async def look_at_job(frontier: Frontier, job: Job, workers: Sequence[WorkerStatus], now: float) -> JobSight:
    name = job.spec.name
    rate = sum(worker.rates.get(name, 0.0) for worker in workers)
    serving = sum(worker.serves(name) for worker in workers)
    trouble = await trouble_of(frontier, job)
    running = job.state == "running" and rate > 0
    return JobSight(job, rate, await eta(frontier, job, rate, now) if running else None, serving, trouble)


async def eta(frontier: Frontier, job: Job, rate: float, now: float) -> float | None:
    """Seconds until the job is through. It ends with its slowest host, so it is the larger of what is left at the
    present rate, and of the longest time that a host needs for its queue at the pace it may be asked."""
    left = remaining(job)
    if left <= 0:
        return 0.0
    if rate <= 0:
        return None
    if left < job.counters.open:
        return left / rate  # the page budget ends it before its queues are empty
    needs = [left / rate]
    for host, _ in await frontier.queues(job.spec.name, _QUEUES):
        needs.append(await _time_of_host(frontier, host, now))
    return longest if math.isfinite(longest := max(needs)) else None


async def _time_of_host(frontier: Frontier, host: str, now: float) -> float:
    """All its queues, for other jobs take their turns on the same valve."""
    record = await frontier.host(host)
    if record is None:
        return 0.0
    valve = record.valve
    if valve.blocked_until >= FOREVER:
        return math.inf
    waiting = sum(queue.pending + queue.delayed for queue in await frontier.host_queues(host))
    return max(0.0, valve.blocked_until - now) + waiting * valve.interval
