"""Finds jobs that make no progress, and says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Job, WorkerRecord
from shoal.inspect.freshness import visited
from shoal.inspect.host import HostView, causes, view_of, with_robots
from shoal.inspect.job import waits_for
from shoal.inspect.lookup import rules_for
from shoal.inspect.overview import slow_hosts
from shoal.jobs.note import SUMMARY, nobody_works
from shoal.jobs.worker_status import WorkerStatus, is_silent, status_of
from shoal.spider.arguments import read_key
from shoal.text import command
from shoal.text.humanize import plural, span
from shoal.valve import FOREVER

log = logging.getLogger("shoal")

LONG = 60.0  # seconds without progress before a job is reported
_AGAIN = 600.0  # seconds before it is reported again


class _Seen(Struct, frozen=True):
    progress: tuple[int, ...]
    since: float
    warned_at: float = float("-inf")


class Silent(Struct, frozen=True):
    """A worker that has not been heard of for a while, and may hold pages."""

    status: WorkerStatus
    silent: float  # seconds since it was heard
    left: float  # seconds until its leases run out


class Facts(Struct, frozen=True):
    """What is known about a job that makes no progress."""

    job: Job
    workers: Sequence[WorkerStatus] = ()  # that can be heard
    silent: Sequence[Silent] = ()
    lanes: Mapping[str, int] = {}  # its pending pages
    hosts: Sequence[HostView] = ()  # those with its longest queues
    now: float = 0.0


class StalledJobs:
    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(self, jobs: Iterable[Job], now: float) -> list[tuple[Job, float]]:
        """The jobs to report, and for how long they have made no progress. `now` is monotonic."""
        due, seen = [], {}
        for job in jobs:
            if job.state != "running":
                continue
            name, progress = job.spec.name, _progress(job)
            last = self._seen.get(name)
            if last is None or last.progress != progress:
                last = _Seen(progress, now)
            elif now - last.since >= LONG and now - last.warned_at >= _AGAIN:
                due.append((job, now - last.since))
                last = _Seen(progress, last.since, now)
            seen[name] = last
        self._seen = seen
        return due


def _progress(job: Job) -> tuple[int, ...]:
    c = job.counters
    return c.admitted, visited(job), c.dead, c.merged, c.retried, job.fed


async def say_why(frontier: Frontier, job: Job, waited: float, workers: Sequence[WorkerRecord]) -> str:
    """The sentence for a job that has not moved for so many seconds; "": nothing of it is due. Reads only its longest
    queues."""
    if await _is_resting(frontier, job):
        return ""
    facts = await gather(frontier, job, workers)
    return f"job {job.spec.name} has not moved for {span(waited)}: {reason(facts)}"


async def _is_resting(frontier: Frontier, job: Job) -> bool:
    """All its pages wait for their next visit, and none is due."""
    c = job.counters
    if not c.waiting or c.waiting < c.open:
        return False
    next_due = (await frontier.following(job.spec.name)).next_due
    return next_due is not None and next_due > await frontier.now() - LONG


async def gather(frontier: Frontier, job: Job, workers: Sequence[WorkerRecord]) -> Facts:
    now, name = await frontier.now(), job.spec.name
    heard = [status_of(record) for record in workers if not is_silent(record, now)]
    silent = [
        Silent(status_of(record), now - record.seen_at, record.until - now)
        for record in workers
        if is_silent(record, now) and status_of(record).serves(name)
    ]
    rules, hosts = rules_for(job), await slow_hosts(frontier, name, now) if job.counters.pending else ()
    sights = [with_robots(view_of(one.record, rules, now, one.pending), rules) for one in hosts]
    return Facts(job, heard, silent, await frontier.lanes(name), sights, now)


def reason(facts: Facts) -> str:
    """The first reason that applies."""
    found = (explain(facts) for explain in _REASONS)
    return next(sentence for sentence in found if sentence)


def _no_worker(facts: Facts) -> str:
    job = facts.job.spec
    names = {job.spider, read_key(job.spider)[0]}
    if any(not names.isdisjoint(worker.spiders) or worker.serves(job.name) for worker in facts.workers):
        return ""
    if facts.silent:
        return f"no worker can be heard; {_last_heard(facts.silent)}"
    if job.spider == SUMMARY:
        return next(iter(nobody_works([job])))
    return f"no worker has its spider {job.spider!r}; start one with: {command('worker FILE.py')}"


def _rows_wait(facts: Facts) -> str:
    """Its database is away, or another process has its file."""
    return next((said for worker in facts.workers if (said := worker.waits.get(facts.job.spec.name))), "")


def _held_by_the_silent(facts: Facts) -> str:
    held = [one for one in facts.silent if one.status.in_flight]
    if not held or not facts.job.counters.leased:
        return ""
    pages = plural(facts.job.counters.leased, "page")
    return f"{pages} in flight, some held by a worker that is silent: {_last_heard(held)}"


def _last_heard(silent: Sequence[Silent]) -> str:
    one = max(silent, key=lambda one: one.left)
    return (
        f"process {one.status.pid} on {one.status.node} was heard {span(one.silent)} ago; if it does not come back,"
        f" others get its pages in {span(max(0.0, one.left))}"
    )


def _held_back(facts: Facts) -> str:
    sentences = dict.fromkeys(
        f"{held.rule}: {held.sentence}"
        for worker in facts.workers
        for held in worker.pressure
        if worker.serves(facts.job.spec.name)
    )
    return f"its workers hold back ({'; '.join(sentences)})" if sentences else ""


def _in_flight(facts: Facts) -> str:
    leased = facts.job.counters.leased
    return (
        f"{plural(leased, 'page')} in flight, which take long; see {command('status --in-flight')}"
        if leased
        else ""
    )


def _no_start(facts: Facts) -> str:
    if facts.job.counters.open:
        return ""
    usual = (
        "it waits for start URLs: the coordinator needs its spider, and whoever submitted URLs must feed them"
    )
    return waits_for(facts.job) or usual


def _no_lane(facts: Facts) -> str:
    serving = [worker for worker in facts.workers if worker.serves(facts.job.spec.name)]
    served = {lane for worker in serving for lane in worker.lanes}
    if not serving or not facts.lanes or served & facts.lanes.keys():
        return ""
    waiting = ", ".join(f"{plural(n, 'page')} in lane {lane}" for lane, n in facts.lanes.items())
    return f"no worker serves the lanes that it needs: {waiting} (settings lanes and serve, shoal worker --lanes)"


def _hosts_wait(facts: Facts) -> str:
    pending = facts.job.counters.pending
    if not pending:
        return ""
    if not facts.hosts:
        return f"{plural(pending, 'page')} wait, and their hosts may not be asked now; see {command('hosts')}"
    first = min(facts.hosts, key=_opens_at)
    many = f"{plural(pending, 'page')} wait for {plural(len(facts.hosts), 'host')}"
    at = _opens_at(first)
    if at >= FOREVER:
        when = "none of them may be asked"
    elif at > facts.now:
        when = f"none may be asked for another {span(at - facts.now)}"
    else:
        when = f"the limits of hosts set the pace ({first.valve.in_flight} of {first.valve.cap} requests in flight)"
    why = [cause.sentence for cause in causes(first)][:1]
    return f"{many}, and {when}{': ' + why[0] if why else ''}; see {command('hosts')}"


def _opens_at(host: HostView) -> float:
    """When it may be asked, as far as time decides."""
    return max(host.valve.next_at, host.valve.blocked_until)


def _delayed(facts: Facts) -> str:
    c = facts.job.counters
    if c.waiting == c.delayed:
        return f"{plural(c.waiting, 'page')} wait for their next visit, and some are due; see {command('status')}"
    return f"{plural(c.delayed - c.waiting, 'page')} wait to be tried again; see {command('hosts')}"


_REASONS: Sequence[Callable[[Facts], str]] = (
    _no_worker,
    _rows_wait,
    _held_by_the_silent,
    _held_back,
    _in_flight,
    _no_start,
    _no_lane,
    _hosts_wait,
    _delayed,
)
