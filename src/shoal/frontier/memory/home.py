"""The reference home: everything in dictionaries, gone with the process.

It is also the frontier of simulations and tests.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from shoal.frontier.following import FOLLOWED_SEEN, Following
from shoal.frontier.memory.data import JobRecord
from shoal.frontier.memory.following import following_of
from shoal.frontier.memory.queue import MemoryQueue
from shoal.frontier.values import (
    PAST_JOBS,
    SCAN,
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
    Whereabouts,
    WorkerRecord,
    concerns,
    is_same,
    matches,
)
from shoal.frontier.verdicts import is_rejected
from shoal.model import DeadLetter, Task, is_items_host


class MemoryFrontier(MemoryQueue):
    # -- jobs

    async def open_job(self, spec: JobSpec, source: str | None = None, *, again: bool = False) -> Job:
        job = self._jobs.get(spec.name)
        if job is None:
            job = self._jobs[spec.name] = JobRecord(spec, "running", self._time.now())
        job.spec = spec
        job.state = "running"
        if source is not None:
            job.open_source(source, again=again)
        if self._view(job).exhausted:
            job.state = "finished"
        return self._view(job)

    async def job(self, name: str) -> Job | None:
        return self._view(self._jobs[name]) if name in self._jobs else None

    async def jobs(self, state: JobState | None = None) -> Sequence[Job]:
        return [self._view(job) for job in self._jobs.values() if state in (None, job.state)]

    async def set_state(self, name: str, state: JobState) -> None:
        job = self._job(name)
        job.state = state
        job.finished_at = self._time.now() if state in ("finished", "cancelled") else 0.0

    async def finish(self, name: str) -> bool:
        job = await self.job(name)
        if job is None or job.state != "running" or not job.exhausted:
            return False
        await self.set_state(name, "finished")
        return True

    async def prune_job(self, job: Job, summary: bytes = b"") -> bool:
        name = job.spec.name
        if not is_same(job, await self.job(name)):
            return False
        await self.drop_job(name)
        self._past[name] = PastJob(job, self._time.now(), summary)
        while len(self._past) > PAST_JOBS:
            del self._past[next(iter(self._past))]
        return True

    async def past_job(self, name: str) -> PastJob | None:
        return self._past.get(name)

    async def past_jobs(self) -> Sequence[PastJob]:
        return tuple(self._past.values())

    async def drop_job(self, name: str) -> None:
        self._past.pop(name, None)
        if name not in self._jobs:
            return
        for token in [token for token, held in self._leases.items() if held.lease.task.job == name]:
            self._free(self._leases.pop(token))
        self._queues = {key: queue for key, queue in self._queues.items() if queue.job != name}
        self._delayed = [entry for entry in self._delayed if entry[2].job != name]
        heapq.heapify(self._delayed)
        del self._jobs[name]
        self._domains.drop_job(name)

    # -- hosts

    async def host(self, name: str) -> HostRecord | None:
        record = self._hosts.get(name)
        return self._domains.described(record) if record is not None else None

    async def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]:
        for record in list(self._hosts.values()):
            if is_items_host(record.name):
                continue
            if job is None or self._jobs[job].per_host[record.name]:
                yield self._domains.described(record)

    async def host_page(self, job: str | None = None, after: str = "", limit: int = 1000) -> HostPage:
        counts = None if job is None else self._jobs[job].per_host
        hosts = [name for name in self._hosts if name > after and not is_items_host(name)]
        names = sorted(name for name in hosts if counts is None or counts[name])
        pending = dict(await self.queues(job, len(self._queues)))
        page = [(self._domains.described(self._hosts[name]), pending.get(name, 0)) for name in names[:limit]]
        return HostPage(page, names[limit - 1] if len(names) > limit else "")

    async def update_host(self, record: HostRecord) -> bool:
        current = self._hosts.get(record.name)
        if current is None or current.version != record.version:
            return False
        valve = current.valve.reset(record.valve)
        self._store(current, HostRecord(record.name, valve, record.state, record.version + 1))
        self.wake()
        return True

    async def queues(self, job: str | None = None, limit: int = 10) -> Sequence[tuple[str, int]]:
        lengths: Counter[str] = Counter()
        for queue in self._queues.values():
            if queue.heap and job in (None, queue.job):
                lengths[queue.host] += len(queue.heap)
        return sorted(lengths.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    async def host_queues(self, host: str) -> Sequence[HostQueue]:
        later = [task for _, _, task in self._delayed if task.host == host]
        delayed = Counter((task.job, task.lane) for task in later)
        waiting = Counter((task.job, task.lane) for task in later if task.id in self._jobs[task.job].waiting)
        found = [
            HostQueue(
                queue.job,
                queue.lane,
                len(queue.heap),
                delayed[queue.job, queue.lane],
                waiting[queue.job, queue.lane],
            )
            for queue in self._queues.values()
            if queue.host == host
        ]
        known = list(self._jobs)
        found.sort(key=lambda queue: (known.index(queue.job), queue.lane))
        return [queue for queue in found if queue.pending or queue.delayed]

    # -- notes

    async def note(self, key: str) -> Note | None:
        return self._notes.get(key)

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        known = self._notes.get(key)
        if version != (known.version if known else 0):
            return False
        self._notes[key] = Note(value, version + 1)
        return True

    async def drop_note(self, key: str) -> None:
        self._notes.pop(key, None)

    async def drop_notes(self, prefix: str) -> int:
        keys = [key for key in self._notes if key.startswith(prefix)]
        for key in keys:
            del self._notes[key]
        return len(keys)

    # -- dead letters

    async def dead(self, query: DeadFilter) -> Sequence[DeadLetter]:
        found = [
            letter for job in self._jobs.values() for letter in job.letters.values() if matches(query, letter)
        ]
        found.sort(key=lambda letter: (letter.at, letter.task.id), reverse=True)
        return found[: query.limit]

    async def replay(self, query: DeadFilter) -> int:
        letters = await self.dead(query)
        for letter in letters:
            job = self._jobs[letter.task.job]
            del job.letters[letter.task.id]
            if is_rejected(letter):
                job.count.update(rejected=-1, admitted=1)
            else:
                job.count["dead"] -= 1
            job.reopen(letter.task.fingerprint)
            self._enqueue(job, replace(letter.task, attempt=0))
            if job.state == "finished":
                job.state, job.finished_at = "running", 0.0
        self.wake()
        return len(letters)

    async def drop(self, query: DeadFilter) -> int:
        letters = await self.dead(query)
        for letter in letters:
            job = self._jobs[letter.task.job]
            del job.letters[letter.task.id]
            job.count["rejected"] -= is_rejected(letter)
        return len(letters)

    # -- what happens now

    async def workers(self) -> Sequence[WorkerRecord]:
        now = self._time.now()
        return [record for record in self._workers.values() if record.until > now]

    async def flights(self, limit: int, job: str | None = None) -> Sequence[Flight]:
        held = [one for one in self._leases.values() if job in (None, one.lease.task.job)]
        held.sort(key=lambda one: (one.since, one.lease.token))
        return [Flight(one.lease, one.worker, one.since) for one in held[:limit]]

    async def lanes(self, job: str | None = None) -> Mapping[str, int]:
        name = None if job is None else self._job(job).spec.name
        pending: Counter[str] = Counter()
        for queue in self._queues.values():
            if queue.heap and name in (None, queue.job):
                pending[queue.lane] += len(queue.heap)
        return pending

    async def find(self, job: str, task: Task, scan: int = SCAN) -> Whereabouts:
        owner = self._job(job)
        for held in self._leases.values():
            found = held.lease.task
            if found.job == job and concerns(found, task):
                deadline = held.lease.deadline
                return Whereabouts("leased", found, worker=held.worker, since=held.since, deadline=deadline)
        queues = [queue for queue in self._queues.values() if (queue.job, queue.host) == (job, task.host)]
        for queue in queues:
            for ahead, (_, _, found) in enumerate(sorted(queue.heap)[:scan]):
                if concerns(found, task):
                    return Whereabouts("pending", found, ahead=ahead)
        for due, _, found in self._delayed:
            if found.job == job and concerns(found, task):
                return Whereabouts("delayed", found, due=due)
        for letter in owner.letters.values():
            if letter.task.host == task.host and concerns(letter.task, task):
                return Whereabouts("dead", letter.task, since=letter.at)
        if task.fingerprint in owner.merged:
            return Whereabouts("merged", into=owner.merged[task.fingerprint])
        if task.fingerprint not in owner.seen:
            return Whereabouts("unknown")
        # It was admitted and is nowhere: done, unless it stands beyond the limit in a long queue.
        if any(len(queue.heap) > scan for queue in queues):
            return Whereabouts("pending", ahead=scan)
        return Whereabouts("done")

    async def following(self, job: str, limit: int = FOLLOWED_SEEN) -> Following:
        delayed = [entry for entry in self._delayed if entry[2].job == job]
        pending = [task for queue in self._queues.values() if queue.job == job for *_, task in queue.heap]
        in_hand = [held.lease.task for held in self._leases.values() if held.lease.task.job == job]
        return following_of(delayed, self._job(job).waiting, [*pending, *in_hand], limit)

    # -- the store

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def durable(self, seconds: float) -> bool | None:
        return None

    async def room(self) -> Room:
        return Room()

    async def take_stock(self) -> Inventory:
        return Inventory("memory", (), 0)

    async def compact(self) -> int:
        return 0
