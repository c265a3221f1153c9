"""settle, extend, release, reap: how leases end or are renewed."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set

import apsw

from shoal.frontier.loss import Loss
from shoal.frontier.protocol import Journal
from shoal.frontier.sqlite import expiring
from shoal.frontier.sqlite.adding import admit, is_known, put_back, see
from shoal.frontier.sqlite.codec import decode_task, encode_letter, encode_task
from shoal.frontier.sqlite.connection import NO_TURN, Session
from shoal.frontier.sqlite.domains import SharedDomain, give_back
from shoal.frontier.values import Flight, JobSpec, Settled, WorkerRecord, total
from shoal.frontier.verdicts import (
    disposition,
    first_valve,
    letter_of,
    own_mark,
    redirected,
    rejection,
    verdict_on,
)
from shoal.model import Dead, DeadLetter, Done, Lease, Moved, Retry, Revisit, Row, Settlement, Snapshot, Task

_FLIGHTS = """
SELECT l.token, l.worker, l.since, l.deadline, l.queue, l.rank, l.id, l.attempt, l.body
  FROM lease l WHERE ?1 IS NULL OR EXISTS (
       SELECT 1 FROM queue q JOIN job j ON j.id = q.job WHERE q.id = l.queue AND j.name = ?1)
 ORDER BY l.token LIMIT ?2
