"""The seen-set: the marks of all pages that have or had a task, in a small table and a large one.

Marks are hashes, so new ones fall anywhere. In one large table each of them would change a page of the file of its own,
which is then written twice, to the log and to its place. So new marks go into `recent`, a few hundred pages of the
file. When that is full, the marks that are too many move on to `seen`: neighbours, so that a page of `seen` takes up
several when it is written. `merging` has the place where the last move ended. The next one begins there and goes
round, so that a place is visited again when much has gathered.

Moves are part of the transactions that add: a mark is always in exactly one of the tables, and a transaction moves
hardly more than it adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.frontier.sqlite.connection import Session

Mark = tuple[int, int, int | None]  # job, host, hash

RECENT = 125_000  # marks: about 2 MB, changed by every transaction
SLICE = 4_000  # at least so many move at once

_SEE = """
INSERT OR IGNORE INTO recent(job, host, hash) SELECT ?1, ?2, ?3
 WHERE NOT EXISTS (SELECT 1 FROM seen WHERE job = ?1 AND host = ?2 AND hash = ?3)
"""
_IS_SEEN = """
SELECT EXISTS (SELECT 1 FROM recent WHERE job = ?1 AND host = ?2 AND hash = ?3)
    OR EXISTS (SELECT 1 FROM seen WHERE job = ?1 AND host = ?2 AND hash = ?3)
"""
_NTH = """
SELECT job, host, hash FROM recent WHERE (job, host, hash) > (?, ?, ?) ORDER BY job, host, hash LIMIT 1 OFFSET ?
"""
_PART = "FROM recent WHERE (job, host, hash) > (?, ?, ?) AND (job, host, hash) <= (?, ?, ?)"
_START, _END = (0, 0, 0), (1 << 62, 0, 0)


def see(session: Session, mark: Mark) -> bool:
    """Whether the mark is new. The caller passes the number of new ones to `merge_some`."""
    session.run(_SEE, mark)
    return bool(session.db.changes())


def is_seen(session: Session, mark: Mark) -> bool:
    return bool(session.value(_IS_SEEN, mark))


def forget(session: Session, marks: Iterable[Mark]) -> None:
    marks = list(marks)
    before = session.db.total_changes()
    session.db.executemany("DELETE FROM recent WHERE job = ? AND host = ? AND hash = ?", marks)
    count(session, before - session.db.total_changes())
    session.db.executemany("DELETE FROM seen WHERE job = ? AND host = ? AND hash = ?", marks)


def count(session: Session, change: int) -> None:
    """Must be called with every change of the length of `recent`."""
    if change:
        session.db.execute("UPDATE merging SET recent = recent + ?", (change,))


def merge_some(session: Session, new: int) -> None:
    """Counts new marks, and moves those that are too many."""
    row = session.row("UPDATE merging SET recent = recent + ? RETURNING recent, job, host, hash", (new,))
    assert row is not None
    length, *after = row
    if length < RECENT + SLICE:
        return
    moved, place = _move(session, after, length - RECENT)
    if place == _START:  # the table ended sooner
        again, place = _move(session, place, length - RECENT - moved)
        moved += again
    session.db.execute("UPDATE merging SET recent = recent - ?, job = ?, host = ?, hash = ?", (moved, *place))


def _move(session: Session, after: Sequence[int], most: int) -> tuple[int, Sequence[int]]:
    """Moves so many marks to `seen`, or all up to the end of the table; returns how many, and where the next move
    begins."""
    if not most:
        return 0, after
    last = session.row(_NTH, (*after, most - 1))
    part = (*after, *(last or _END))
    # OR IGNORE, because a statement that may fail halfway keeps a copy of every page that it changes.
    session.db.execute(f"INSERT OR IGNORE INTO seen(job, host, hash) SELECT job, host, hash {_PART}", part)
    session.db.execute(f"DELETE {_PART}", part)
    return session.db.changes(), last or _START
