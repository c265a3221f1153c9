"""The queue of the reference home: add, claim, settle and what follows from them, in dictionaries.

It is written to be read, not to be fast: a claim looks at every queue. The other homes must behave exactly like it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from shoal.clock import Clock, SystemClock
from shoal.errors import UsageError
from shoal.frontier.clock import Timebase
from shoal.frontier.memory.data import Domains, Held, JobRecord, Queue, copied
from shoal.frontier.news import UnheardNews
from shoal.frontier.protocol import Journal
from shoal.frontier.values import (
    HUSH,
    Added,
    Claim,
    Claimed,
    Counters,
    Cursor,
    Fate,
    HostRecord,
    Job,
    Note,
    PastJob,
    Settled,
    Turn,
    WorkerRecord,
    fed_of,
    total,
)
from shoal.frontier.verdicts import (
    budget_left,
    disposition,
    first_valve,
    is_wanted,
    letter_of,
    lost,
    own_mark,
    redirected,
    rejection,
)
from shoal.model import Dead, Done, Lease, Moved, Retry, Revisit, Row, Settlement, Task
from shoal.valve import FOREVER

# What does not go back with the store: no token and no id is ever given twice.
_LASTING = ("_time", "_changed", "news", "_last_token", "_last_id", "_back_at", "epoch")


class MemoryQueue:
    def __init__(self, clock: Clock | None = None) -> None:
        self._time = Timebase(clock or SystemClock())
        self._jobs: dict[str, JobRecord] = {}
        self._hosts: dict[str, HostRecord] = {}
        self._domains = Domains()
        self._queues: dict[tuple[str, str, str], Queue] = {}
        self._delayed: list[tuple[float, int, Task]] = []
        self._leases: dict[int, Held] = {}  # by token
        self._workers: dict[str, WorkerRecord] = {}
        self._notes: dict[str, Note] = {}
        self._past: dict[str, PastJob] = {}
        self._last_id = 0
        self._last_token = 0
        self._turn = 0
        self._changed = asyncio.Event()
        self.news = UnheardNews()
        self.epoch = ""
        self._back_at = -FOREVER  # when the store last went back

    def saved(self) -> dict[str, Any]:
        """A copy of what is stored now."""
        return {name: copied(value) for name, value in vars(self).items() if name not in _LASTING}

    def go_back(self, saved: dict[str, Any]) -> None:
        """Goes back to what was stored then, as a server does that has lost its last second. Time goes on."""
        vars(self).update(copied(saved))
        self.epoch = str(int(self.epoch or 0) + 1)
        self._back_at = self._time.now()

    async def now(self) -> float:
        return self._time.now()

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        if epoch not in (None, self.epoch):
            return Added(outdated=True)
        owner = self._job(job)
        each: list[Fate] = []
        added = replace(self._admit(owner, tasks, each), each=each)
        if cursor is not None:
            owner.move(cursor)
        self._bring_back(owner)
        self.wake()
        return added

    def _admit(self, job: JobRecord, tasks: Iterable[Task], each: list[Fate] | None = None) -> Added:
        new = duplicates = over_budget = 0
        now = self._time.now()
        budget = job.spec.max_pages_per_host
        each = [] if each is None else each
        for task in tasks:
            if task.fingerprint is not None and job.knows(task.fingerprint, now):
                duplicates += 1
                each.append("duplicate")
                continue
            if budget and task.item is None and job.per_host[task.host] >= budget:
                over_budget += 1
                each.append("over_budget")
                continue
            each.append("new")
            job.see(task, now)
            job.per_host[task.host] += 1
            self._last_id += 1
            self._enqueue(
                job,
                replace(
                    task,
                    id=self._last_id,
                    job=job.spec.name,
                    created_at=self._time.now(),
                    attempt=0,
                    variant=None,
                ),
            )
            new += 1
        job.count.update(admitted=new, duplicates=duplicates, over_budget=over_budget)
        return Added(new, duplicates, over_budget)

    def _enqueue(self, job: JobRecord, task: Task) -> None:
        if task.host not in self._hosts:
            self._hosts[task.host] = HostRecord(task.host, first_valve(task.host, job.spec))
        self._domains.meet(task.host, job.spec.name)
        key = (job.spec.name, task.lane, task.host)
        self._queues.setdefault(key, Queue(*key)).push(task)

    async def claim(self, claim: Claim) -> Claimed:
        now = self._time.now()
        self._reap(now)
        self._promote(now)
        leases: list[Lease] = []
        open_lanes: list[tuple[str, str]] = []  # (job, lane) with room left
        self._turn += 1
        for name in self._in_turn([j for j in claim.jobs if j in self._jobs]):
            job = self._jobs[name]
            if job.state != "running" or not claim.means(name, job.created_at):
                continue
            for lane, most in [pair for lanes in claim.rounds() for pair in lanes.items()]:
                taken = sum(lease.task.lane == lane for lease in leases)
                room = min(most - taken, claim.limit - len(leases), self._permits(self._jobs[name]))
                got = self._take(name, lane, room, claim, now)
                leases += got
                if len(got) < room:
                    open_lanes.append((name, lane))
        return Claimed(leases, self._next_due(open_lanes, now), now)

    def _in_turn(self, names: Sequence[str]) -> Sequence[str]:
        """By priority. Jobs of equal priority take turns."""
        start = self._turn % len(names) if names else 0
        return sorted([*names[start:], *names[:start]], key=lambda name: -self._jobs[name].spec.priority)

    def _permits(self, job: JobRecord) -> int:
        # Only a page budget needs the count.
        leased = self._leased(job.spec.name) if job.spec.max_pages else 0
        return budget_left(job.spec, job.count["done"], leased)

    def _take(self, job: str, lane: str, room: int, claim: Claim, now: float) -> list[Lease]:
        """Serves the due hosts in passes, a fair share each, until there is no room or nothing is due."""
        leases: list[Lease] = []
        while room > 0 and (due := self._line(job, lane, now)[:room]):
            share = max(1, room // len(due))
            for queue in due:
                record = self._hosts[queue.host]
                count = min(share, room, len(queue.heap), self._allowance(record, now))
                if not count:
                    continue  # another host of its domain has taken the place
                queue.place += record.valve.charge(count)
                leases += [self._lease(queue.pop(), record, claim, now) for _ in range(count)]
                more = min(claim.ahead.get(job, 0), share - count, room - count, len(queue.heap))
                leases += [self._lease(queue.pop(), record, claim, now, ahead=True) for _ in range(more)]
                self._domains.take(record, count, self._jobs, now)
                self._store(record, replace(record, valve=record.valve.take(count, now)))
                room -= count + more
        return leases

    def _allowance(self, record: HostRecord, now: float) -> int:
        return min(record.valve.allowance(now), self._domains.allowance(record, self._jobs, now))

    def _due(self, host: str) -> float:
        record = self._hosts[host]
        due = max(record.valve.due(), self._domains.due(record, self._jobs))
        return max(due, self._hush_ends(record))

    def _hush_ends(self, record: HostRecord) -> float:
        """No request before: the store went back, and may have lost a request of a moment before."""
        interval = max(record.valve.interval, self._domains.interval(record, self._jobs))
        return self._back_at + max(HUSH, interval)

    async def reserve(self, job: str, host: str, most: float) -> Turn:
        owner, now = self._job(job), self._time.now()
        record = self._hosts.setdefault(host, HostRecord(host, owner.spec.valve))
        self._domains.meet(host, job)
        due = max(record.valve.turn(), self._domains.turn(record), self._hush_ends(record), now)
        taken = due - now <= most
        if taken:
            self._domains.reserve(record, due, self._jobs)
            self._store(record, replace(record, valve=record.valve.reserve(due)))
        return Turn(due - now, taken, record.valve.interval, record.version)

    def _line(self, job: str, lane: str, now: float) -> list[Queue]:
        """The queues whose hosts are due, in order."""
        queues = [queue for queue in self._queues.values() if queue.job == job and queue.lane == lane]
        if not any(queue.heap or queue.due for queue in queues):
            return []
        joining = []
        for queue in queues:
            was_due, queue.due = queue.due, bool(queue.heap) and self._due(queue.host) <= now
            if queue.due and not was_due:
                joining.append(queue)
        standing = [queue for queue in queues if queue.due and queue not in joining]
        first = min(standing, key=lambda queue: queue.place, default=None)
        front = self._hosts[first.host].valve.front(first.place) if first is not None else None
        for queue in joining:
            queue.place = self._hosts[queue.host].valve.seat(queue.place, front)
        return sorted((queue for queue in queues if queue.due), key=lambda queue: queue.place)

    def _store(self, before: HostRecord, after: HostRecord) -> None:
        """Stores the host. If it is due at another time than before, its queues leave the line."""
        self._hosts[after.name] = after
        if after.valve.due() != before.valve.due():
            for queue in self._queues.values():
                if queue.host == after.name:
                    queue.due = False

    def _lease(
        self, task: Task, record: HostRecord, claim: Claim, now: float, *, ahead: bool = False
    ) -> Lease:
        self._last_token += 1
        task = replace(task, attempt=task.attempt + 1)
        lease = Lease(
            self._last_token, task, now + claim.lease_seconds, record.version, record.valve.interval, ahead
        )
        self._leases[lease.token] = Held(claim.worker, lease, now)
        return lease

    def _next_due(self, open_lanes: Iterable[tuple[str, str]], now: float) -> float:
        wanted = {(job, lane) for job, lane in open_lanes if self._permits(self._jobs[job]) > 0}
        times = [self._due(q.host) for q in self._queues.values() if q.heap and (q.job, q.lane) in wanted]
        times += [at for at, _, task in self._delayed if (task.job, task.lane) in wanted]
        times += [held.lease.deadline for held in self._leases.values()]
        soonest = min(times, default=FOREVER)
        return FOREVER if soonest >= FOREVER else max(0.0, soonest - now)

    def _promote(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            task = heapq.heappop(self._delayed)[2]
            job = self._jobs[task.job]
            if task.id in job.waiting:
                job.waiting.remove(task.id)
                self._last_id += 1
                task = replace(task, id=self._last_id)  # behind the pages that were there before
            self._enqueue(job, task)

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        if epoch not in (None, self.epoch):
            return Settled([False] * len(batch), outdated=frozenset(range(len(batch))))
        held: dict[int, Settlement] = {}
        for settlement in batch:
            token = settlement.lease.token
            if token in self._leases and token not in held:
                held[token] = settlement
        # The journal first: if it fails, nothing has changed yet.
        self._write_rows(held.values(), journal)
        parts: list[Added] = []
        buried = 0
        for token, settlement in held.items():
            lease = self._leases.pop(token)
            job = self._jobs[lease.lease.task.job]
            if settlement.unsent:
                self._refund(lease)
            self._free(lease, None if settlement.unsent else self._time.now() - lease.since)
            buried += self._conclude(job, settlement.lease.task, settlement)
            job.count["links_cut"] += settlement.links_cut
            job.count_own(settlement.counts)
            self._reject(job, settlement.rejected)
            parts.append(self._admit(job, settlement.found))
        accepted = [held.get(settlement.lease.token) is settlement for settlement in batch]
        for settlement, was_held in zip(batch, accepted, strict=True):
            if not was_held and settlement.lease.task.job in self._jobs:
                self._jobs[settlement.lease.task.job].count["stale"] += 1
        return Settled(accepted, total(parts), buried)

    def _write_rows(self, batch: Iterable[Settlement], journal: Journal | None) -> None:
        fresh: dict[str, list[Row]] = {}
        now = self._time.now()
        counted: Counter[str] = Counter()
        for settlement in batch:
            name = settlement.lease.task.job
            rows = fresh.setdefault(name, [])
            known = self._jobs[name].known_rows(now) | {row.key for row in rows if row.key is not None}
            for row in settlement.rows:
                if row.key is None or row.key not in known:
                    rows.append(row)
                    known |= {row.key} if row.key is not None else set()
                    counted[name] += 1
            rows += settlement.archived
        for name, rows in fresh.items():
            job = self._jobs[name]
            if journal is not None and rows:
                committed = job.journals.get(journal.key, 0)
                job.journals[journal.key] = journal.append(committed, rows)
            keys = {row.key for row in rows if row.key is not None}
            job.row_keys |= keys
            if job.spec.dedupe_expires:
                job.rows_at |= dict.fromkeys(keys, now)
            job.count["items"] += counted[name]

    def _conclude(self, job: JobRecord, task: Task, settlement: Settlement) -> int:
        """Puts the task where its verdict says; returns 1 if a retry had no attempt left."""
        now = self._time.now()
        if isinstance(settlement.verdict, Done | Moved):
            job.leave(task, now)
        match settlement.verdict:
            case Done() if task.item is not None:
                job.count["admitted"] -= 1
            case Done():
                job.count["done"] += 1
            case Revisit(after) as revisit:
                self._delay(job, revisit.task(task), after, waits=True)
            case Moved(to) as moved:
                if job.knows(own_mark(to), now) and not moved.returns_to(task):
                    job.count.update(merged=1, duplicates=1)  # that page has its own task
                    job.merged |= dict.fromkeys(task.pages, to.url)
                else:
                    job.see(to, now)
                    self._enqueue(job, redirected(task, to))
            case Dead() as dead:
                self._bury(job, task, dead)
            case Retry() as retry:
                return self._retry(job, task, disposition(retry, task, job.spec, settlement.snapshot))
        return 0

    def _retry(self, job: JobRecord, task: Task, verdict: Retry | Dead) -> int:
        """Returns 1 if it had no attempt left."""
        if isinstance(verdict, Dead):
            self._bury(job, task, verdict)
            return 1
        job.count["retried"] += verdict.counts
        self._delay(job, verdict.task(task), verdict.after)
        return 0

    def _delay(self, job: JobRecord, task: Task, after: float, *, waits: bool = False) -> None:
        """`waits`: for its next visit, and not for a retry."""
        heapq.heappush(self._delayed, (self._time.now() + after, task.id, task))
        if waits:
            job.waiting.add(task.id)

    def _bury(self, job: JobRecord, task: Task, dead: Dead) -> None:
        job.count["dead"] += 1
        job.leave(task, self._time.now())
        job.letters[task.id] = letter_of(task, dead, self._time.now())

    def _reject(self, job: JobRecord, items: Iterable[Task]) -> None:
        for item in items:
            self._last_id += 1
            job.letters[self._last_id] = rejection(item, self._last_id, job.spec.name, self._time.now())
            job.count["rejected"] += 1

    def _free(self, lease: Held, held: float | None = None) -> None:
        task = lease.lease.task
        if lease.lease.ahead:
            return
        record = self._hosts[task.host]
        self._store(record, replace(record, valve=record.valve.give_back(1, held)))
        self._domains.give_back(task.host)

    def _refund(self, lease: Held) -> None:
        if lease.lease.ahead:
            return
        record = self._hosts[lease.lease.task.host]
        self._domains.refund(record, lease.since, self._jobs)
        self._store(record, replace(record, valve=record.valve.refund(lease.since)))

    async def hasten(self, job: str, host: str, wanted: Mapping[int, float]) -> int:
        waiting, now, hastened = self._job(job).waiting, self._time.now(), 0
        for place, (due, id, task) in enumerate(self._delayed):
            if (
                task.job == job
                and task.host == host
                and id in waiting
                and due > now
                and is_wanted(task, wanted)
            ):
                self._delayed[place] = (now, id, task)
                hastened += 1
        heapq.heapify(self._delayed)
        self.wake()
        return hastened

    async def journal_length(self, job: str, key: str) -> int | None:
        return self._job(job).journals.get(key)

    async def journals(self, job: str) -> Mapping[str, int]:
        return dict(self._job(job).journals)

    async def extend(
        self,
        worker: str,
        lease_seconds: float,
        status: bytes = b"",
        tokens: Collection[int] | None = None,
    ) -> int:
        deadline = self._time.now() + lease_seconds
        self._workers[worker] = WorkerRecord(worker, self._time.now(), deadline, status)
        own = [
            held
            for token, held in self._leases.items()
            if held.worker == worker and (tokens is None or token in tokens)
        ]
        for held in own:
            renewed = replace(held.lease, deadline=max(held.lease.deadline, deadline))
            self._leases[renewed.token] = held._replace(lease=renewed)
        return len(own)

    async def held(self, worker: str) -> Sequence[Lease]:
        return [held.lease for held in self._leases.values() if held.worker == worker]

    def loss_file(self, worker: str) -> str:
        return ""

    async def release(self, leases: Sequence[Lease]) -> int:
        count = 0
        for given in leases:
            if (held := self._leases.pop(given.token, None)) is None:
                continue
            task = held.lease.task
            self._free(held)
            self._enqueue(self._jobs[task.job], replace(task, attempt=task.attempt - 1))
            count += 1
        self.wake()
        return count

    async def reap(self) -> int:
        return self._reap(self._time.now())

    def _reap(self, now: float) -> int:
        expired = [held for held in self._leases.values() if held.lease.deadline <= now]
        for place, held in enumerate(expired):
            del self._leases[held.lease.token]
            task, job = held.lease.task, self._jobs[held.lease.task.job]
            self._free(held)
            retry = lost(task, place, len(expired), now)
            self._retry(job, task, disposition(retry, task, job.spec, None))
        self._promote(now)
        return len(expired)

    async def wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(min(seconds, 3600.0)):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()
        return True

    def wake(self) -> None:
        self._changed.set()

    def _job(self, name: str) -> JobRecord:
        if name not in self._jobs:
            raise UsageError(f"no job named {name!r} in this store")
        return self._jobs[name]

    def _view(self, job: JobRecord) -> Job:
        name, count = job.spec.name, job.count
        counters = Counters(
            admitted=count["admitted"],
            pending=sum(len(queue.heap) for queue in self._queues.values() if queue.job == name),
            delayed=sum(task.job == name for _, _, task in self._delayed),
            leased=self._leased(name),
            done=count["done"],
            dead=count["dead"],
            merged=count["merged"],
            retried=count["retried"],
            duplicates=count["duplicates"],
            over_budget=count["over_budget"],
            stale=count["stale"],
            items=count["items"],
            links_cut=count["links_cut"],
            rejected=count["rejected"],
            waiting=len(job.waiting),
        )
        sources = dict(job.sources)
        return Job(
            job.spec,
            job.state,
            counters,
            job.created_at,
            job.finished_at,
            *fed_of(sources),
            sources=sources,
            counts=dict(sorted(job.own.items())),
        )

    def _leased(self, job: str) -> int:
        return sum(held.lease.task.job == job for held in self._leases.values())

    def _bring_back(self, job: JobRecord) -> None:
        if job.state == "finished" and not self._view(job).exhausted:
            job.state, job.finished_at = "running", 0.0
