"""dedupe_expires: pages and rows that may come again a while after they were done. Only for jobs with that setting.

The table `passed` has a time beside the hash of a page or a row. Of a page it is when its task ended: a page whose task
is open has none there, and gets no second task. Old entries are cleared in small steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.frontier.sqlite import seen
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.values import JobSpec

ROWS = 0  # in place of a host: the hash is the key of a row

_PASS = "INSERT OR REPLACE INTO passed(job, host, hash, at) VALUES (?, ?, ?, ?)"
_AT_LEAST = 100  # entries that are cleared at once


def note(session: Session, job_id: int, host_id: int, hashes: Iterable[int | None]) -> None:
    """From now on their time counts."""
    now = session.now()
    session.db.executemany(_PASS, [(job_id, host_id, one, now) for one in hashes if one is not None])


def has_passed(session: Session, job_id: int, spec: JobSpec, host_id: int, hash: int | None) -> bool:
    """Whether its time is over."""
    if not spec.dedupe_expires:
        return False
    at = session.value(
        "SELECT at FROM passed WHERE job = ? AND host = ? AND hash = ?", (job_id, host_id, hash)
    )
    return at is not None and at <= session.now() - spec.dedupe_expires


def reopen(session: Session, job_id: int, host_id: int, hash: int | None) -> None:
    """The page has an open task."""
    session.db.execute("DELETE FROM passed WHERE job = ? AND host = ? AND hash = ?", (job_id, host_id, hash))


def find_anew(session: Session, job_id: int, spec: JobSpec, host_id: int, hash: int) -> bool:
    """Whether the page that was seen may be visited by a new task, which it then has."""
    if not has_passed(session, job_id, spec, host_id, hash):
        return False
    reopen(session, job_id, host_id, hash)
    session.db.execute("DELETE FROM merged WHERE job = ? AND hash = ?", (job_id, hash))
    return True


def clear_some(session: Session, job_id: int, spec: JobSpec, count: int) -> None:
    """Forgets some of the oldest entries whose time is over: more than were added."""
    old = session.all(
        "DELETE FROM passed WHERE (job, host, hash) IN"
        " (SELECT job, host, hash FROM passed WHERE job = ?1 AND at <= ?2 ORDER BY at LIMIT ?3) RETURNING host, hash",
        (job_id, session.now() - spec.dedupe_expires, max(_AT_LEAST, 2 * count)),
    )
    seen.forget(session, [(job_id, host_id, hash) for host_id, hash in old if host_id != ROWS])
    rows = [(job_id, hash) for host_id, hash in old if host_id == ROWS]
    session.db.executemany("DELETE FROM row_key WHERE job = ? AND hash = ?", rows)
