"""hasten: pages that wait for their next visit become due, because something says that they have changed."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.frontier.sqlite.codec import decode_task
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.verdicts import is_wanted

_PORTION = 500  # delayed tasks that are looked at in one transaction

_WAITING = """
SELECT d.due, d.id, d.queue, d.rank, d.attempt, d.body
  FROM queue q JOIN host h ON h.id = q.host JOIN delayed d ON d.queue = q.id
 WHERE q.job = ?1 AND h.name = ?2 AND d.revisit AND d.due > ?3 AND (d.due, d.id) > (?4, ?5)
 ORDER BY d.due, d.id LIMIT ?6
"""


def hasten_some(
    session: Session, job: str, host: str, wanted: Mapping[int, float], after: tuple[float, int]
) -> tuple[int, tuple[float, int] | None]:
    """Looks at the pages after that one (when it is due, and its id). Returns how many it has hastened, and the last it
    has looked at; None: there are no more."""
    job_id, _ = session.job_row(job)
    now, hastened = session.now(), 0
    rows = session.all(_WAITING, (job_id, host, now, *after, _PORTION))
    for due, id, queue_id, rank, attempt, body in rows:
        lane = session.queue_info(queue_id).lane
        task = decode_task(body, id=id, job=job, host=host, lane=lane, rank=rank, attempt=attempt)
        if is_wanted(task, wanted):
            session.db.execute("UPDATE delayed SET due = ? WHERE due = ? AND id = ?", (now, due, id))
            hastened += 1
    return hastened, (rows[-1][0], rows[-1][1]) if len(rows) == _PORTION else None
