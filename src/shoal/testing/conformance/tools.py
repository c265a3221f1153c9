"""Words for telling what a frontier must do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.protocol import Frontier, Journal
from shoal.frontier.values import Claim, Claimed, Cursor, Job, JobSpec
from shoal.model import Done, Failure, Lease, Row, Settlement, Task, Verdict
from shoal.sink.ownership import FileClaim
from shoal.valve import Valve

OPEN = Valve(interval=0.0, cap=100)  # a valve that lets everything through
FAILED = Failure("timeout", "no answer")


def make_task(url: str, **fields: object) -> Task:
    task = Task(url, handler="page", host=host_key(url), fingerprint=fingerprint(url))
    return replace(task, **fields)


def spec(name: str = "job", valve: Valve = OPEN, **fields: object) -> JobSpec:
    return replace(JobSpec(name, valve=valve), **fields)


async def start_job(
    frontier: Frontier, tasks: Sequence[Task], cursor: Cursor | None = None, **fields: object
) -> None:
    """A job with these fields in its spec, and with these tasks."""
    await frontier.open_job(spec(**fields))  # type: ignore[arg-type]
    await frontier.add("job", tasks, cursor)


def urls_of(leases: Sequence[Lease]) -> list[str]:
    return [lease.task.url for lease in leases]


async def balanced(frontier: Frontier, name: str = "job") -> Job:
    """The job, after checking that its counters add up; also while others work on it."""
    job = await frontier.job(name)
    assert job is not None
    c = job.counters
    assert c.admitted == c.pending + c.delayed + c.leased + c.done + c.dead + c.merged, c
    return job


async def counted(frontier: Frontier, name: str = "job") -> Job:
    """The job, after checking that its counters add up, and its lanes to what is pending."""
    job, lanes = await balanced(frontier, name), await frontier.lanes(name)
    assert sum(lanes.values()) == job.counters.pending, (job.counters, lanes)
    assert min(lanes.values(), default=1) > 0, lanes
    return job


async def claim(
    frontier: Frontier,
    limit: int = 100,
    *,
    worker: str = "w1",
    jobs: Sequence[str] = ("job",),
    lanes: Sequence[str] = ("normal",),
    lease_seconds: float = 60.0,
    made: Mapping[str, float] | None = None,
    ahead: int = 0,
) -> Claimed:
    shares = dict.fromkeys(lanes, limit)
    more = dict.fromkeys(jobs, ahead)
    return await frontier.claim(
        Claim(worker, jobs, shares, limit, lease_seconds, made=made or {}, ahead=more)
    )


async def settle(frontier: Frontier, lease: Lease, verdict: Verdict | None = None, *found: Task) -> bool:
    settled = await frontier.settle([Settlement(lease, verdict or Done(), tuple(found))])
    return settled.accepted[0]


class ListJournal:
    """A journal in memory that behaves like a file: it may hold more than was committed."""

    def __init__(self, key: str = "list") -> None:
        self.key = key
        self.data = b""

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        self.data = self.data[:committed] + b"".join(row.data for row in rows)
        return len(self.data)


class JournalSink:
    """A sink for engines under test: rows go to the journal within the settlement; without one they go nowhere."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal
        self.writes_first = journal is None

    async def open(self, asked: FileClaim | None = None) -> None:
        pass

    async def write(self, batch: Sequence[Settlement]) -> Sequence[Settlement]:
        return batch

    async def close(self) -> None:
        pass
