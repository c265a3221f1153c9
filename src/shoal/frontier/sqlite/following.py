"""following: which pages of a standing job wait for their next visit, and which are overdue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from shoal.frontier.following import FOLLOWED_SEEN, Followed, Following, overdue, stride
from shoal.frontier.sqlite.codec import decode_task
from shoal.frontier.sqlite.connection import Session
from shoal.model import Task

_RECORD = b"\xa6record"  # how the field's name is written: only tasks that have it are decoded
_QUEUES = 5_000  # whose first tasks are looked at
_FIRST = 10  # tasks of a queue, at least

# Both are answered by the index alone, which is small: one look at each queue, and one walk.
_FIRST_DUE = """
SELECT min((SELECT min(d.due) FROM delayed d WHERE d.queue = q.id AND d.revisit = 1)) FROM queue q WHERE q.job = ?
"""
_SOME = """
SELECT d.due, d.id FROM queue q JOIN delayed d ON d.queue = q.id AND d.revisit = 1
 WHERE q.job = ?1 AND d.id % ?2 = 0 LIMIT ?3
"""
_WAITING = (
    f"SELECT d.queue, d.rank, d.id, d.attempt, d.body, d.due FROM ({_SOME}) s JOIN delayed d USING (due, id)"
)
_RETRIES = """
SELECT d.queue, d.rank, d.id, d.attempt, d.body FROM queue q JOIN delayed d ON d.queue = q.id AND d.revisit = 0
 WHERE q.job = ?1 LIMIT ?2
"""
_IN_HAND = """
SELECT l.queue, l.rank, l.id, l.attempt, l.body FROM lease l JOIN queue q ON q.id = l.queue WHERE q.job = ?1 LIMIT ?2
"""
# Pages that are visited again were admitted long ago, so they are the first of their queues.
_PENDING = "SELECT queue, rank, id, attempt, body FROM pending WHERE queue = ? ORDER BY rank, id LIMIT ?"


def following(session: Session, job: str, limit: int = FOLLOWED_SEEN) -> Following:
    job_id, _ = session.job_row(job)
    session.flush_counts()
    waiting = session.value("SELECT waiting FROM job WHERE id = ?", (job_id,))
    next_due = session.value(_FIRST_DUE, (job_id,))
    every = stride(waiting, limit)
    sample = session.all(_WAITING, (job_id, every, 2 * limit))
    pages = [Followed(task, due, True) for *row, due in sample for task in _followed(session, [row])]
    others, whole = _others(session, job_id, limit)
    pages += [page for task in others if (page := overdue(task)) is not None]
    return Following(pages, next_due, whole and every == 1)


def _others(session: Session, job_id: int, limit: int) -> tuple[Sequence[Task], bool]:
    """Those in hand, those that wait for a retry, and the first of those in their queues; and whether that is all."""
    found: list[Task] = []
    whole = True
    for query in (_IN_HAND, _RETRIES):
        rows = session.all(query, (job_id, limit))
        whole = whole and len(rows) < limit
        found += _followed(session, rows)
    queues = session.all(
        "SELECT id, pending FROM queue WHERE job = ? AND pending > 0 LIMIT ?", (job_id, _QUEUES)
    )
    each = max(_FIRST, limit // max(1, len(queues)))
    for queue_id, pending in queues:
        found += _followed(session, session.all(_PENDING, (queue_id, each)))
        whole = whole and pending <= each
    return found, whole and len(queues) < _QUEUES


def _followed(session: Session, rows: Iterable[Sequence[Any]]) -> Iterable[Task]:
    """The tasks of those rows that have a record."""
    for queue_id, rank, id, attempt, body in rows:
        if _RECORD in body:
            info = session.queue_info(queue_id)
            task = decode_task(
                body, id=id, job=info.job, host=info.host, lane=info.lane, rank=rank, attempt=attempt
            )
            if task.record is not None:
                yield task
