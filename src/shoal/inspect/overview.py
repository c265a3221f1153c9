"""One look at everything in a store: what `shoal status`, `shoal top`, the dashboard and the metrics show.

It costs about a dozen reads, however many hosts there are. What takes longer (the longest queues, what happened
lately) is asked for now and then, and kept as long as the frontier it was asked of is in use.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.history import History
from shoal.engine.history_recorder import read_history
from shoal.frontier.following import Following
from shoal.frontier.protocol import Frontier, Hosts, Viewing
from shoal.frontier.values import Flight, HostRecord, Job
from shoal.inspect.freshness import Freshness, freshness_of, is_standing
from shoal.inspect.held_pages import (
    NOTHING_HELD,
    HeldByHost,
    HeldPages,
    filling,
    find_held,
    may_be_held,
    together,
)
from shoal.inspect.job import remaining
from shoal.jobs.leader import Term, leader
from shoal.jobs.schedule import Schedule, schedules
from shoal.jobs.trouble import trouble_of
from shoal.jobs.worker_status import WorkerStatus, heard, status_of
from shoal.text import humanize, one_line
from shoal.valve import FOREVER

T = TypeVar("T")

PATIENCE = 1.0  # seconds for those who look again and again
_LEAST = 2.0  # seconds that an answer is good for
_STALE = 30.0  # … of the pages that a job follows, at most: on a busy machine every look takes long
_TIMES = 50.0  # … or so many times what it took, if that is longer


class Throttled(Generic[T]):
    """Repeats a slow query only now and then: it takes a fiftieth of the time at most. A caller that does not want to
    wait gets the last answer while the query runs."""

    def __init__(
        self,
        first: T,
        *,
        patience: float | None = None,
        longest: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`longest`: seconds that an answer is good for at most, however long it took."""
        self._answer = first  # until there is one
        self._longest = longest
        self._patience = patience  # None: without end
        self._clock = clock
        self._good_until = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def get(self, ask: Callable[[], Awaitable[T]]) -> T:
        if self._asking is None and self._clock() >= self._good_until:
            self._asking = asyncio.create_task(self._ask(ask))
            self._asking.add_done_callback(_noticed)
        if (asking := self._asking) is not None:
            await asyncio.wait([asking], timeout=self._patience)
            if asking.done():
                self._asking = None
                asking.result()
        return self._answer

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> None:
        began = self._clock()
        self._answer = await ask()
        ended = self._clock()
        self._good_until = ended + min(self._longest, max(_LEAST, _TIMES * (ended - began)))


def _noticed(asking: asyncio.Task[None]) -> None:
    """Takes the error of a question that nobody waits for any more, or asyncio would log it."""
    if not asking.cancelled():
        asking.exception()


# -- jobs, and who works on them


# How many of a job's longest queues its ETA looks at. The time of a host is its queue times its interval, so a shorter
# queue decides only if its host is slower by more than the queue is shorter: rare beyond the first few, and each costs
# two reads.
_QUEUES = 20


class SlowHost(Struct, frozen=True):
    """A host with one of a job's longest queues."""

    record: HostRecord
    pending: int  # tasks of the job
    waiting: int  # … and of all jobs, retries too: they take turns on the same valve
    through: float  # when they can be done at the earliest, in the frontier's time; inf: no telling
    held: HeldPages | None = None  # pages of workers that are gone, if they take all places of the host


class JobView(Struct, frozen=True):
    job: Job
    rate: float = 0.0  # pages a second, lately, of all workers
    eta: float | None = None  # seconds; None: no telling, or it never ends
    workers: int = 0  # that serve it
    trouble: str = ""  # why it is paused, if not by a person
    slow: Sequence[SlowHost] = ()  # those that its end may depend on, the slowest first
    freshness: Freshness | None = None  # of a standing job
    caught_up: float | None = None  # of a standing job: seconds until nothing is due; None: no telling

    @property
    def progress(self) -> float | None:
        """Share of the known pages that are finished, or wait for their next visit; None: no page is known yet."""
        c = self.job.counters
        through = c.done + c.dead + c.merged + c.waiting
        total = through + remaining(self.job)
        return through / total if total else None


class FollowedLook(Struct, frozen=True):
    """The pages that a job follows, with its counters of the same moment."""

    job: Job
    following: Following
    at: float


async def look_at_followed(frontier: Frontier, job: Job) -> FollowedLook:
    following = await frontier.following(job.spec.name)
    return FollowedLook(await frontier.job(job.spec.name) or job, following, await frontier.now())


