"""The pages in flight, as a person looks at them: the ones that have taken longest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from shoal.frontier.protocol import Viewing
from shoal.frontier.values import Flight
from shoal.jobs.worker_status import WorkerStatus, status_of
from shoal.text import one_line


class PageInFlight(Struct, frozen=True):
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
