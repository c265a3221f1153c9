"""find, in dictionaries: where the task of one URL is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.frontier.memory.state import Held, JobRecord, Queue
from shoal.frontier.values import Whereabouts, concerns
from shoal.model import Task

Delayed = tuple[float, int, Task]


def find(
    job: JobRecord,
    queues: Iterable[Queue],
    delayed: Iterable[Delayed],
    leases: Iterable[Held],
    task: Task,
    scan: int,
) -> Whereabouts:
    name = job.spec.name
    own = [queue for queue in queues if queue.job == name and queue.host == task.host]
    for held in leases:
        if held.lease.task.job == name and concerns(held.lease.task, task):
            return Whereabouts(
                "leased",
                held.lease.task,
                worker=held.worker,
                since=held.since,
                deadline=held.lease.deadline,
            )
    for queue in own:
        for ahead, (_, _, waiting) in enumerate(sorted(queue.heap)[:scan]):
            if concerns(waiting, task):
                return Whereabouts("pending", waiting, ahead=ahead)
    for due, _, waiting in delayed:
        if waiting.job == name and concerns(waiting, task):
            return Whereabouts("delayed", waiting, due=due)
    for letter in job.letters.values():
        if letter.task.host == task.host and concerns(letter.task, task):
            return Whereabouts("dead", letter.task, since=letter.at)
    return _admitted(job, own, task, scan)


def _admitted(job: JobRecord, own: Sequence[Queue], task: Task, scan: int) -> Whereabouts:
    """Of a task that was not found: done, unless a queue is longer than what was looked through."""
    if task.fingerprint in job.merged:
        return Whereabouts("merged", into=job.merged[task.fingerprint])
    if task.fingerprint not in job.seen:
        return Whereabouts("unknown")
    if any(len(queue.heap) > scan for queue in own):
        return Whereabouts("pending", ahead=scan)
    return Whereabouts("done")
