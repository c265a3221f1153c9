"""The frontier: the durable queue that owns every URL, and decides what may run now.

The protocol is the sum of small ones by role: most callers need one or two. `values` has what the verbs take and
return. `memory` is the reference, `sqlite` the default home; all homes pass the suite in `shoal.testing.conformance`.

Invariants of every home, after every verb and every crash:
  1. admitted = pending + delayed + leased + done + dead + merged, per job
  2. a task has at most one live lease, and a token is never given twice
  3. a host's leases never exceed its cap, and claims and reservations on it are never closer than its valve allows;
     but for claims of pages for which nothing was sent;
     the same holds for all hosts of a registrable domain together, once there are two, and the limit of the domain
  4. a settled page's found tasks are admitted, and its rejected items kept, in the same transaction that marks it done

A rejected item is a dead letter of the kind REJECTED, and no task. When it is replayed, it is admitted; when it is
done, it is not counted as a page, but leaves `admitted` again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol, Self

from shoal.frontier.following import FOLLOWED_SEEN, Following
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
    Turn,
    Whereabouts,
    WorkerRecord,
)
from shoal.model import DeadLetter, Lease, Row, Settlement, Task


class Journal(Protocol):
    """An output that grows in step with the frontier.

    The frontier stores its position: how far it is committed. What the number means is the journal's own affair: the
    length of a file, or the number of a part. It only grows, and is less than 2**53. Inside the settlement's
    transaction the frontier calls `append`, which must undo everything beyond `committed` (left there by a crash),
    write the rows, make them durable and return the new position. The transaction excludes all other writers, so it is
    also the lock on the output.
    """

    key: str

    def append(self, committed: int, rows: Sequence[Row]) -> int: ...


class Timed(Protocol):
    """A store has one time for all processes."""

    async def now(self) -> float:
        """The frontier's time."""
        ...


class Queue(Timed, Protocol):
    """The path of a URL: added, claimed by a worker, and settled with a verdict."""

    @property
    def epoch(self) -> str:
        """Changes when the store may have gone back: after a power cut or a failover it may have lost its last second.
        Right after any answer, this is the epoch in which it was given, or a later one. A caller that remembers answers
        must forget them when this changes."""
        ...

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        """Admits tasks that are not duplicates, and moves the cursor of their source in the same transaction. If
        `epoch` is over, nothing is added: earlier tasks may be lost, and the source's cursor says where to go on. A
        finished job that then has something left to do runs again."""
        ...

    async def claim(self, claim: Claim) -> Claimed:
        """Leases what may run now. Also promotes due retries and reaps expired leases.

        Hosts that are due stand in a line. A host that becomes due joins at the place it had, but neither far before
        nor far behind the first (`Valve.seat`). A host that is served moves back by what it got (`Valve.charge`). Hosts
        whose domain has reached its limit wait in a line of that domain. For a job with a cache, a host that is served
        may give more of its tasks (`Claim.ahead`): for these nothing is sent, they are settled as such or handed back.

        After the store has gone back, no host is due for HUSH seconds, nor for its interval: a claim that the store has
        lost may have sent requests a moment before."""
        ...

    async def reserve(self, job: str, host: str, most: float) -> Turn:
        """Takes the host's next turn, for a request inside a page that is leased already: its `next_at` and that of its
        domain move on as with a claim, so that claims and reservations together keep to the interval. Turns are given
        in order, so nobody starves. A turn that is more than `most` seconds away is not taken. The request does not
        count as in flight. An unknown host gets the valve of the job."""
        ...

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        """Ends leases. If the `epoch` in which the settlements were made is over, nothing changes: links that were
        skipped because the store had them may be lost. A page for which nothing was sent (`unsent`) gives the turn of
        its host and its domain back, if no claim or reservation came after its own."""
        ...

    async def hasten(self, job: str, host: str, wanted: Mapping[int, float]) -> int:
        """Makes pages of the host due now that wait for their next visit; returns how many. `wanted` has their
        fingerprints, and when each is said to have changed: one that was checked since then is left alone. A hint, no
        promise: it looks through the host's delayed tasks in portions, and each of them is hastened or not."""
        ...

    async def journal_length(self, job: str, key: str) -> int | None:
        """The committed position of an output; None if the job never wrote it."""
        ...

    async def journals(self, job: str) -> Mapping[str, int]:
        """The committed positions of all outputs that the job has written, by their keys: in a fleet, those of every
        process."""
        ...

    async def extend(
        self,
        worker: str,
        lease_seconds: float,
        status: bytes = b"",
        tokens: Collection[int] | None = None,
    ) -> int:
        """Heartbeat: extends the worker's leases with these tokens, or all; returns how many of them it still holds. A
        lease that is not named runs out, because nobody works on it. `status` is stored for viewers."""
        ...

    async def held(self, worker: str) -> Sequence[Lease]:
        """The leases that a worker holds."""
        ...

    def loss_file(self, worker: str) -> str:
        """The file for the loss of a worker (`Loss`), read by the process that takes its leases back; "": there is
        none."""
        ...

    async def release(self, leases: Sequence[Lease]) -> int:
        """Hands tasks back: they are pending again, and the attempt does not count."""
        ...

    async def reap(self) -> int:
        """Takes back expired leases, and those of workers known to be dead; returns how many."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Returns when work may have arrived, at the latest after `seconds`. True: claim now. False: this process
        called `wake`."""
        ...

    def wake(self) -> None:
        """Ends this process's `wait`, or the next one."""
        ...


