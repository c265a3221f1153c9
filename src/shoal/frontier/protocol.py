"""The frontier: the durable queue that owns every URL, and decides what may run now.

One narrow protocol in queue words; `memory` is the reference, `sqlite` the default home. All pass the suite in
`shoal.testing.conformance`.

Invariants every home keeps, after every verb and every crash:
  1. admitted = pending + delayed + leased + done + dead + merged, per job
  2. a task has at most one live lease, and a token is never given twice
  3. a host's leases never exceed its cap, and claims on it are never closer than its valve allows; the same holds for
     all hosts of a registrable domain together, once there are two, and the limit of the domain
  4. a settled page's found tasks are admitted in the same transaction that marks it done
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Literal, Protocol, Self

from msgspec import Struct, field

from shoal.frontier.inventory import Inventory
from shoal.frontier.news import News
from shoal.model import DeadLetter, Failure, Settlement, Snapshot, Task
from shoal.model import Lease as Lease  # re-exported: part of this protocol's vocabulary
from shoal.valve import Domain, DomainLimit, Valve

JobState = Literal["running", "paused", "finished", "cancelled"]


class HostRecord(Struct, frozen=True):
    """A host as stored: its valve, and the policies' state, which the frontier keeps but does not read."""

    name: str
    valve: Valve
    state: bytes = b""
    version: int = 0  # grows by one with every update_host
    domain: Domain | None = (
        None  # what it shares with other hosts; None: its domain has no other. Not for update_host
    )


class JobSpec(Struct, frozen=True):
    """What the frontier must know about a job to run it."""

    name: str
    spider: str = ""
    valve: Valve = field(default_factory=Valve)  # for hosts first seen through this job
    max_attempts: int = 5
    max_pages: int = 0  # 0: no budget. At most this many tasks ever become done
    max_pages_per_host: int = 0  # admissions per host
    settings: bytes = b""  # the engine's own note about the settings of the last run
    priority: int = 0  # a job with a higher one is served first; equal ones take turns
    # bloom: 2 bytes a URL, but up to `capacity` URLs 1 in 2,000 new ones is taken for known, and 1 in 1,000 beyond. A
    # home may be exact all the same.
    dedupe: Literal["exact", "bloom"] = "exact"
    capacity: int = 0
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

    @property
    def open(self) -> int:
        return self.pending + self.delayed + self.leased


class Source(Struct, frozen=True):
    """Somewhere a job's start URLs come from, and how far it was read."""

    fed: int = 0  # how many URLs have been read
    fed_all: bool = False  # no more will come from it


OWN_START = ""  # the source that is the spider's own start
EARLIER = "earlier"  # the sum of sources that were fed long ago, and whose names are forgotten
MOST_SOURCES = 100  # of a job, before those that are fed are summed up


class Job(Struct, frozen=True):
    spec: JobSpec
    state: JobState
    counters: Counters
    created_at: float
    finished_at: float = 0.0
    fed: int = 0  # how many start URLs have been read, from all sources
    fed_all: bool = False  # no more start URLs will come: every source that was opened was fed to its end
    sources: Mapping[str, Source] = {}  # by name; OWN_START among them if the spider's start is fed

    @property
    def exhausted(self) -> bool:
        """Nothing is left to do, or the page budget is used up."""
        c, budget = self.counters, self.spec.max_pages
        if budget and c.done >= budget:
            return True
        return self.fed_all and c.open == 0

    @property
    def unfed(self) -> Sequence[str]:
        """The sources that still have URLs, as far as the store knows."""
        return [name for name, source in self.sources.items() if not source.fed_all]


def fed_of(sources: Mapping[str, Source]) -> tuple[int, bool]:
    """`fed` and `fed_all` of a job with these sources. One without any has yet to be told where to start."""
    known = sources.values()
    return sum(source.fed for source in known), bool(known) and all(source.fed_all for source in known)


PAST_JOBS = 200  # that are remembered


class PastJob(Struct, frozen=True):
    """What is left of a job that was pruned: how it ended, and a short note about how it went."""

    job: Job
    pruned_at: float
    summary: bytes = b""  # the engine's own; the frontier does not read it


