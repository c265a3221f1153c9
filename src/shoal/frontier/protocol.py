"""The frontier: the durable queue that owns every URL, and decides what may run now.

One protocol in queue words, the sum of small ones by role: most callers need one or two of them. `values` has what the
verbs take and answer. `memory` is the reference, `sqlite` the default home; all homes pass the suite in
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
from typing import Protocol, Self

from shoal.frontier.news import News
from shoal.frontier.values import (
    SCAN,
    Added,
    Claim,
    Claimed,
    Cursor,
    DeadFilter,
    Flight,
    HostPage,
    HostQueue,
    HostRecord,
    Inventory,
    Job,
    JobSpec,
    JobState,
    Note,
    PastJob,
    Room,
    Settled,
    Whereabouts,
    WorkerRecord,
)
from shoal.model import DeadLetter, Lease, Settlement, Task


class Journal(Protocol):
    """A result file that grows in step with the frontier.

    The frontier keeps the committed length. Inside the settlement's transaction it calls `append`, which must
    drop whatever lies beyond `committed` (a crash left it there), write the rows, make them durable and return
    the new length. Because the transaction excludes all other writers, it is also the lock on the file.
    """

    key: str

    def append(self, committed: int, rows: Sequence[bytes]) -> int: ...


class Timed(Protocol):
    """A store has one time, whatever the clocks of its processes say."""

    async def now(self) -> float:
        """The frontier's time."""
        ...


class Queue(Timed, Protocol):
    """The path of a URL: in, out to a worker, and to where its verdict says."""

    @property
    def epoch(self) -> str:
        """Changes when the store may have gone back: after a power cut or a failover it may know nothing of what it
        said in its last second. Right after any answer, it is the epoch in which that was given, or a later one. Who
        remembers what the store said forgets it when this changes."""
        ...

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        """Admits tasks that are not duplicates, and moves the cursor of their source in the same transaction. Not if
        `epoch` is over: what was read before that position may be lost, and the source says where to go on. A finished
        job that then has something left to do runs again; in any other state it stays."""
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

    async def journal_length(self, job: str, key: str) -> int | None:
        """The committed length of a result file; None if the job never wrote it."""
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

    async def held(self, worker: str) -> Sequence[Lease]:
        """The leases that a worker holds, whoever asks: its own process, or one that has seen it die."""
        ...

    def loss_file(self, worker: str) -> str:
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


class Jobs(Timed, Protocol):
    """Jobs: what is to be crawled, how far it is, and what is left of those that were pruned."""

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


class Hosts(Timed, Protocol):
    """Hosts: their valves, the state of their policies, and what waits for them."""

    async def host(self, name: str) -> HostRecord | None: ...

    def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]: ...

    async def host_page(self, job: str | None = None, after: str = "", limit: int = 1000) -> HostPage:
        """About `limit` hosts, of one job or of all, in an order of the store's own. `after` is what the page before
        said. A host that comes while pages are read may be missing, and one may be met twice."""
        ...

    async def update_host(self, record: HostRecord) -> bool:
        """Compare-and-set: writes interval, burst, cap, blocked_until and state if `record.version` is current."""
        ...

    async def queues(self, job: str | None = None, limit: int = 10) -> Sequence[tuple[str, int]]:
        """The longest queues: (host, pending), longest first."""
        ...

    async def host_queues(self, host: str) -> Sequence[HostQueue]:
        """Every queue of the host that is not empty, of all jobs."""
        ...


class Notes(Timed, Protocol):
    """Small values that processes agree on."""

    async def note(self, key: str) -> Note | None: ...

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        """Compare-and-set: writes if the note's version is still `version` (0: it was never written)."""
        ...

    async def drop_note(self, key: str) -> None: ...


class DeadLetters(Protocol):
    """Tasks that were given up."""

    async def dead(self, query: DeadFilter) -> Sequence[DeadLetter]:
        """The newest first, and of one moment those with the greater number first. It reads about as much as it
        answers, unless a filter lets little through."""
        ...

    async def replay(self, query: DeadFilter) -> int:
        """Makes dead tasks pending again with a fresh set of attempts; a finished job runs again."""
        ...

    async def drop(self, query: DeadFilter) -> int:
        """Forgets dead letters; their tasks stay seen."""
        ...


class Viewing(Timed, Protocol):
    """What happens now, for whoever looks on."""

    async def workers(self) -> Sequence[WorkerRecord]:
        """Those whose last sign of life is not older than their leases would be."""
        ...

    async def flights(self, limit: int, job: str | None = None) -> Sequence[Flight]:
        """Pages in hand, those first that were claimed first. Where leases are in no order, so many of them are looked
        at, and no more (`FLIGHTS_SEEN`): of a very large fleet it is a sample."""
        ...

    async def lanes(self, job: str | None = None) -> Mapping[str, int]:
        """How many tasks are pending in each lane, of one job or of all; lanes without any are left out. Cheap,
        however many hosts there are."""
        ...

    async def find(self, job: str, task: Task, scan: int = SCAN) -> Whereabouts:
        """Where the job's task for the URL, host and fingerprint of `task` is. No more than `scan` tasks of each of
        the host's queues are looked through."""
        ...


class Store(Protocol):
    """What all of it is kept in."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def durable(self, seconds: float) -> bool | None:
        """Whether what this process has written would survive a crash of the store; waits for that up to `seconds`.
        None: the store cannot tell, or keeps nothing on a disk."""
        ...

    async def room(self) -> Room:
        """Cheap: asked every few seconds by every process."""
        ...

    async def take_stock(self) -> Inventory:
        """What the store holds, by kind, in about a second however much it is."""
        ...

    async def compact(self) -> int:
        """Gives room that is not used back to the system; answers how many bytes."""
        ...


class Frontier(Queue, Jobs, Hosts, Notes, DeadLetters, Viewing, Store, Protocol):
    """All roles: what a home is. Whoever needs one role asks for that one."""