class Jobs(Timed, Protocol):
    """Jobs, and what is left of those that were pruned."""

    @property
    def news(self) -> News:
        """Counts up when a job is opened, fed to its end, changes its state or is dropped, by any process."""
        ...

    async def open_job(self, spec: JobSpec, source: str | None = None, *, again: bool = False) -> Job:
        """Creates the job, or updates the spec of an existing one. Its state becomes running, or finished if nothing is
        left to do. `source` names a source of start URLs: the job does not end before it is fed. A known source stays
        where it is; with `again`, one that was fed to its end starts from its beginning."""
        ...

    async def job(self, name: str) -> Job | None: ...

    async def jobs(self, state: JobState | None = None) -> Sequence[Job]:
        """All jobs, or those in that state, oldest first."""
        ...

    async def set_state(self, name: str, state: JobState) -> None: ...

    async def finish(self, name: str) -> bool:
        """Marks a running job as finished if nothing is left to do; returns whether it did. `add` and `replay` before
        it keep the job running, and after it make the job run again."""
        ...

    async def drop_job(self, name: str) -> None:
        """Deletes the job with its tasks, seen-set, dead letters and journal positions, and the past of a pruned job of
        that name. Hosts stay."""
        ...

    async def prune_job(self, job: Job, summary: bytes = b"") -> bool:
        """Deletes a job that has ended, except for its past; in steps, so that nobody is held up. False, and nothing
        changes, if the job has changed since `job` was read."""
        ...

    async def past_job(self, name: str) -> PastJob | None: ...

    async def past_jobs(self) -> Sequence[PastJob]:
        """The jobs that were pruned last, in that order."""
        ...


class Hosts(Timed, Protocol):
    """Hosts: their valves, the state of their policies, and what waits for them."""

    async def host(self, name: str) -> HostRecord | None: ...

    def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]:
        """All hosts, or those of one job; without those that stand for rejected items (`items_of`)."""
        ...

    async def host_page(self, job: str | None = None, after: str = "", limit: int = 1000) -> HostPage:
        """About `limit` of these hosts, of one job or of all, in an order of the store's own. `after` is what the page
        before said. A host that comes while pages are read may be missing, and one may be met twice."""
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
    """Small values that several processes write."""

    async def note(self, key: str) -> Note | None: ...

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        """Compare-and-set: writes if the note still has this version (0: it was never written)."""
        ...

    async def drop_note(self, key: str) -> None: ...

    async def drop_notes(self, prefix: str) -> int:
        """Drops every note whose key begins with `prefix`; returns how many. Looks at all notes."""
        ...


class DeadLetters(Protocol):
    """Tasks that were given up."""

    async def dead(self, query: DeadFilter) -> Sequence[DeadLetter]:
        """The newest first, and of one moment those with the greater number first. It reads about as much as it
        answers, unless a filter lets little through."""
        ...

    async def replay(self, query: DeadFilter) -> int:
        """Makes dead tasks pending again with a fresh set of attempts; a finished job runs again. Rejected items wait
        in a queue of their own, whose host is always due."""
        ...

    async def drop(self, query: DeadFilter) -> int:
        """Deletes dead letters; their tasks stay in the seen-set, and count as dead. Rejected items count no more."""
        ...


class Viewing(Timed, Protocol):
    """What happens now, for viewers."""

    async def workers(self) -> Sequence[WorkerRecord]:
        """The workers whose last heartbeat is younger than their leases."""
        ...

    async def flights(self, limit: int, job: str | None = None) -> Sequence[Flight]:
        """Pages in flight, oldest claim first. If a home has no such order, it looks at FLIGHTS_SEEN leases only: for a
        very large fleet this is a sample."""
        ...

    async def lanes(self, job: str | None = None) -> Mapping[str, int]:
        """How many tasks are pending in each lane, of one job or of all. Empty lanes are left out. Cheap with any
        number of hosts."""
        ...

    async def find(self, job: str, task: Task, scan: int = SCAN) -> Whereabouts:
        """Where the job's task for the URL, host and fingerprint of `task` is. Searches at most `scan` tasks of each of
        the host's queues."""
        ...

    async def following(self, job: str, limit: int = FOLLOWED_SEEN) -> Following:
        """The pages of the job that are visited again and again: when each is due, and which are overdue. If more than
        `limit` wait, every so manieth of them; of the others at most so many. A few hundredths of a second."""
        ...


class Store(Protocol):
    """The store itself."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def durable(self, seconds: float) -> bool | None:
        """Whether what this process has written would survive a crash of the store; waits up to `seconds` for that.
        None: not known, or nothing is on a disk."""
        ...

    async def room(self) -> Room:
        """How full the store is. Cheap: every process asks every few seconds."""
        ...

    async def take_stock(self) -> Inventory:
        """What the store holds, by kind. Takes about a second with any amount of data."""
        ...

    async def compact(self) -> int:
        """Gives unused room back to the system; returns how many bytes."""
        ...


class Frontier(Queue, Jobs, Hosts, Notes, DeadLetters, Viewing, Store, Protocol):
    """All roles: what a home implements."""