class Claim(Struct, frozen=True):
    """What a worker can start now."""

    worker: str
    jobs: Sequence[str]
    lanes: Mapping[str, int]  # how many of each lane, in order of preference
    limit: int  # and how many in all
    lease_seconds: float = 60.0
    spare: Mapping[str, int] = {}  # how many of each lane at most, of what the lanes leave of the limit
    # When the jobs were made that the worker knows by these names. Of one that was made anew since, it gets nothing:
    # what it remembers, such as links that were admitted, is not true of that one.
    made: Mapping[str, float] = {}

    def rounds(self) -> Sequence[Mapping[str, int]]:
        """Most that may be taken of each lane: first by the shares, then of the rest."""
        return (self.lanes, self.spare) if self.spare else (self.lanes,)

    def means(self, job: str, created_at: float) -> bool:
        return self.made.get(job, created_at) == created_at


class Claimed(Struct, frozen=True):
    leases: Sequence[Lease]
    next_due: float  # seconds until a claim may succeed if nothing changes; FOREVER: only a change helps
    now: float = 0.0  # the frontier's time at the claim
    # Seconds after which to look again unasked: a home that says so tells `wait` when it is this worker's turn before
    # that, and may have told another one to look at `next_due`. None: nobody is told, so ask whenever there is room.
    again: float | None = None


Fate = Literal["new", "duplicate", "over_budget"]


class Added(Struct, frozen=True):
    new: int = 0
    duplicates: int = 0
    over_budget: int = 0
    outdated: bool = (
        False  # the store has gone back since the epoch that was named: the start is to be read again
    )
    each: Sequence[Fate] = ()  # what became of each task, in the order given. `add` alone tells


def is_same(before: Job, now: Job | None) -> bool:
    """Whether nobody has gone on with a job since it ended, nor made another of its name."""
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
    # Places of those that add to a store which is full. Nothing of them was changed, their leases are still held.
    no_room: frozenset[int] = frozenset()
    # Places of those that were made in another epoch. Nothing of them was changed.
    outdated: frozenset[int] = frozenset()


class Journal(Protocol):
    """A result file that grows in step with the frontier.

    The frontier keeps the committed length. Inside the settlement's transaction it calls `append`, which must
    drop whatever lies beyond `committed` (a crash left it there), write the rows, make them durable and return
    the new length. Because the transaction excludes all other writers, it is also the lock on the file.
    """

    key: str

    def append(self, committed: int, rows: Sequence[bytes]) -> int: ...


class WorkerRecord(Struct, frozen=True):
    name: str
    seen_at: float
    until: float  # without another sign of life, it counts as gone
    status: bytes = b""


class Room(Struct, frozen=True):
    """How full a store is, where it is fullest."""

    used: int = 0  # bytes
    limit: int = 0  # bytes; 0: it has none, or none is known

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0


class Note(Struct, frozen=True):
    """A small value that processes agree on: who leads, when a job runs next."""

    value: bytes
    version: int  # grows by one with every write; 0 stands for a note that was never written


class Flight(Struct, frozen=True):
    """A page in hand."""

    lease: Lease
    worker: str
    since: float  # when it was claimed


class HostQueue(Struct, frozen=True):
    """One job's tasks for one host in one lane."""

    job: str
    lane: str
    pending: int
    delayed: int


Place = Literal["unknown", "pending", "delayed", "leased", "done", "dead", "merged"]


class Whereabouts(Struct, frozen=True):
    """Where a URL's task is. A URL that redirected is where its task is now."""

    place: Place  # "unknown": never admitted. "done": admitted, and nowhere else (it may have moved to another host)
    task: Task | None = None  # None: unknown, done, or too far back in a long queue to be found
    ahead: int = 0  # pending: how many go before it in its queue; without a task: at least so many
    due: float = 0.0  # delayed: when it becomes pending again
    worker: str = ""  # leased: who has it
    since: float = 0.0  # leased, dead: since when
    deadline: float = 0.0  # leased: when the lease runs out, without a heartbeat
    into: str = ""  # merged: the URL of the page that it redirected to


HUSH = 3.0  # seconds after a set-back in which nothing is claimed, so that all workers hear of it first

FLIGHTS_SEEN = 2_000  # leases of a shard that `flights` looks at
SCAN = 200_000  # tasks of one queue that `find` looks through


def concerns(task: Task, wanted: Task) -> bool:
    """Whether the task is that of the wanted page, in whatever spelling: it is to be fetched there, or was, before it
    redirected."""
    page = wanted.fingerprint
    if page is not None and (task.fingerprint == page or page in task.trail):
        return True
    return task.url == wanted.url or wanted.url in task.hops


