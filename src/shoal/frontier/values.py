"""What the verbs of a frontier take and return: jobs, claims, hosts, notes, filters of dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from shoal.model import REJECTED, DeadLetter, Failure, Lease, Task
from shoal.valve import Domain, DomainLimit, Valve

JobState = Literal["running", "paused", "finished", "cancelled"]


class HostRecord(Struct, frozen=True):
    """A host as stored: its valve, and its state, which the frontier does not read."""

    name: str
    valve: Valve
    state: bytes = b""
    version: int = 0  # grows by one with every update_host
    domain: Domain | None = (
        None  # what it shares with other hosts; None: its domain has no other. Not for update_host
    )


class HostPage(Struct, frozen=True):
    """Some of the hosts of a store."""

    hosts: Sequence[tuple[HostRecord, int]]  # each with the number of tasks that are pending for it
    after: str  # where the next page begins; "": there is none


class JobSpec(Struct, frozen=True):
    """What the frontier needs to know about a job."""

    name: str
    spider: str = ""
    valve: Valve = field(default_factory=Valve)  # for hosts first seen through this job
    max_attempts: int = 5
    max_pages: int = 0  # 0: no budget. At most this many tasks ever become done
    max_pages_per_host: int = 0  # admissions per host
    settings: bytes = b""  # a note of the engine about the settings of the last run
    priority: int = 0  # a job with a higher one is served first; equal ones take turns
    # bloom: 2 bytes a URL, but 1 in 2,000 new URLs is taken for known up to `capacity` URLs, and 1 in 1,000 beyond. A
    # home may be exact all the same.
    dedupe: Literal["exact", "bloom"] = "exact"
    capacity: int = 0
    dedupe_expires: float = 0.0  # seconds after which a page that was done may be seen again; 0: never
    domain: DomainLimit = (
        DomainLimit()
    )  # for all hosts of a domain; of several running jobs there the strictest holds


class Counters(Struct, frozen=True):
    """Where a job's tasks are. `admitted` is always the sum of the six that follow it."""

    admitted: int = 0
    pending: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    merged: int = 0  # redirected to a page that has a task of its own
    retried: int = 0  # attempts that ended in a retry
    duplicates: int = 0  # refused by dedupe
    over_budget: int = 0  # refused by a host's page budget
    stale: int = 0  # settlements refused because the lease was lost
    items: int = 0  # rows written
    links_cut: int = 0  # links that were not taken, because a page had more than max_links
    rejected: int = 0  # items that are kept among the dead letters; no tasks, unless they are replayed
    waiting: int = 0  # of the delayed ones: those that wait for their next visit

    @property
    def open(self) -> int:
        return self.pending + self.delayed + self.leased


class Source(Struct, frozen=True):
    """A source of a job's start URLs, and how far it was read."""

    fed: int = 0  # how many URLs have been read
    fed_all: bool = False  # no more will come from it


OWN_START = ""  # the source that is the spider's own start
EARLIER = "earlier"  # the sum of sources that were fed long ago
MOST_SOURCES = 100  # of a job, before those that are fed are summed up


class Cursor(Struct, frozen=True):
    """The new position of a source, set together with the tasks that were read from it."""

    source: str = OWN_START
    fed: int | None = None  # None: where it is
    fed_all: bool = False  # stays true until the source is opened again


class Job(Struct, frozen=True):
    spec: JobSpec
    state: JobState
    counters: Counters
    created_at: float
    finished_at: float = 0.0
    fed: int = 0  # how many start URLs have been read, from all sources
    fed_all: bool = False  # no more start URLs will come: every source that was opened was fed to its end
    sources: Mapping[str, Source] = {}  # by name; OWN_START among them if the spider's start is fed
    counts: Mapping[str, int] = {}  # the job's own counters, in the order of their names

    @property
    def exhausted(self) -> bool:
        """Nothing is left to do, or the page budget is used up."""
        c, budget = self.counters, self.spec.max_pages
        if budget and c.done >= budget:
            return True
        return self.fed_all and c.open == 0

    @property
    def idle(self) -> bool:
        """Nothing is left to do but later visits of pages."""
        c = self.counters
        return self.fed_all and c.open == c.waiting

    @property
    def unfed(self) -> Sequence[str]:
        """The sources that still have URLs, as far as the store knows."""
        return [name for name, source in self.sources.items() if not source.fed_all]


def fed_of(sources: Mapping[str, Source]) -> tuple[int, bool]:
    """`fed` and `fed_all` of a job with these sources. Without any, the job is not fed yet."""
    known = sources.values()
    return sum(source.fed for source in known), bool(known) and all(source.fed_all for source in known)


