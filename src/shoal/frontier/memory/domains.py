"""The domains of the reference home: which hosts belong together, and what they have in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.frontier.memory.state import JobRecord
from shoal.frontier.values import HostRecord
from shoal.valve import FOREVER, Domain, DomainLimit, strictest

Jobs = Mapping[str, JobRecord]


@dataclass
class _Family:
    """The hosts of one domain, and the jobs that ever had tasks for them."""

    domain: Domain
    hosts: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)

    def limit(self, jobs: Jobs) -> DomainLimit:
        """Of the jobs that run, the strictest; a single host has its own limit only."""
        if len(self.hosts) < 2:
            return DomainLimit()
        return strictest(
            job.spec.domain for name, job in jobs.items() if name in self.jobs and job.state == "running"
        )


class Domains:
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
        """When the host may be hit as far as its domain is concerned."""
        family = self._families.get(registrable_domain(record.name))
        if family is None:
            return 0.0
        due = family.domain.due(family.limit(jobs))
        return due if record.valve.interval or due == FOREVER else 0.0

    def interval(self, record: HostRecord, jobs: Jobs) -> float:
        """Seconds between requests to any of its domain's hosts."""
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

    def give_back(self, host: str) -> None:
        if family := self._families.get(registrable_domain(host)):
            family.domain = family.domain.give_back(1)

    def drop_job(self, job: str) -> None:
        for family in self._families.values():
            family.jobs.discard(job)

    def described(self, record: HostRecord) -> HostRecord:
        """The record with what the host shares with others."""
        return replace(record, domain=self.of(record.name))