class DeadFilter(Struct, frozen=True):
    job: str | None = None
    host: str | None = None
    kind: str | None = None
    since: float | None = None
    until: float | None = None
    ids: Sequence[int] | None = None
    limit: int | None = None


def matches(query: DeadFilter, letter: DeadLetter) -> bool:
    task = letter.task
    return (
        query.job in (None, task.job)
        and query.host in (None, task.host)
        and query.kind in (None, letter.kind)
        and (query.since is None or letter.at >= query.since)
        and (query.until is None or letter.at < query.until)
        and (query.ids is None or task.id in query.ids)
    )


def worker_lost(attempt: int, at: float) -> Failure:
    """What the history says of an attempt whose worker died or went silent."""
    return Failure("worker_lost", "the worker died or stopped renewing its lease", at=at, attempt=attempt)


class Frontier(Protocol):
    @property
    def epoch(self) -> str:
        """Changes when the store may have gone back: after a power cut or a failover it may know nothing of what it
        said in its last second. Right after any answer, it is the epoch in which that was given, or a later one. Who
        remembers what the store said forgets it when this changes."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    # -- jobs
    @property
    def news(self) -> News:
        """Told when a job was opened, fed to its end, changed its state or was dropped, by whomever."""
        ...

    async def open_job(self, spec: JobSpec, source: str | None = None, *, again: bool = False) -> Job:
        """Creates the job, or updates the spec of an existing one; its state becomes running unless finished
        with nothing left to do under the new spec. `source` names where start URLs will come from: from now on the
        job does not end before it is fed. One that is known stays where it is; `again`: one that was fed to its end is
        to be read anew."""
        ...

    async def job(self, name: str) -> Job | None: ...

    async def jobs(self, state: JobState | None = None) -> Sequence[Job]:
        """All jobs, or those in that state, oldest first."""
        ...

    async def set_state(self, name: str, state: JobState) -> None: ...

    async def finish(self, name: str) -> bool:
        """Marks a running job as finished if nothing is left to do, and answers whether it did. It excludes `add` and
        `replay`: what comes before keeps the job running, and what comes after brings it back."""
        ...

    async def drop_job(self, name: str) -> None:
        """Forgets the job with its tasks, seen-set, dead letters and journal positions, and what is left of one of that
        name that was pruned. Hosts stay."""
        ...

    async def prune_job(self, job: Job, summary: bytes = b"") -> bool:
        """Forgets a job that has ended, except for its past; in steps, so that nobody is held up. False, and nothing
        is changed, if it is not any more what it was: somebody goes on with it."""
        ...

    async def past_job(self, name: str) -> PastJob | None: ...

    async def past_jobs(self) -> Sequence[PastJob]:
        """The latest that were pruned, in the order of that."""
        ...

    async def lanes(self, job: str | None = None) -> Mapping[str, int]:
        """How many tasks are pending in each lane, of one job or of all; lanes without any are left out. Cheap,
        however many hosts there are."""
        ...

    async def durable(self, seconds: float) -> bool | None:
        """Whether what this process has written would survive a crash of the store; waits for that up to `seconds`.
        None: the store cannot tell, or keeps nothing on a disk."""
        ...

    # -- the path of a URL
    async def add(
        self,
        job: str,
        tasks: Sequence[Task],
        *,
        source: str = OWN_START,
        fed: int | None = None,
        fed_all: bool = False,
        epoch: str | None = None,
    ) -> Added:
        """Admits tasks that are not duplicates. `fed`/`fed_all` move the cursor of that source in the same transaction.
        Not if `epoch` is over: what was read before that position may be lost, and the source says where to go on. A
        finished job that then has something left to do runs again; in any other state it stays."""
        ...

    async def claim(self, claim: Claim) -> Claimed:
        """Leases what may run now. Promotes due retries and reaps expired leases as it goes.

        The hosts that are due wait in a line, each at its place. Who becomes due joins it at the place it had, but
        neither far before nor far behind the first (`Valve.seat`); who is served goes back by what it was given
        (`Valve.charge`). Hosts whose domain has reached its limit wait in a line of that domain, and come forward as
        it allows.

        After the store has gone back, no host is due for HUSH seconds, nor for its interval: it may have been asked a
        moment before, by a claim that is forgotten, and requests of that kind may still be under way."""
        ...

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        """Ends leases. Not if `epoch` is over, in which the settlements were made: links that were passed over then,
        because the store had them, may be lost."""
        ...

    async def extend(
        self,
        worker: str,
        lease_seconds: float,
        status: bytes = b"",
        tokens: Collection[int] | None = None,
    ) -> int:
        """Heartbeat: moves the deadline of those of the worker's leases that it names, or of all, never to an earlier
        one; answers how many of them it still holds. One that it does not name runs out: nobody works on it. `status`
        is the worker's word about itself, kept for whoever asks."""
        ...

    async def workers(self) -> Sequence[WorkerRecord]:
        """Those whose last sign of life is not older than their leases would be."""
        ...

    async def held(self, worker: str) -> Sequence[Lease]:
        """The leases that a worker holds, whoever asks: its own process, or one that has seen it die."""
        ...

    async def flights(self, limit: int, job: str | None = None) -> Sequence[Flight]:
        """Pages in hand, those first that were claimed first. Where leases are in no order, so many of them are looked
        at, and no more (`FLIGHTS_SEEN`): of a very large fleet it is a sample."""
        ...

    def obituary(self, worker: str) -> str:
        """A file in which to leave word of how a worker died, for whoever takes its leases back; "": nobody reads
        any."""
        ...

    async def release(self, leases: Sequence[Lease]) -> int:
        """Hands tasks back unharmed: pending again, the attempt not counted."""
        ...

    async def reap(self) -> int:
        """Takes expired leases back (and those of workers known to be dead); answers how many."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Returns when work may have arrived from elsewhere, at the latest after `seconds`. Whether to claim: not
        if somebody here called `wake`."""
        ...

    def wake(self) -> None:
        """Ends this process's `wait`, now or the next time it is called."""
        ...

    # -- hosts
    async def host(self, name: str) -> HostRecord | None: ...

    def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]: ...

    async def update_host(self, record: HostRecord) -> bool:
        """Compare-and-set: writes interval, burst, cap, blocked_until and state if `record.version` is current."""
        ...

    async def queues(self, job: str | None = None, limit: int = 10) -> Sequence[tuple[str, int]]:
        """The longest queues: (host, pending), longest first."""
        ...

    async def host_queues(self, host: str) -> Sequence[HostQueue]:
        """Every queue of the host that is not empty, of all jobs."""
        ...

    # -- looking for one URL
    async def now(self) -> float:
        """The frontier's time."""
        ...

    async def find(self, job: str, task: Task, scan: int = SCAN) -> Whereabouts:
        """Where the job's task for the URL, host and fingerprint of `task` is. No more than `scan` tasks of each of
        the host's queues are looked through."""
        ...

    # -- room
    async def room(self) -> Room:
        """Cheap: asked every few seconds by every process."""
        ...

    async def take_stock(self) -> Inventory:
        """What the store holds, by kind, in about a second however much it is."""
        ...

    async def compact(self) -> int:
        """Gives room that is not used back to the system; answers how many bytes."""
        ...

    # -- notes
    async def note(self, key: str) -> Note | None: ...

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        """Compare-and-set: writes if the note's version is still `version` (0: it was never written)."""
        ...

    async def drop_note(self, key: str) -> None: ...

    # -- journals
    async def journal_length(self, job: str, key: str) -> int | None:
        """The committed length of a result file; None if the job never wrote it."""
        ...

    # -- dead letters
    async def dead(self, query: DeadFilter) -> Sequence[DeadLetter]: ...

    async def replay(self, query: DeadFilter) -> int:
        """Makes dead tasks pending again with a fresh set of attempts; a finished job runs again."""
        ...

    async def drop(self, query: DeadFilter) -> int:
        """Forgets dead letters; their tasks stay seen."""
        ...


__all__ = [
    "EARLIER",
    "HUSH",
    "MOST_SOURCES",
    "OWN_START",
    "PAST_JOBS",
    "SCAN",
    "Added",
    "Claim",
    "Claimed",
    "Counters",
    "DeadFilter",
    "DeadLetter",
    "Fate",
    "Frontier",
    "HostQueue",
    "HostRecord",
    "Job",
    "JobSpec",
    "JobState",
    "Journal",
    "Lease",
    "Note",
    "PastJob",
    "Place",
    "Room",
    "Settled",
    "Snapshot",
    "Source",
    "Whereabouts",
    "WorkerRecord",
    "concerns",
    "fed_of",
    "matches",
    "total",
    "worker_lost",
]