"""


def settle(session: Session, batch: Sequence[Settlement], journal: Journal | None) -> Settled:
    unsent = {settlement.lease.token for settlement in batch if settlement.unsent}
    owners = end_leases(session, {settlement.lease.token for settlement in batch}, timed=True, unsent=unsent)
    accepted: list[bool] = []
    found: dict[int, list[Task]] = {}
    rows: dict[int, list[Row]] = {}
    specs: dict[int, JobSpec] = {}
    buried = 0
    for settlement in batch:
        queue_id = owners.pop(settlement.lease.token, None)  # popped: the same lease settles once
        accepted.append(queue_id is not None)
        if queue_id is None:
            _count_stale(session, settlement)
            continue
        job_id = session.queue_info(queue_id).job_id
        spec = specs.get(job_id) or specs.setdefault(job_id, _spec(session, job_id))
        buried += _conclude(session, job_id, queue_id, settlement, spec)
        if settlement.links_cut:
            session.count(job_id, links_cut=settlement.links_cut)
        if settlement.counts:
            session.count_own(job_id, settlement.counts)
        if settlement.rejected:
            _reject(session, job_id, settlement)
        if settlement.found:
            found.setdefault(job_id, []).extend(settlement.found)
        if settlement.rows or settlement.archived:
            fresh = _fresh_rows(session, job_id, settlement, spec)
            session.count(job_id, items=len(fresh))
            rows.setdefault(job_id, []).extend((*fresh, *settlement.archived))
    added = [admit(session, job_id, specs[job_id], tasks) for job_id, tasks in found.items()]
    for job_id, written in rows.items():
        if journal is not None and written:
            _append(session, job_id, journal, written)
    return Settled(accepted, total(added), buried)


def _spec(session: Session, job_id: int) -> JobSpec:
    name = session.value("SELECT name FROM job WHERE id = ?", (job_id,))
    return session.job_row(name)[1]


def _count_stale(session: Session, settlement: Settlement) -> None:
    job_id = session.value("SELECT id FROM job WHERE name = ?", (settlement.lease.task.job,))
    if job_id is not None:
        session.count(job_id, stale=1)


def _conclude(session: Session, job_id: int, queue_id: int, settlement: Settlement, spec: JobSpec) -> int:
    """Puts the task where its verdict says; returns 1 if a retry had no attempt left."""
    task = settlement.lease.task
    if spec.dedupe_expires and isinstance(settlement.verdict, Done | Moved):
        expiring.note(session, job_id, session.queue_info(queue_id).host_id, [task.fingerprint])
    match settlement.verdict:
        case Done() if task.item is not None:
            session.count(job_id, admitted=-1)
        case Done():
            session.count(job_id, done=1)
        case Revisit(after) as revisit:
            _put_off(session, queue_id, revisit.task(task), after, revisit=True)
            session.count(job_id, delayed=1, waiting=1)
        case Moved() as moved:
            _move(session, job_id, spec, task, moved)
        case Dead() as dead:
            _bury(session, job_id, queue_id, task, dead)
        case Retry() as retry:
            verdict = disposition(retry, task, spec, settlement.snapshot)
            if isinstance(verdict, Dead):
                _bury(session, job_id, queue_id, task, verdict)
                return 1
            _delay(session, job_id, queue_id, task, retry)
    return 0


def _delay(session: Session, job_id: int, queue_id: int, task: Task, retry: Retry) -> None:
    if retry.lane is not None:
        queue_id = session.queue_id(job_id, retry.lane, session.queue_info(queue_id).host_id)
    _put_off(session, queue_id, retry.task(task), retry.after, revisit=False)
    session.count(job_id, delayed=1, retried=int(retry.counts))


def _put_off(session: Session, queue_id: int, task: Task, after: float, *, revisit: bool) -> None:
    due = session.now() + after
    session.db.execute(
        "INSERT INTO delayed(due, id, queue, rank, attempt, body, revisit) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (due, task.id, queue_id, -task.priority, task.attempt, _body(task), revisit),
    )


def _body(task: Task) -> bytes:
    return encode_task(task, task.created_at)


def _move(session: Session, job_id: int, spec: JobSpec, task: Task, moved: Moved) -> None:
    to = moved.to
    host_id = session.host_id(to.host, spec.valve)
    if to.fingerprint is not None and not moved.returns_to(task):
        if is_known(session, job_id, spec, host_id, own_mark(to)):
            _merge(session, job_id, task, to)  # that page has its own task
            return
        see(session, job_id, host_id, to)
    if spec.dedupe_expires:
        expiring.reopen(session, job_id, host_id, to.fingerprint)
    to = redirected(task, to)
    queue_id = session.queue_id(job_id, to.lane, host_id)
    put_back(session, [(queue_id, -to.priority, to.id, to.attempt, _body(to))])


def _merge(session: Session, job_id: int, task: Task, to: Task) -> None:
    session.count(job_id, merged=1, duplicates=1)
    session.db.executemany(
        "INSERT OR REPLACE INTO merged(job, hash, url) VALUES (?, ?, ?)",
        [(job_id, page, to.url) for page in task.pages],
    )


def _bury(session: Session, job_id: int, queue_id: int, task: Task, dead: Dead) -> None:
    _keep(session, job_id, queue_id, letter_of(task, dead, session.now()))
    session.count(job_id, dead=1)
    if _spec(session, job_id).dedupe_expires:
        expiring.note(session, job_id, session.queue_info(queue_id).host_id, [task.fingerprint])


def _reject(session: Session, job_id: int, settlement: Settlement) -> None:
    spec, items = _spec(session, job_id), settlement.rejected
    for id, item in enumerate(items, session.serials(len(items))):
        host_id = session.host_id(item.host, first_valve(item.host, spec))
        queue_id = session.queue_id(job_id, item.lane, host_id)
        _keep(session, job_id, queue_id, rejection(item, id, spec.name, session.now()))
    session.count(job_id, rejected=len(items))


def _keep(session: Session, job_id: int, queue_id: int, letter: DeadLetter) -> None:
    task = letter.task
    session.db.execute(
        "INSERT INTO dead(id, job, host, kind, at, queue, letter) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (task.id, job_id, task.host, letter.kind, letter.at, queue_id, encode_letter(letter)),
    )


def _fresh_rows(session: Session, job_id: int, settlement: Settlement, spec: JobSpec) -> list[Row]:
    fresh: list[Row] = []
    for row in settlement.rows:
        if row.key is not None:
            session.db.execute("INSERT OR IGNORE INTO row_key(job, hash) VALUES (?, ?)", (job_id, row.key))
            new = session.db.changes() or expiring.has_passed(session, job_id, spec, expiring.ROWS, row.key)
            if not new:
                continue
            if spec.dedupe_expires:
                expiring.note(session, job_id, expiring.ROWS, [row.key])
        fresh.append(row)
    return fresh


def _append(session: Session, job_id: int, journal: Journal, rows: list[Row]) -> None:
    """Appends inside the transaction. If the commit fails, the next append goes back to the committed position."""
    committed = session.value("SELECT length FROM journal WHERE job = ? AND key = ?", (job_id, journal.key))
    position = journal.append(committed or 0, rows)
    session.db.execute(
        "INSERT OR REPLACE INTO journal(job, key, length) VALUES (?, ?, ?)", (job_id, journal.key, position)
    )


def extend(
    session: Session,
    worker: str,
    lease_seconds: float,
    status: bytes = b"",
    tokens: Collection[int] | None = None,
) -> int:
    now = session.now()
    session.db.execute("DELETE FROM worker WHERE until <= ?", (now,))
    session.db.execute(
        "INSERT OR REPLACE INTO worker(name, seen_at, until, status) VALUES (?, ?, ?, ?)",
        (worker, now, now + lease_seconds, status),
    )
    session.db.execute("UPDATE meta SET value = ? WHERE key = 'last'", (now,))  # time never falls behind this
    if tokens is None:
        session.db.execute(
            "UPDATE lease SET deadline = max(deadline, ?) WHERE worker = ?", (now + lease_seconds, worker)
        )
    elif tokens:
        session.db.execute(
            "UPDATE lease SET deadline = max(deadline, ?) WHERE worker = ? AND token IN carray(?)",
            (now + lease_seconds, worker, apsw.carray(array("q", tokens))),
        )
    else:
        return 0  # carray does not take an empty array
    return session.db.changes()


def workers(session: Session) -> Sequence[WorkerRecord]:
    rows = session.all("SELECT name, seen_at, until, status FROM worker WHERE until > ?", (session.now(),))
    return [WorkerRecord(*row) for row in rows]


def forget_workers(session: Session, names: Iterable[str]) -> None:
    session.db.executemany("DELETE FROM worker WHERE name = ?", [(name,) for name in names])


def release(session: Session, leases: Sequence[Lease]) -> int:
    owners = end_leases(session, {lease.token for lease in leases})
    for lease in leases:
        queue_id = owners.get(lease.token)
        if queue_id is not None:
            task = lease.task
            put_back(session, [(queue_id, -task.priority, task.id, task.attempt - 1, _body(task))])
    return len(owners)


def reap(session: Session, take_loss: Callable[[str], bytes | None]) -> int:
    """Takes back leases that ran out, and those of workers known to be dead. `take_loss` returns what is known about
    the end of a worker; None: it may be alive."""
    now = session.now()
    gone = {
        worker: Loss.decode(worker, loss)
        for (worker,) in session.all("SELECT DISTINCT worker FROM lease")
        if (loss := take_loss(worker)) is not None
    }
    expired = [
        row
        for row in session.all("SELECT token, worker, deadline, queue, rank, id, attempt, body FROM lease")
        if row[2] <= now or row[1] in gone
    ]
    end_leases(session, {row[0] for row in expired})
    for place, (token, worker, _, queue_id, *rest) in enumerate(expired):
        task = _task(session, queue_id, *rest)
        verdict = verdict_on(task, token, gone.get(worker), place, len(expired), now)
        _take_back(session, queue_id, task, verdict)
    return len(expired)


def held(session: Session, worker: str) -> Sequence[Lease]:
    rows = session.all(
        "SELECT token, deadline, queue, rank, id, attempt, body FROM lease WHERE worker = ?", (worker,)
    )
    return [
        Lease(token, _task(session, queue_id, *rest), deadline, host_version=0)
        for token, deadline, queue_id, *rest in rows
    ]


def flights(session: Session, limit: int, job: str | None = None) -> Sequence[Flight]:
    """Tokens are given in the order of claims."""
    rows = session.all(_FLIGHTS, (job, limit))
    return [
        Flight(
            Lease(token, _task(session, queue_id, *rest), deadline, host_version=0),
            worker,
            since or session.now(),
        )
        for token, worker, since, deadline, queue_id, *rest in rows
    ]


def _task(session: Session, queue_id: int, rank: int, id: int, attempt: int, body: bytes) -> Task:
    info = session.queue_info(queue_id)
    return decode_task(body, id=id, job=info.job, host=info.host, lane=info.lane, rank=rank, attempt=attempt)


def _take_back(
    session: Session, queue_id: int, task: Task, verdict: tuple[Retry, Snapshot | None] | None
) -> None:
    job_id = session.queue_info(queue_id).job_id
    if verdict is None:
        put_back(session, [(queue_id, -task.priority, task.id, task.attempt - 1, _body(task))])
        return
    retry, snapshot = verdict
    last = disposition(retry, task, _spec(session, job_id), snapshot)
    if isinstance(last, Dead):
        _bury(session, job_id, queue_id, task, last)
    elif retry.after:
        _delay(session, job_id, queue_id, task, retry)
    else:
        task = retry.task(task)
        put_back(session, [(queue_id, -task.priority, task.id, task.attempt, _body(task))])
        session.count(job_id, retried=1)


def end_leases(
    session: Session, tokens: Set[int], *, timed: bool = False, unsent: Set[int] = frozenset()
) -> dict[int, int]:
    """Deletes the leases, and gives each host and domain its places back. Returns token -> queue for the leases that
    were still held. `timed`: how long they were held counts for the host's average. `unsent`: those whose turns are
    given back, too."""
    if not tokens:
        return {}
    rows = session.all(
        "DELETE FROM lease WHERE token IN carray(?) RETURNING token, queue, since",
        (apsw.carray(array("q", tokens)),),
    )
    now = session.now()
    hosts: dict[int, list[float]] = {}
    refunds: dict[int, list[float]] = {}
    for token, queue_id, since in rows:
        info = session.queue_info(queue_id)
        session.count(info.job_id, leased=-1)
        if since == NO_TURN:
            continue
        hosts.setdefault(info.host_id, []).append(now - since)
        if token in unsent:
            refunds.setdefault(info.host_id, []).append(since)
    for host_id, times in refunds.items():
        _refund(session, host_id, times)
    shared: Counter[int] = Counter()
    for host_id, held in hosts.items():
        valve, domain_id, not_before = session.host_row(host_id)
        after = valve.give_back(
            len(held), sum(held) / len(held) if timed and host_id not in refunds else None
        )
        session.set_valve(host_id, valve, after, not_before)
        if domain_id:
            shared[domain_id] += len(held)
    for domain_id, count in shared.items():
        give_back(session, domain_id, count)
    return {token: queue_id for token, queue_id, _ in rows}


def _refund(session: Session, host_id: int, times: Sequence[float]) -> None:
    valve, domain_id, not_before = session.host_row(host_id)
    after = valve
    for since in times:
        after = after.refund(since)
        if domain_id:
            domain = SharedDomain(session, domain_id)
            domain.refund(since, valve.interval > 0)
            not_before = domain.next_at
    session.set_valve(host_id, valve, after, not_before)
