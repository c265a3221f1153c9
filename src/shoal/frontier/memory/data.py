"""The data of the reference home: queues, leases, jobs and domains, in plain dictionaries and heaps."""

from __future__ import annotations

import copy
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.frontier.values import (
    EARLIER,
    MOST_SOURCES,
    OWN_START,
    Cursor,
    HostRecord,
    JobSpec,
    JobState,
    Source,
)
from shoal.frontier.verdicts import marks
from shoal.limits import COUNTER_MOST, COUNTER_NAMES
from shoal.model import DeadLetter, Lease, Task
from shoal.model.counts import OTHER
from shoal.valve import FOREVER, Domain, DomainLimit, strictest


@dataclass
class Queue:
    """One job's pending tasks for one host and lane, best first."""

    job: str
    lane: str
    host: str
    due: bool = False  # its host is due: it stands in the line
    place: float = 0.0  # its place in the line
    heap: list[tuple[int, int, Task]] = field(default_factory=list)

    def push(self, task: Task) -> None:
        heapq.heappush(self.heap, (-task.priority, task.id, task))

    def pop(self) -> Task:
        return heapq.heappop(self.heap)[2]


class Held(NamedTuple):
    """A lease, its worker, and when it was claimed."""

    worker: str
    lease: Lease
    since: float


@dataclass
class JobRecord:
    spec: JobSpec
    state: JobState
    created_at: float
    finished_at: float = 0.0
    sources: dict[str, Source] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    merged: dict[int, str] = field(default_factory=dict)  # page → the URL that it redirected to
    row_keys: set[int] = field(default_factory=set)
    # With dedupe_expires: when pages were done, by what `seen` has of them, and when rows were written.
    passed: dict[int, float] = field(default_factory=dict)
    rows_at: dict[int, float] = field(default_factory=dict)
    per_host: Counter[str] = field(default_factory=Counter)
    letters: dict[int, DeadLetter] = field(default_factory=dict)
    journals: dict[str, int] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    own: dict[str, int] = field(default_factory=dict)  # the spider's own counters
    waiting: set[int] = field(default_factory=set)  # tasks that wait for their next visit

    def open_source(self, name: str, *, again: bool) -> None:
        known = self.sources.get(name)
        if known is None or (again and known.fed_all):
            self.sources[name] = Source()
        if len(self.sources) > MOST_SOURCES:
            self._sum_up()

    def _sum_up(self) -> None:
        through = [name for name, source in self.sources.items() if source.fed_all and name != OWN_START]
        fed = sum(self.sources.pop(name).fed for name in through)
        self.sources[EARLIER] = Source(fed, fed_all=True)

    def move(self, cursor: Cursor) -> None:
        known = self.sources.get(cursor.source, Source())
        fed = known.fed if cursor.fed is None else cursor.fed
        self.sources[cursor.source] = Source(fed, known.fed_all or cursor.fed_all)

    def count_own(self, counts: Iterable[tuple[str, int]]) -> None:
        for name, number in counts:
            if name not in self.own and len(self.own.keys() - {OTHER}) >= COUNTER_NAMES:
                name = OTHER
            self.own[name] = min(self.own.get(name, 0) + number, COUNTER_MOST)

    def see(self, task: Task, now: float) -> None:
        """The page has an open task from now on."""
        self.seen.update(marks(task))
        if task.fingerprint is not None:
            self.reopen(task.fingerprint)
            self.merged.pop(task.fingerprint, None)
        if task.variant is not None and self.spec.dedupe_expires:
            self.passed[task.variant] = now

    def knows(self, mark: int | None, now: float) -> bool:
        """Whether it was seen, and may not be seen again yet."""
        return mark in self.seen and not self._is_over(self.passed.get(mark, now), now)

    def leave(self, task: Task, now: float) -> None:
        """The task of the page has ended."""
        if task.fingerprint is not None and self.spec.dedupe_expires:
            self.passed[task.fingerprint] = now

    def reopen(self, page: int | None) -> None:
        if page is not None:
            self.passed.pop(page, None)

    def known_rows(self, now: float) -> set[int]:
        """The keys of rows that may not be written again yet."""
        return {key for key in self.row_keys if not self._is_over(self.rows_at.get(key, now), now)}

    def _is_over(self, at: float, now: float) -> bool:
        return 0 < self.spec.dedupe_expires <= now - at