class Horizon:
    """Remembers the slow hosts of jobs, and the pages that they follow. With very many of them the store needs long to
    find them, so they are not read every time; when they will be finished does not change from one second to the
    next."""

    def __init__(self) -> None:
        self._jobs: dict[str, Throttled[Sequence[SlowHost]]] = {}
        self._followed: dict[str, Throttled[FollowedLook]] = {}

    async def slow_hosts(self, frontier: Hosts, job: str, now: float) -> Sequence[SlowHost]:
        known = self._jobs.setdefault(job, Throttled((), patience=PATIENCE))
        return await known.get(lambda: slow_hosts(frontier, job, now))

    async def followed(self, frontier: Frontier, job: Job) -> FollowedLook | None:
        """None: it is no standing job, or it has ended."""
        if not is_standing(job) or not is_open(job):
            return None
        unknown = FollowedLook(job, Following(whole=False), 0.0)
        known = self._followed.setdefault(
            job.spec.name, Throttled(unknown, patience=PATIENCE, longest=_STALE)
        )
        return await known.get(lambda: look_at_followed(frontier, job))

    async def freshness(self, frontier: Frontier, job: Job) -> Freshness | None:
        seen = await self.followed(frontier, job)
        return freshness_of(seen.job, seen.following, seen.at) if seen is not None else None

    def keep(self, jobs: Collection[str]) -> None:
        """Forgets all others."""
        self._jobs = {name: self._jobs[name] for name in jobs if name in self._jobs}
        self._followed = {name: self._followed[name] for name in jobs if name in self._followed}


async def look_at_job(
    frontier: Frontier,
    job: Job,
    workers: Sequence[WorkerStatus],
    now: float,
    horizon: Horizon,
    held: HeldByHost = NOTHING_HELD,
) -> JobView:
    name = job.spec.name
    rate = sum(worker.rates.get(name, 0.0) for worker in workers)
    serving = sum(worker.serves(name) for worker in workers)
    running = job.state == "running"
    slow = await horizon.slow_hosts(frontier, name, now) if running and job.counters.pending else ()
    slow = [with_held(host, held) for host in slow]
    ends = eta(job, rate, slow, now) if running else None
    freshness = await horizon.freshness(frontier, job)
    view = JobView(job, rate, ends, serving, await trouble_of(frontier, job), slow)
    return view if freshness is None else replace(view, eta=None, freshness=freshness, caught_up=ends)


def eta(job: Job, rate: float, slow: Sequence[SlowHost], now: float) -> float | None:
    """Seconds until the job is finished, or until nothing is due. It ends with its slowest host, so this is the larger
    of two times: what is left at the present rate, and the longest that a host needs for its queue at its own pace."""
    left = remaining(job)
    if rate <= 0:
        return None
    if left < job.counters.open - job.counters.waiting:
        return left / rate  # the page budget ends it before its queues are empty
    longest = max([left / rate, *(host.through - now for host in slow)])
    return longest if math.isfinite(longest) else None


async def slow_hosts(frontier: Hosts, job: str, now: float) -> Sequence[SlowHost]:
    """The hosts with the job's longest queues; the one that needs most time comes first."""
    queues = await frontier.queues(job, _QUEUES)
    found = [await slow_host(frontier, host, now, pending) for host, pending in queues]
    return sorted((one for one in found if one is not None), key=lambda one: -one.through)


async def slow_host(frontier: Hosts, host: str, now: float, pending: int = 0) -> SlowHost | None:
    record = await frontier.host(host)
    if record is None:
        return None
    valve = record.valve
    queues = await frontier.host_queues(host)
    waiting = sum(queue.pending + queue.delayed - queue.waiting for queue in queues)
    through = math.inf
    if valve.blocked_until < FOREVER:
        each = max(valve.interval, valve.hold / valve.cap)
        through = max(now, valve.blocked_until) + waiting * each
    return SlowHost(record, pending, waiting, through)


def with_held(host: SlowHost, held: HeldByHost) -> SlowHost:
    """Nothing is fetched while pages of workers that are gone take all places of the host."""
    found = filling(held, host.record)
    return host if found is None else replace(host, through=math.inf, held=found)


class PageInFlight(Struct, frozen=True):
    """A page that a worker has in hand."""

    url: str  # without a user or a password
    host: str
    job: str
    lane: str
    attempt: int
    handler: str
    worker: str  # as the store knows it
    pid: int  # 0: its worker is gone
    machine: str
    since: float  # the frontier's time
    seconds: float


async def look_at_flights(frontier: Viewing, limit: int, job: str | None = None) -> Sequence[PageInFlight]:
    workers = {record.name: status_of(record) for record in await frontier.workers()}
    now = await frontier.now()
    return [_sight(one, workers, now) for one in await frontier.flights(limit, job)]


def _sight(flight: Flight, workers: Mapping[str, WorkerStatus], now: float) -> PageInFlight:
    task, status = flight.lease.task, workers.get(flight.worker, WorkerStatus())
    return PageInFlight(
        one_line(task.url),
        task.host,
        task.job,
        task.lane,
        task.attempt,
        task.handler,
        flight.worker,
        status.pid,
        status.node,
        flight.since,
        max(0.0, now - flight.since),
    )


# -- the whole


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


