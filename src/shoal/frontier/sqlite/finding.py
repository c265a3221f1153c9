"""find: where the task of one URL is.

No table has an index by URL: every task would pay for a question that is rare. So SQLite scans the rows for the bytes
of the URL or its fingerprint, and only matches are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.frontier.sqlite.codec import decode_letter, decode_task
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.seen import is_seen
from shoal.frontier.values import SCAN, HostQueue, Whereabouts, concerns
from shoal.model import Task
from shoal.text import pack

_LETTERS = 20_000  # the latest letters of a host that are searched: they are long

_IN_HAND = """
SELECT l.queue, l.rank, l.id, l.attempt, l.body, l.worker, l.since, l.deadline FROM lease l
 WHERE l.queue IN (SELECT id FROM queue WHERE job = ?) AND (instr(l.body, ?) OR instr(l.body, ?))
"""
_WAITING = """
SELECT queue, rank, id, attempt, body FROM
  (SELECT * FROM pending WHERE queue = ? ORDER BY rank, id LIMIT ?) WHERE instr(body, ?) OR instr(body, ?)
"""
_LATER = """
SELECT queue, rank, id, attempt, body, due FROM delayed
 WHERE queue IN (SELECT id FROM queue WHERE job = ?) AND (instr(body, ?) OR instr(body, ?))
"""
_BURIED = """
SELECT letter FROM (SELECT letter FROM dead WHERE job = ? AND host = ? ORDER BY at DESC LIMIT ?)
 WHERE instr(letter, ?) OR instr(letter, ?)
"""


def find(session: Session, job: str, task: Task, scan: int = SCAN) -> Whereabouts:
    job_id, _ = session.job_row(job)
    return (
        _leased(session, job_id, task)
        or _pending(session, job_id, task, scan)
        or _delayed(session, job_id, task)
        or _dead(session, job_id, task)
        or _admitted(session, job_id, task, scan)
    )


def _marks(task: Task) -> tuple[bytes, bytes]:
    """The bytes to search for in a task that `concerns` the page."""
    url = task.url.encode()
    return url, pack(task.fingerprint) if task.fingerprint is not None else url


def _leased(session: Session, job_id: int, task: Task) -> Whereabouts | None:
    for row in session.all(_IN_HAND, (job_id, *_marks(task))):
        worker, since, deadline = row[5:]
        if concerns(found := _task(session, row), task):
            return Whereabouts(
                "leased", found, worker=worker, since=since or session.now(), deadline=deadline
            )
    return None


def _pending(session: Session, job_id: int, task: Task, scan: int) -> Whereabouts | None:
    for queue_id, _ in _queues(session, job_id, task.host):
        for row in session.all(_WAITING, (queue_id, scan, *_marks(task))):
            if concerns(found := _task(session, row), task):
                before = "SELECT count(*) FROM task WHERE queue = ? AND (rank, id) < (?, ?)"
                return Whereabouts("pending", found, ahead=session.value(before, row[:3]))
    return None


def _delayed(session: Session, job_id: int, task: Task) -> Whereabouts | None:
    for row in session.all(_LATER, (job_id, *_marks(task))):
        if concerns(found := _task(session, row), task):
            return Whereabouts("delayed", found, due=row[5])
    return None


def _dead(session: Session, job_id: int, task: Task) -> Whereabouts | None:
    for (data,) in session.all(_BURIED, (job_id, task.host, _LETTERS, *_marks(task))):
        letter = decode_letter(data)
        if concerns(letter.task, task):
            return Whereabouts("dead", letter.task, since=letter.at)
    return None


def _admitted(session: Session, job_id: int, task: Task, scan: int) -> Whereabouts:
    """Of a task that was not found: done, unless a queue is longer than the part that was searched."""
    into = session.value("SELECT url FROM merged WHERE job = ? AND hash = ?", (job_id, task.fingerprint))
    if into is not None:
        return Whereabouts("merged", into=into)
    host_id = session.value("SELECT id FROM host WHERE name = ?", (task.host,))
    if (
        task.fingerprint is None
        or host_id is None
        or not is_seen(session, (job_id, host_id, task.fingerprint))
    ):
        return Whereabouts("unknown")
    if any(pending > scan for _, pending in _queues(session, job_id, task.host)):
        return Whereabouts("pending", ahead=scan)
    return Whereabouts("done")


def _queues(session: Session, job_id: int, host: str) -> Sequence[tuple[int, int]]:
    return session.all(
        "SELECT q.id, q.pending FROM queue q JOIN host h ON h.id = q.host WHERE h.name = ? AND q.job = ?",
        (host, job_id),
    )


def _task(session: Session, row: tuple[Any, ...]) -> Task:
    queue_id, rank, id, attempt, body, *_ = row
    info = session.queue_info(queue_id)
    return decode_task(body, id=id, job=info.job, host=info.host, lane=info.lane, rank=rank, attempt=attempt)


def host_queues(session: Session, host: str) -> Sequence[HostQueue]:
    rows = session.all(
        "SELECT j.name, q.lane, q.pending, (SELECT count(*) FROM delayed d WHERE d.queue = q.id),"
        " (SELECT count(*) FROM delayed d WHERE d.queue = q.id AND d.revisit = 1)"
        " FROM queue q JOIN host h ON h.id = q.host JOIN job j ON j.id = q.job WHERE h.name = ? ORDER BY j.id, q.lane",
        (host,),
    )
    return [queue for row in rows if (queue := HostQueue(*row)).pending or queue.delayed]