def copied(state: Any) -> Any:
    """A deep copy; values that cannot change are shared."""
    if isinstance(state, dict):
        twin = copy.copy(state)  # a Counter stays one
        for key, value in state.items():
            twin[key] = copied(value)
        return twin
    if isinstance(state, list):
        return [copied(value) for value in state]
    if isinstance(state, set):
        return set(state)
    if hasattr(state, "__dict__"):
        twin = copy.copy(state)
        vars(twin).update(copied(vars(state)))
        return twin
    return state


Jobs = Mapping[str, JobRecord]


@dataclass
class _Family:
    """The hosts of one domain, and the jobs that ever had tasks for them."""

    domain: Domain
    hosts: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)

    def limit(self, jobs: Jobs) -> DomainLimit:
        """The strictest of the running jobs; none for a single host."""
        if len(self.hosts) < 2:
            return DomainLimit()
        return strictest(
            job.spec.domain for name, job in jobs.items() if name in self.jobs and job.state == "running"
        )


class Domains:
    """Which hosts share a domain, and what they have in flight."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def meet(self, host: str, job: str) -> None:
        """The job has a task for the host."""
        if name := registrable_domain(host):
            family = self._families.setdefault(name, _Family(Domain(name)))
            family.hosts.add(host)
            family.jobs.add(job)

    def of(self, host: str) -> Domain | None:
        family = self._families.get(registrable_domain(host))
        return family.domain if family is not None and len(family.hosts) > 1 else None

    def due(self, record: HostRecord, jobs: Jobs) -> float:
        """When the domain allows a request to the host."""
        family = self._families.get(registrable_domain(record.name))
        if family is None:
            return 0.0
        due = family.domain.due(family.limit(jobs))
        return due if record.valve.interval or due == FOREVER else 0.0

    def turn(self, record: HostRecord) -> float:
        """When the domain allows a request to the host, however many are in flight."""
        domain = self.of(record.name)
        return domain.next_at if domain is not None and record.valve.interval else 0.0

    def interval(self, record: HostRecord, jobs: Jobs) -> float:
        """Seconds between requests to any host of the domain."""
        family = self._families.get(registrable_domain(record.name))
        return family.limit(jobs).interval if family is not None and record.valve.interval else 0.0

    def allowance(self, record: HostRecord, jobs: Jobs, now: float) -> int:
        family = self._families.get(registrable_domain(record.name))
        if family is None:
            return record.valve.cap
        return family.domain.allowance(family.limit(jobs), record.valve.interval > 0, now)

    def take(self, record: HostRecord, count: int, jobs: Jobs, now: float) -> None:
        if count and (family := self._families.get(registrable_domain(record.name))):
            family.domain = family.domain.take(count, family.limit(jobs), record.valve.interval > 0, now)

    def reserve(self, record: HostRecord, turn: float, jobs: Jobs) -> None:
        if family := self._families.get(registrable_domain(record.name)):
            family.domain = family.domain.reserve(turn, family.limit(jobs), record.valve.interval > 0)

    def refund(self, record: HostRecord, since: float, jobs: Jobs) -> None:
        if family := self._families.get(registrable_domain(record.name)):
            family.domain = family.domain.refund(since, family.limit(jobs), record.valve.interval > 0)

    def give_back(self, host: str) -> None:
        if family := self._families.get(registrable_domain(host)):
            family.domain = family.domain.give_back(1)

    def drop_job(self, job: str) -> None:
        for family in self._families.values():
            family.jobs.discard(job)

    def described(self, record: HostRecord) -> HostRecord:
        """The record with its domain."""
        return replace(record, domain=self.of(record.name))
