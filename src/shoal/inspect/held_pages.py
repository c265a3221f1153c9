"""Pages that workers hold which are gone. Until their leases run out, they keep the places of their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from shoal.frontier.protocol import Viewing
from shoal.frontier.values import FLIGHTS_SEEN, Flight, HostRecord, Job, WorkerRecord
from shoal.jobs.worker_status import WorkerStatus, is_silent
from shoal.text.humanize import plural, span


class HeldPages(Struct, frozen=True):
    """Pages in flight, of one host or of all, whose workers are gone, or cannot be heard."""

    pages: int
    until: float  # when the last of them is handed out again, at the latest; the frontier's time

    def sentence(self, now: float) -> str:
        left = self.until - now
        when = f"in at most {span(left)}" if left >= 1 else "at any moment"
        are, they = ("is", "it is") if self.pages == 1 else ("are", "they are")
        held = f"{plural(self.pages, 'page')} {are} held by workers that are gone or silent"
        return f"{held}; {they} handed out again {when}"


HeldByHost = Mapping[str, HeldPages]
NOTHING_HELD: HeldByHost = {}


def may_be_held(jobs: Iterable[Job], workers: Sequence[WorkerStatus]) -> bool:
    """Whether more pages are in flight than the workers that can be heard say they have. It costs no read; what they
    say is a moment old, so the answer may be yes although all is well."""
    leased = sum(job.counters.leased for job in jobs)
    told = sum(worker.in_flight for worker in workers if not worker.silent)
    return leased > told or (leased > 0 and any(worker.silent for worker in workers))


async def find_held(frontier: Viewing) -> HeldByHost:
    """By host. Looks at as many leases as `flights` does, so of a very large fleet it may find some only."""
    flights = await frontier.flights(FLIGHTS_SEEN)
    if not flights:
        return {}
    # Asked second: a worker that began in between has leases, and would be taken for one that is gone.
    workers = await frontier.workers()
    return held_by_host(flights, workers, await frontier.now())


def held_by_host(flights: Iterable[Flight], workers: Iterable[WorkerRecord], now: float) -> HeldByHost:
    known = {record.name: record for record in workers}
    found: dict[str, HeldPages] = {}
    for flight in flights:
        record = known.get(flight.worker)
        if record is not None and not is_silent(record, now):
            continue
        # A heartbeat moves the deadlines of leases, but not every home tells a viewer; it never moves them further
        # than the time at which the worker itself counts as gone.
        until = max(flight.lease.deadline, record.until if record is not None else 0.0)
        host = flight.lease.task.host
        before = found.get(host, HeldPages(0, 0.0))
        found[host] = HeldPages(before.pages + 1, max(before.until, until))
    return found


def filling(held: HeldByHost, host: HostRecord) -> HeldPages | None:
    """Those of the host, if they take all its places."""
    found = held.get(host.name)
    return found if found is not None and found.pages >= host.valve.cap else None


def together(held: Iterable[HeldPages]) -> HeldPages | None:
    """Those of all hosts; None: there are none."""
    every = list(held)
    if not every:
        return None
    return HeldPages(sum(one.pages for one in every), max(one.until for one in every))