PAST_JOBS = 200  # that are remembered


class PastJob(Struct, frozen=True):
    """What is left of a job that was pruned: how it ended, and a short history."""

    job: Job
    pruned_at: float
    summary: bytes = b""  # the frontier does not read it


class Claim(Struct, frozen=True):
    """What a worker can start now."""

    worker: str
    jobs: Sequence[str]
    lanes: Mapping[str, int]  # how many of each lane, in order of preference
    limit: int  # and how many in all
    lease_seconds: float = 60.0
    spare: Mapping[str, int] = {}  # how many of each lane at most, of what the lanes leave of the limit
    # When these jobs were made, as the worker knows them. It gets nothing of a job that was made again since: what it
    # remembers of it, such as admitted links, would be wrong.
    made: Mapping[str, float] = {}
    # How many tasks of a host it takes beyond those that the valve allows, by job: to answer them from a cache. Such a
    # lease (`Lease.ahead`) has neither a turn nor a place of its host. A home may give fewer, or none.
    ahead: Mapping[str, int] = {}

    def rounds(self) -> Sequence[Mapping[str, int]]:
        """The most to take of each lane: first by the shares, then of the rest."""
        return (self.lanes, self.spare) if self.spare else (self.lanes,)

    def means(self, job: str, created_at: float) -> bool:
        return self.made.get(job, created_at) == created_at


class Claimed(Struct, frozen=True):
    leases: Sequence[Lease]
    next_due: float  # seconds until a claim may succeed if nothing changes; FOREVER: only a change helps
    now: float = 0.0  # the frontier's time at the claim
    # Seconds after which to claim again in any case. Before that, the home ends `wait` when it is this worker's turn;
    # at `next_due` it may be another one's. None: the home tells nobody, so claim whenever there is room.
    again: float | None = None


class Turn(Struct, frozen=True):
    """A host's next turn, for a request inside a page."""

    wait: float  # seconds until it
    taken: bool  # False: it is too far away, and nothing was changed
    interval: float  # the host's seconds between requests
    host_version: int  # of the HostRecord


Fate = Literal["new", "duplicate", "over_budget"]


class Added(Struct, frozen=True):
    new: int = 0
    duplicates: int = 0
    over_budget: int = 0
    outdated: bool = False  # the store has gone back since the given epoch: nothing was added
    each: Sequence[Fate] = ()  # what became of each task, in the given order; only from `add`


def is_same(before: Job, now: Job | None) -> bool:
    """Whether a job that has ended is unchanged, and no other was made with its name."""
    return (
        now is not None
        and now.state in ("finished", "cancelled")
        and (now.state, now.created_at, now.finished_at)
        == (before.state, before.created_at, before.finished_at)
    )


def total(parts: Sequence[Added]) -> Added:
    return Added(
        sum(part.new for part in parts),
        sum(part.duplicates for part in parts),
        sum(part.over_budget for part in parts),
        any(part.outdated for part in parts),
    )


class Settled(Struct, frozen=True):
    accepted: Sequence[bool]  # one for each settlement; False: the lease was lost, nothing was changed
    found: Added = Added()
    buried: int = 0  # retries that had no attempt left
    # Places of settlements that add to a store which is full. They changed nothing, and their leases are still held.
    no_room: frozenset[int] = frozenset()
    # Places of settlements that were made in another epoch. They changed nothing.
    outdated: frozenset[int] = frozenset()


class WorkerRecord(Struct, frozen=True):
    name: str
    seen_at: float
    until: float  # without another heartbeat, it counts as gone
    status: bytes = b""


class Room(Struct, frozen=True):
    """How full a store is; of several servers, the fullest."""

    used: int = 0  # bytes
    limit: int = 0  # bytes; 0: it has none, or none is known

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0


class ServerLook(Struct, frozen=True):
    """What a server says of itself."""

    version: str
    servers: int  # of a cluster: its primaries
    used: int  # bytes
    limit: int  # bytes; 0: none
    syncs: str  # when what is written reaches the disk: "always", "everysec", "no", "never"
    ahead: float | None  # seconds by which its clock is ahead of this machine's; None: it was not asked
    seconds: float  # that it took to answer


class Note(Struct, frozen=True):
    """A small value that several processes write: who leads, when a job runs next."""

    value: bytes
    version: int  # grows by one with every write; 0 stands for a note that was never written


class Flight(Struct, frozen=True):
    """A page in flight."""

    lease: Lease
    worker: str
    since: float  # when it was claimed


