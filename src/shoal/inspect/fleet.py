"""A fleet as a person looks at it: its jobs, how fast they are, when they will be through, and who works on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from shoal.frontier.protocol import Frontier, Hosts
from shoal.frontier.values import HostRecord, Job
from shoal.inspect.progress import remaining
from shoal.inspect.throttled import PATIENCE, Sparing
from shoal.jobs.leader import Term, leader
from shoal.jobs.schedule import Schedule, schedules
from shoal.jobs.trouble import trouble_of
from shoal.jobs.worker_status import WorkerStatus, heard
from shoal.valve import FOREVER

# How many of a job's longest queues its ETA looks at. The time of a host is its queue times its interval, so a shorter
# queue decides only if its host is slower by more than the queue is shorter: rare beyond the first few, and each costs
# two reads.
_QUEUES = 20


class SlowHost(Struct, frozen=True):
    """A host with one of a job's longest queues."""

    record: HostRecord
    pending: int  # tasks of the job
    waiting: int  # … and of all jobs, delayed ones too: they take turns on the same valve
    through: float  # when they can be done at the earliest, in the frontier's time; inf: no telling


class JobSight(Struct, frozen=True):
    job: Job
    rate: float = 0.0  # pages a second, lately, of all workers
    eta: float | None = None  # seconds; None: no telling
    workers: int = 0  # that serve it
    trouble: str = ""  # why it is paused, if not by a person
    slow: Sequence[SlowHost] = ()  # those that its end may depend on, the slowest first

    @property
    def progress(self) -> float | None:
        """Share of what is known that is through; None: nothing is known yet."""
        through = self.job.counters.done + self.job.counters.dead + self.job.counters.merged
        total = through + remaining(self.job)
        return through / total if total else None


class FleetSight(Struct, frozen=True):
    now: float
    jobs: Sequence[JobSight]
    workers: Sequence[WorkerStatus]
    schedules: Sequence[Schedule]
    leader: Term | None

    @property
    def rate(self) -> float:
        return sum(worker.rate for worker in self.workers)


class Horizon:
    """The slow hosts of jobs. With very many hosts they take the store long to find, so they are not asked for at
    every look; but when they will be through does not change from one look to the next."""

    def __init__(self, patience: float | None = PATIENCE) -> None:
        self._patience = patience  # seconds to wait for them; None: as long as it takes
        self._jobs: dict[str, Sparing[Sequence[SlowHost]]] = {}

    async def slow_hosts(self, frontier: Hosts, job: str, now: float) -> Sequence[SlowHost]:
        known = self._jobs.setdefault(job, Sparing((), patience=self._patience))
        return await known.get(lambda: slow_hosts(frontier, job, now))

    def keep(self, jobs: Iterable[str]) -> None:
        """Forgets all others."""
        self._jobs = {name: self._jobs[name] for name in jobs if name in self._jobs}


async def look_at_fleet(frontier: Frontier, horizon: Horizon | None = None) -> FleetSight:
    """Whoever looks again and again does it with one horizon."""
    now = await frontier.now()
    workers = [heard(record, now) for record in await frontier.workers()]
    horizon = horizon or Horizon(patience=None)
    jobs = [await look_at_job(frontier, job, workers, now, horizon) for job in await frontier.jobs()]
    horizon.keep([one.job.spec.name for one in jobs if one.job.state == "running"])
    kept = (await schedules(frontier)).values()
    return FleetSight(now, jobs, workers, sorted(kept, key=lambda s: s.name), await leader(frontier))


async def look_at_job(
    frontier: Frontier, job: Job, workers: Sequence[WorkerStatus], now: float, horizon: Horizon
) -> JobSight:
    name = job.spec.name
    rate = sum(worker.rates.get(name, 0.0) for worker in workers)
    serving = sum(worker.serves(name) for worker in workers)
    running = job.state == "running"
    slow = await horizon.slow_hosts(frontier, name, now) if running and job.counters.pending else ()
    ends = eta(job, rate, slow, now) if running else None
    return JobSight(job, rate, ends, serving, await trouble_of(frontier, job), slow)


def eta(job: Job, rate: float, slow: Sequence[SlowHost], now: float) -> float | None:
    """Seconds until the job is through. It ends with its slowest host, so it is the larger of what is left at the
    present rate, and of the longest time that a host needs for its queue at the pace it may be asked."""
    left = remaining(job)
    if rate <= 0:
        return None
    if left < job.counters.open:
        return left / rate  # the page budget ends it before its queues are empty
    longest = max([left / rate, *(host.through - now for host in slow)])
    return longest if math.isfinite(longest) else None


async def slow_hosts(frontier: Hosts, job: str, now: float) -> Sequence[SlowHost]:
    """The hosts with the job's longest queues, those first that will need the longest."""
    queues = await frontier.queues(job, _QUEUES)
    found = [await slow_host(frontier, host, now, pending) for host, pending in queues]
    return sorted((one for one in found if one is not None), key=lambda one: -one.through)


async def slow_host(frontier: Hosts, host: str, now: float, pending: int = 0) -> SlowHost | None:
    record = await frontier.host(host)
    if record is None:
        return None
    valve = record.valve
    waiting = sum(queue.pending + queue.delayed for queue in await frontier.host_queues(host))
    through = math.inf
    if valve.blocked_until < FOREVER:
        each = max(valve.interval, valve.hold / valve.cap)
        through = max(now, valve.blocked_until) + waiting * each
    return SlowHost(record, pending, waiting, through)
