"""One look at everything in a store: what `shoal top`, the dashboard and the metrics show.

It costs about a dozen reads, however many hosts there are. What takes longer (the longest queues, what happened
lately) is asked for now and then, and kept as long as the frontier it was asked of is in use.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

from msgspec import Struct

from shoal.engine.history import History
from shoal.engine.history_recorder import read_history
from shoal.frontier.protocol import Frontier, Viewing
from shoal.frontier.values import Job
from shoal.inspect.fleet import FleetSight, Horizon, JobSight, look_at_fleet
from shoal.inspect.throttled import PATIENCE, Sparing
from shoal.jobs.worker_status import WorkerStatus

LATELY = 300.0  # seconds
_FULL = 0.9  # share of the slots


class LaneLoad(Struct, frozen=True):
    pending: int = 0
    in_flight: int = 0


class HeldBack(Struct, frozen=True):
    """A backpressure rule that holds a worker back."""

    rule: str
    sentence: str
    worker: str


class Overview(FleetSight, frozen=True):
    lanes: Mapping[str, LaneLoad] = {}  # of the jobs that are open; the fullest first
    success: float | None = (
        None  # share of the attempts of the last minutes whose page was handled; None: there were none
    )
    past: History = History()  # of the jobs that are open, or were a few minutes ago

    @property
    def open(self) -> Sequence[JobSight]:
        """The jobs that run or are paused. What others have left in their queues is not waited for."""
        return [one for one in self.jobs if is_open(one.job)]

    @property
    def in_flight(self) -> int:
        return sum(worker.in_flight for worker in self.workers)

    @property
    def pending(self) -> int:
        return sum(one.job.counters.pending for one in self.open)

    @property
    def delayed(self) -> int:
        return sum(one.job.counters.delayed for one in self.open)

    @property
    def done(self) -> int:
        return sum(one.job.counters.done for one in self.jobs)

    @property
    def dead(self) -> int:
        return sum(one.job.counters.dead for one in self.jobs)

    @property
    def pressure(self) -> Sequence[HeldBack]:
        return [
            HeldBack(reason.rule, reason.sentence, f"{worker.node}/{worker.pid}")
            for worker in self.workers
            for reason in worker.pressure
        ]

    @property
    def pace(self) -> str:
        """What sets the pace of a crawl that no rule holds back."""
        slots = sum(worker.slots for worker in self.workers)
        running = any(one.job.state == "running" for one in self.open)
        if not running or not slots or self.pressure:
            return ""
        in_use = sum(worker.used for worker in self.workers)
        used = f"{in_use:,} of {slots:,} slots are used"
        if in_use >= _FULL * slots:
            return f"the slots set the pace: {used}. More concurrency or more workers would help"
        if self.pending:
            return f"the limits of the hosts set the pace: {used}, and each host gets what its limits allow"
        if self.delayed and not self.in_flight:
            return "what is left waits for its next try"
        return ""


def is_open(job: Job) -> bool:
    return job.state in ("running", "paused")


class _Kept:
    """What is not asked for at every look."""

    def __init__(self) -> None:
        self.horizon = Horizon()
        self.past: Sparing[tuple[History, float | None]] = Sparing((History(), None), patience=PATIENCE)


_kept: WeakKeyDictionary[Frontier, _Kept] = WeakKeyDictionary()


async def look(frontier: Frontier) -> Overview:
    kept = _kept.setdefault(frontier, _Kept())
    fleet = await look_at_fleet(frontier, kept.horizon)
    now, jobs = fleet.now, [one.job for one in fleet.jobs]
    recent = [job.spec.name for job in jobs if is_open(job) or job.finished_at > now - LATELY]
    past, success = await kept.past.get(lambda: _past(frontier, recent, now))
    lanes = await _lanes(frontier, [job for job in jobs if is_open(job)], fleet.workers)
    return Overview(
        now,
        fleet.jobs,
        fleet.workers,
        fleet.schedules,
        fleet.leader,
        lanes,
        success,
        past,
    )


async def _past(frontier: Frontier, jobs: Iterable[str], now: float) -> tuple[History, float | None]:
    past = History()
    for history in await asyncio.gather(*(read_history(frontier, job) for job in jobs)):
        past = past.merged(history)
    return past, past.since(now - LATELY).success


async def _lanes(
    frontier: Viewing, jobs: Iterable[Job], workers: Iterable[WorkerStatus]
) -> Mapping[str, LaneLoad]:
    waiting = [job.spec.name for job in jobs if job.counters.pending]
    pending: Counter[str] = Counter()
    for lanes in await asyncio.gather(*(frontier.lanes(job) for job in waiting)):
        pending.update(lanes)
    in_flight: Counter[str] = Counter()
    for worker in workers:
        in_flight.update(worker.flights)
    loads = {lane: LaneLoad(pending[lane], in_flight[lane]) for lane in {*pending, *in_flight}}
    return dict(sorted(loads.items(), key=lambda pair: (-pair[1].pending, pair[0])))