class HostQueue(Struct, frozen=True):
    """One job's tasks for one host in one lane."""

    job: str
    lane: str
    pending: int
    delayed: int
    waiting: int = 0  # of the delayed ones: those that wait for their next visit


Place = Literal["unknown", "pending", "delayed", "leased", "done", "dead", "merged"]


class Whereabouts(Struct, frozen=True):
    """Where a URL's task is. After a redirect, where the task is now."""

    place: Place  # "unknown": never admitted. "done": admitted, and nowhere else (it may have moved to another host)
    task: Task | None = None  # None: unknown, done, or too far back in a long queue to be found
    ahead: int = 0  # pending: how many go before it in its queue; without a task: at least so many
    due: float = 0.0  # delayed: when it becomes pending again
    worker: str = ""  # leased: who has it
    since: float = 0.0  # leased, dead: since when
    deadline: float = 0.0  # leased: when the lease runs out, without a heartbeat
    into: str = ""  # merged: the URL of the page that it redirected to


HUSH = 3.0  # seconds without claims after the store went back, so that all workers learn of it first

FLIGHTS_SEEN = 2_000  # leases of a shard that `flights` looks at
SCAN = 200_000  # tasks of one queue that `find` looks through


def concerns(task: Task, wanted: Task) -> bool:
    """Whether the task is for the wanted page, now or before a redirect, whatever the spelling of the URL."""
    if task.item is not None:
        return False
    page = wanted.fingerprint
    if page is not None and (task.fingerprint == page or page in task.trail):
        return True
    return task.url == wanted.url or wanted.url in task.hops


class DeadFilter(Struct, frozen=True):
    """Which dead letters. Rejected items are only among them if their kind is asked for."""

    job: str | None = None
    host: str | None = None
    kind: str | None = None
    since: float | None = None
    until: float | None = None
    ids: Sequence[int] | None = None
    before: tuple[float, int] | None = None  # time and number of the last letter of the page before
    limit: int | None = None


def matches(query: DeadFilter, letter: DeadLetter) -> bool:
    task = letter.task
    return (
        query.job in (None, task.job)
        and query.host in (None, task.host)
        and (letter.kind == query.kind if query.kind is not None else letter.kind != REJECTED)
        and (query.since is None or letter.at >= query.since)
        and (query.until is None or letter.at < query.until)
        and (query.ids is None or task.id in query.ids)
        and (query.before is None or (letter.at, task.id) < query.before)
    )


def worker_lost(attempt: int, at: float) -> Failure:
    """The failure of an attempt whose worker died or went silent."""
    return Failure("worker_lost", "the worker died or stopped renewing its lease", at=at, attempt=attempt)


# -- what a store holds, by kind

KINDS = {
    "queues": "tasks that wait, and the lines of their hosts",
    "in hand": "tasks that workers have",
    "seen": "what dedupe remembers of URLs",
    "row keys": "keys of rows that were written",
    "dead letters": "tasks that were given up, with their snapshots",
    "jobs": "specs and counters",
    "pruned jobs": "what is left of them",
    "hosts": "their pace, and what policies remember of them",
    "history": "what happened over time, by job",
    "events": "the latest of the store",
    "result positions": "how long result files are",
    "notes": "small values that processes agree on",
    "workers": "their last signs of life",
    "call markers": "answers kept in case they got lost on the way",
    "on the way": "found tasks between shards",
    "unused": "room in the file that is used again",
    "other": "indexes, and what the store needs for itself",
}


class Stock(Struct, frozen=True):
    kind: str  # one of KINDS
    count: int | None  # how many; None: it is not counted
    size: int  # bytes, about


class Inventory(Struct, frozen=True):
    format: str  # such as "schema 6"
    stocks: Sequence[Stock]
    used: int  # bytes
    limit: int = 0  # bytes; 0: none
    free: int | None = None  # bytes of the disk; None: not known
    durability: Mapping[str, str] = {}
    estimated: bool = False  # not all was looked at


def inventory(
    format: str, counts: Mapping[str, int | None], sizes: Mapping[str, int], used: int, **rest: object
) -> Inventory:
    """The inventory. What the sizes do not account for is of the kind `other`."""
    known = {kind: sizes.get(kind, 0) for kind in KINDS if kind != "other"}
    other = max(0, used - sum(known.values()))
    stocks = [Stock(kind, counts.get(kind), size) for kind, size in (*known.items(), ("other", other))]
    shown = [stock for stock in stocks if stock.size or stock.count]
    return Inventory(format, shown, used, **rest)  # type: ignore[arg-type]
