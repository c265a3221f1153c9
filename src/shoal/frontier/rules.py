"""What follows from a verdict, an attempt or a budget, for the homes that are written in Python. Pure.

The scripts of `redis` say the same in Lua; the conformance suite holds for all.
"""

from __future__ import annotations

from msgspec.structs import replace

from shoal.frontier.values import JobSpec
from shoal.model import Dead, DeadLetter, Retry, Snapshot, Task

_UNBOUNDED = 1 << 30


def is_last_attempt(task: Task, max_attempts: int) -> bool:
    """Whether it has no other; the task's own limit goes before that of its job."""
    return task.attempt >= (task.max_attempts or max_attempts)


def disposition(retry: Retry, task: Task, spec: JobSpec, snapshot: Snapshot | None) -> Retry | Dead:
    """A retry that counts, with no attempt left, is the end."""
    if retry.counts and is_last_attempt(task, spec.max_attempts):
        return Dead(retry.failure, snapshot)
    return retry


def letter_of(task: Task, dead: Dead, at: float) -> DeadLetter:
    return DeadLetter(task.failed(dead.failure), dead.failure.kind, at, dead.snapshot)


def redirected(task: Task, to: Task) -> Task:
    """The task at its new URL. A redirect is not a failure: the fetch that met it does not count as an attempt."""
    return replace(
        to, id=task.id, job=task.job, created_at=task.created_at, attempt=task.attempt - 1, variant=None
    )


def marks(task: Task) -> list[int]:
    """What is kept of a task that was admitted, so that its page is known from then on."""
    return [mark for mark in (task.fingerprint, task.variant) if mark is not None]


def own_mark(task: Task) -> int | None:
    """The mark by which to tell whether a page has a task; with a variant, one for the same handler and meta."""
    return task.fingerprint if task.variant is None else task.variant


def budget_left(spec: JobSpec, done: int, leased: int) -> int:
    """How many more tasks may be leased so that the page budget is never exceeded."""
    return max(0, spec.max_pages - done - leased) if spec.max_pages else _UNBOUNDED
