"""Keeps a job's history in the store, as a note that all processes of the job add to.

The counts of this process are sampled every second, and added to the note every few seconds. The note says when its job
was made: a job that was dropped and made again starts a new history.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.history import FIRST_INTERVAL, History, HostPast, Slice, busiest, coarse
from shoal.engine.recent import RecentRecorder
from shoal.engine.tally import Tally, TallyReport
from shoal.engine.visit_tally import NO_VISITS
from shoal.frontier.compare_and_set import TRIES, change_note
from shoal.frontier.protocol import Frontier, Notes
from shoal.frontier.values import Job, Note, PastJob
from shoal.policy.outcomes import row_of
from shoal.text import UNREADABLE

_WRITE_EVERY, _WRITE_SELDOM = 5.0, 30.0  # seconds
_APART = 1.0  # seconds between the writes of a fleet, as far as the bounds above allow
_SHORT_SLICES, _SHORT_HOSTS = 12, 10
_NEVER = float("-inf")


class _Record(Struct, frozen=True):
    created_at: float  # of the job
    history: History


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


def key_of(job: str) -> str:
    return f"history:{job}"


class HistoryRecorder:
    def __init__(
        self,
        frontier: Frontier,
        job: str,
        tally: Tally,
        now: Callable[[], float],
        recent: RecentRecorder | None = None,
    ) -> None:
        self._frontier = frontier
        self.recent = recent  # written at the same times
        self._job = job
        self._tally = tally
        self._now = now
        self._created_at: float | None = None
        self._counted = TallyReport()
        self._counted_hosts: dict[str, HostPast] = {}  # what this process has added to the note
        self._unwritten = History()
        self._sampled = 0.0
        self._written_at = _NEVER
        self._every = _WRITE_EVERY
        self._version = 0  # of the note, when it was last written here

    def __repr__(self) -> str:
        return f"<HistoryRecorder of {self._job}>"

    async def open(self) -> None:
        """Reads when the job was made."""
        job = await self._frontier.job(self._job)
        self._created_at = job.created_at if job is not None else None

    async def write_if_due(self, *, everything: bool = False) -> None:
        """Samples and writes, if it is due. Called in every round, so most often it is not, and never twice at once:
        two writes would count the hosts twice."""
        now = self._now()
        if everything:
            self._sample(now)
        elif now // FIRST_INTERVAL == self._sampled // FIRST_INTERVAL:
            return
        else:
            self._sample(now - FIRST_INTERVAL)  # it happened in the interval that is over
        self._sampled = now
        if not everything and now - self._written_at < self._every:
            return
        if self._unwritten.slices:
            self._written_at = now
            await self._write()
        if self.recent is not None and self.recent.is_due and self._created_at is not None:
            self._written_at = now
            await self.recent.write(self._created_at)

    def _sample(self, at: float) -> None:
        report = self._tally.report(hosts=0)
        self._unwritten = self._unwritten.added(at, _gained(self._counted, report))
        self._counted = report

    async def _write(self) -> None:
        addition, self._unwritten = replace(self._unwritten, hosts=self._host_gains()), History()
        written = False
        try:
            written = await self._add(addition)
        finally:
            if not written:
                self._unwritten = replace(addition, hosts={}).merged(self._unwritten)

    async def _add(self, addition: History) -> bool:
        """False: other processes wrote first every time."""
        history: History | None = None

        async def merged(note: Note | None) -> bytes | None:
            nonlocal history
            job = await self._frontier.job(self._job)
            if job is None or job.created_at != self._created_at:
                history = None
                return None  # the job was dropped
            history = _history_of(note, job.created_at).merged(addition)
            return _encode(_Record(job.created_at, history))

        note = await change_note(self._frontier, key_of(self._job), merged, tries=TRIES)
        if note is None or history is None:
            return note is not None
        self._take_turns(note.version)
        for name in addition.hosts.keys() & history.hosts.keys():
            counted = self._counted_hosts.get(name, HostPast())
            self._counted_hosts[name] = counted + addition.hosts[name]
        return True

    def _take_turns(self, version: int) -> None:
        """Writes less often the more processes write. Each has written about once since our last write."""
        if self._version:
            apart = (version - self._version) * _APART
            self._every = min(_WRITE_SELDOM, max(_WRITE_EVERY, apart))
        self._version = version

    def _host_gains(self) -> dict[str, HostPast]:
        """The hosts with most counts that the note does not have yet. The others are added later, when they have
        more."""
        gains, counted_hosts = {}, {}
        for host in self._tally.hosts():
            if (counted := self._counted_hosts.get(host.host)) is None:
                counted = HostPast()
            elif counted.pages > host.pages or counted.failures > host.failures:
                counted = HostPast()  # the tally had dropped the host, and met it again
            else:
                counted_hosts[host.host] = counted
            pages, failures = host.pages - counted.pages, host.failures - counted.failures
            unhandled = host.pages - host.handled - counted.unhandled
            if pages or failures or unhandled:
                requests = pages - unhandled + failures
                gains[host.host] = HostPast(
                    pages, failures, requests * host.latency, host.last_error, unhandled
                )
        self._counted_hosts = counted_hosts
        return busiest(gains)


def _history_of(note: Note | None, created_at: float) -> History:
    try:
        record = _decode(note.value) if note is not None and note.value else None
    except UNREADABLE:
        return History()  # written by another version
    return record.history if record is not None and record.created_at == created_at else History()


async def read_history(frontier: Frontier, job: str) -> History:
    """The history of the job up to a few seconds ago; empty if there is no such job."""
    found = await frontier.job(job)
    return _history_of(await frontier.note(key_of(job)), found.created_at) if found is not None else History()


async def short_history(frontier: Notes, job: Job) -> bytes:
    """The short history that is kept when the job is pruned."""
    history = _history_of(await frontier.note(key_of(job.spec.name)), job.created_at)
    most = sorted(history.hosts.items(), key=lambda item: (-item[1].requests, item[0]))[:_SHORT_HOSTS]
    short = replace(history.coarsened(_SHORT_SLICES), hosts=dict(most), fine={})
    return _encode(_Record(job.created_at, short)) if history != History() else b""


def history_of_past(past: PastJob) -> History:
    return _history_of(Note(past.summary, 1), past.job.created_at)


def _gained(before: TallyReport, after: TallyReport) -> Slice:
    old = before.latency or (0,) * len(after.latency)
    errors: dict[str, int] = {}
    for kind, count in after.errors.items():
        if count > before.errors.get(kind, 0):
            row = row_of(kind)  # there are many statuses, but few rows
            errors[row] = errors.get(row, 0) + count - before.errors.get(kind, 0)
    return Slice(
        after.pages - before.pages,
        after.fetches - before.fetches,
        after.retries - before.retries,
        after.dead - before.dead,
        after.bytes - before.bytes,
        errors,
        coarse([new - count for new, count in zip(after.latency, old, strict=True)]),
        after.pages - before.pages - (after.handled - before.handled),
        after.visits - before.visits if after.visits else NO_VISITS,
    )
