"""add: checks tasks for duplicates and budgets, and puts them into their queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from shoal.frontier.sqlite import expiring, seen
from shoal.frontier.sqlite.codec import encode_task
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.values import Added, Cursor, Fate, JobSpec
from shoal.frontier.verdicts import first_valve, marks
from shoal.model import Task

TaskRow = tuple[int, int, int, int, bytes]  # queue, rank, id, attempt, body

RUN = 32  # tasks: with their bodies they fill a page of the file

_PUT_BODY = "INSERT INTO body(id, body) VALUES (?, ?)"
DROP_BODY = "DELETE FROM body WHERE id = ?"
_PUT = "INSERT INTO task(queue, rank, id, attempt, body) VALUES (?, ?, ?, ?, ?)"


def add(session: Session, job: str, tasks: Sequence[Task], cursor: Cursor | None) -> Added:
    job_id, spec = session.job_row(job)
    each: list[Fate] = ["new"] * len(tasks)
    added = replace(admit(session, job_id, spec, tasks, each), each=each)
    if cursor is not None:
        session.db.execute(
            "INSERT INTO source(job, name, fed, fed_all) VALUES (?1, ?2, coalesce(?3, 0), ?4)"
            " ON CONFLICT DO UPDATE SET fed = coalesce(?3, fed), fed_all = max(fed_all, ?4)",
            (job_id, cursor.source, cursor.fed, cursor.fed_all),
        )
    return added


def admit(
    session: Session, job_id: int, spec: JobSpec, tasks: Sequence[Task], each: list[Fate] | None = None
) -> Added:
    """Puts new tasks into their queues, with a handful of statements per task and one counter update per queue. Writes
    into `each` what became of the others."""
    if not tasks:
        return Added()
    each = ["new"] * len(tasks) if each is None else each
    created_at, first_id = session.now(), session.serials(len(tasks))
    budgets = _Budgets(session, job_id, spec.max_pages_per_host)
    rows: list[TaskRow] = []
    lengths: dict[int, int] = {}
    lanes: dict[str, int] = {}
    duplicates = over_budget = new_marks = 0
    # Ids in the given order, rows in the order of the tables, so that neighbours share pages of the file.
    for number in sorted(range(len(tasks)), key=lambda n: (tasks[n].host, tasks[n].fingerprint or 0)):
        task = tasks[number]
        host_id = session.host_id(task.host, first_valve(task.host, spec))
        if budgets.limit and task.item is None and budgets.spent(host_id):
            # A known URL is a duplicate even if the budget of its host is spent.
            known = task.fingerprint is not None and is_known(
                session, job_id, spec, host_id, task.fingerprint
            )
            duplicates, over_budget = duplicates + known, over_budget + (not known)
            each[number] = "duplicate" if known else "over_budget"
            continue
        if task.fingerprint is not None:
            is_new = seen.see(session, (job_id, host_id, task.fingerprint))
            new_marks += is_new
            if not is_new and not expiring.find_anew(session, job_id, spec, host_id, task.fingerprint):
                duplicates += 1
                each[number] = "duplicate"
                continue
            if task.variant is not None:
                new_marks += seen.see(session, (job_id, host_id, task.variant))
                if spec.dedupe_expires:
                    expiring.note(session, job_id, host_id, [task.variant])
        queue_id = session.queue_id(job_id, task.lane, host_id)
        rows.append((queue_id, -task.priority, first_id + number, 0, encode_task(task, created_at)))
        lengths[queue_id] = lengths.get(queue_id, 0) + 1
        lanes[task.lane] = lanes.get(task.lane, 0) + 1
        if budgets.limit and task.item is None:
            budgets.spend(host_id)
    seen.merge_some(session, new_marks)
    _put(session, rows, lengths)
    session.db.executemany(
        "UPDATE queue SET pending = pending + ?1, admitted = admitted + ?1 WHERE id = ?2",
        ((count, queue_id) for queue_id, count in lengths.items()),
    )
    new = len(rows)
    for lane, count in lanes.items():
        session.count_pending(job_id, lane, count)
    session.count(job_id, admitted=new, duplicates=duplicates, over_budget=over_budget)
    if spec.dedupe_expires:
        expiring.clear_some(session, job_id, spec, len(tasks))
    return Added(new, duplicates, over_budget)


def _put(session: Session, rows: Sequence[TaskRow], lengths: Mapping[int, int]) -> None:
    """Puts tasks into their queues.

    `task` is in the order of queues, so tasks of many queues go to as many places of the file, and each of them changes
    a page of its own. Bodies are most of it. So those of a queue that gets less than a page are in `body`, one behind
    the other, and the places in `task` become few and close together.
    """
    apart: list[tuple[int, bytes]] = []
    places: list[TaskRow] = []
    for row in rows:
        if lengths[row[0]] < RUN:
            apart.append((row[2], row[4]))
            row = (*row[:4], b"")
        places.append(row)
    session.db.executemany(_PUT, places)
    session.db.executemany(_PUT_BODY, sorted(apart))


def see(session: Session, job_id: int, host_id: int, task: Task) -> None:
    seen.merge_some(session, sum(seen.see(session, (job_id, host_id, mark)) for mark in marks(task)))


def is_known(session: Session, job_id: int, spec: JobSpec, host_id: int, mark: int | None) -> bool:
    """Whether it was seen, and may not be seen again yet."""
    return seen.is_seen(session, (job_id, host_id, mark)) and not expiring.has_passed(
        session, job_id, spec, host_id, mark
    )


def put_back(session: Session, rows: Iterable[TaskRow]) -> None:
    """Makes tasks pending again that were retried, released, redirected or replayed."""
    for row in rows:
        session.db.execute(_PUT, row)
        session.db.execute("UPDATE queue SET pending = pending + 1 WHERE id = ?", (row[0],))
        queue = session.queue_info(row[0])
        session.count_pending(queue.job_id, queue.lane, 1)


class _Budgets:
    """How many pages of each host the job has admitted. Read only if there is a limit."""

    def __init__(self, session: Session, job_id: int, limit: int) -> None:
        self.limit = limit
        self._session = session
        self._job_id = job_id
        self._admitted: dict[int, int] = {}

    def spent(self, host_id: int) -> bool:
        if host_id not in self._admitted:
            self._admitted[host_id] = self._session.value(
                "SELECT coalesce(sum(admitted), 0) FROM queue WHERE host = ? AND job = ?",
                (host_id, self._job_id),
            )
        return self._admitted[host_id] >= self.limit

    def spend(self, host_id: int) -> None:
        self._admitted[host_id] += 1