class Overview(Struct, frozen=True):
    now: float
    jobs: Sequence[JobView]
    workers: Sequence[WorkerStatus]
    schedules: Sequence[Schedule]
    leader: Term | None
    lanes: Mapping[str, LaneLoad] = {}  # of the jobs that are open; the fullest first
    # Share of the attempts of the last minutes whose page was handled; None: there were none.
    success: float | None = None
    past: History = History()  # of the jobs that are open, or were a few minutes ago
    held: HeldByHost = {}  # pages in flight whose workers are gone

    @property
    def heard(self) -> Sequence[WorkerStatus]:
        """The workers that are not silent."""
        return [worker for worker in self.workers if not worker.silent]

    @property
    def rate(self) -> float:
        return sum(worker.rate for worker in self.workers)

    @property
    def open(self) -> Sequence[JobView]:
        """The jobs that run or are paused. Nobody waits for what the others left in their queues."""
        return [one for one in self.jobs if is_open(one.job)]

    @property
    def in_flight(self) -> int:
        """With the pages whose workers are gone: their jobs count them, too."""
        return sum(worker.in_flight for worker in self.heard) + sum(one.pages for one in self.held.values())

    @property
    def pending(self) -> int:
        return sum(one.job.counters.pending for one in self.open)

    @property
    def delayed(self) -> int:
        return sum(one.job.counters.delayed for one in self.open)

    @property
    def waiting(self) -> int:
        """Of the delayed pages, those that wait for their next visit."""
        return sum(one.job.counters.waiting for one in self.open)

    @property
    def done(self) -> int:
        return sum(one.job.counters.done for one in self.jobs)

    @property
    def dead(self) -> int:
        return sum(one.job.counters.dead for one in self.jobs)

    @property
    def rejected(self) -> int:
        return sum(one.job.counters.rejected for one in self.jobs)

    @property
    def pressure(self) -> Sequence[HeldBack]:
        return [
            HeldBack(reason.rule, reason.sentence, f"{worker.node}/{worker.pid}")
            for worker in self.workers
            for reason in worker.pressure
        ]

    @property
    def pace(self) -> str:
        """What limits the speed of a crawl that no backpressure rule slows down, in words."""
        slots = sum(worker.slots for worker in self.heard)
        running = any(one.job.state == "running" for one in self.open)
        if not running or not slots or self.pressure:
            return ""
        in_use = sum(worker.used for worker in self.heard)
        used = f"{in_use:,} of {slots:,} slots are used"
        if in_use >= _FULL * slots:
            return f"the slots set the pace: {used}. More concurrency or more workers would help"
        held = together(self.held.values())
        said = held.sentence(self.now) if held is not None else ""
        if said and not any(worker.in_flight for worker in self.heard):
            return said
        if self.pending:
            usual = f"the limits of the hosts set the pace: {used}, and each host gets what its limits allow"
            return f"{usual}; {said}" if said else usual
        if self.in_flight:
            return ""
        if self.delayed > self.waiting:
            return "what is left waits for its next try"
        dues = [one.freshness.next_due for one in self.open if one.freshness is not None]
        if next_due := min((due for due in dues if due is not None and due > self.now), default=None):
            return f"nothing is due: the next visit is in {humanize.span(next_due - self.now)}"
        return ""


def is_open(job: Job) -> bool:
    return job.state in ("running", "paused")


class _Kept:
    """What is not read every time."""

    def __init__(self) -> None:
        self.horizon = Horizon()
        self.past: Throttled[tuple[History, float | None]] = Throttled((History(), None), patience=PATIENCE)
        self.held: Throttled[HeldByHost] = Throttled({}, patience=PATIENCE)


_kept: WeakKeyDictionary[Frontier, _Kept] = WeakKeyDictionary()


async def latest_followed(frontier: Frontier, job: Job) -> FollowedLook | None:
    """The pages that the job follows, as `look` saw them last; None: it is no standing job, or it has ended."""
    return await _kept.setdefault(frontier, _Kept()).horizon.followed(frontier, job)


async def look(frontier: Frontier) -> Overview:
    kept = _kept.setdefault(frontier, _Kept())
    now = await frontier.now()
    workers = [heard(record, now) for record in await frontier.workers()]
    jobs = await frontier.jobs()
    held = await kept.held.get(lambda: find_held(frontier)) if may_be_held(jobs, workers) else {}
    views = [await look_at_job(frontier, job, workers, now, kept.horizon, held) for job in jobs]
    kept.horizon.keep({job.spec.name for job in jobs if is_open(job)})
    recent = [job.spec.name for job in jobs if is_open(job) or job.finished_at > now - LATELY]
    past, success = await kept.past.get(lambda: _past(frontier, recent, now))
    return Overview(
        now,
        views,
        workers,
        sorted((await schedules(frontier)).values(), key=lambda one: one.name),
        await leader(frontier),
        await _lanes(frontier, [job for job in jobs if is_open(job)], workers),
        success,
        past,
        held,
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
