"""Jobs, hosts, journals, dead letters and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shoal.frontier.codec import stored
from shoal.frontier.sqlite import expiring, seen
from shoal.frontier.sqlite.adding import DROP_BODY, put_back
from shoal.frontier.sqlite.codec import decode_letter, encode_task
from shoal.frontier.sqlite.connection import COUNTED, Session, decode_spec
from shoal.frontier.sqlite.domains import look_again
from shoal.frontier.sqlite.settling import end_leases
from shoal.frontier.values import (
    EARLIER,
    MOST_SOURCES,
    OWN_START,
    PAST_JOBS,
    Counters,
    DeadFilter,
    HostPage,
    HostRecord,
    Job,
    JobSpec,
    JobState,
    Note,
    PastJob,
    Source,
    fed_of,
    is_same,
)
from shoal.frontier.verdicts import is_rejected
from shoal.model import REJECTED, DeadLetter, is_items_host
from shoal.valve import Domain, Valve

_encode = _encode_spec = msgspec.msgpack.Encoder().encode
_decode_past = stored("past job")(msgspec.msgpack.Decoder(PastJob).decode)
_AT_ONCE = 5_000  # rows; a few hundredths of a second in which nobody else can write
_LEFT = {
    "recent": "host, hash",
    "seen": "host, hash",
    "merged": "hash",
    "row_key": "hash",
    "passed": "host, hash",
}  # tables of what a job has met, and their keys
_LEFT_IN_QUEUES = """
DELETE FROM task WHERE (queue, rank, id) IN
  (SELECT t.queue, t.rank, t.id FROM queue q JOIN task t ON t.queue = q.id WHERE q.job = ? LIMIT ?) RETURNING id
"""
_LEFT_QUEUES = "DELETE FROM queue WHERE id IN (SELECT id FROM queue WHERE job = ? LIMIT ?)"
_decode_sources = msgspec.json.Decoder(dict[str, tuple[int, int]]).decode
_SOURCES = "(SELECT json_group_object(name, json_array(fed, fed_all)) FROM source WHERE job = job.id)"
_decode_counts = msgspec.json.Decoder(dict[str, int]).decode
_COUNTS = "(SELECT json_group_object(name, count) FROM counter WHERE job = job.id)"
_JOB = f"SELECT spec, state, created_at, finished_at, {_SOURCES}, {_COUNTS}, {', '.join(COUNTED)} FROM job"


def open_job(session: Session, spec: JobSpec, source: str | None = None, *, again: bool = False) -> Job:
    session.db.execute(
        "INSERT INTO job(name, spec, state, created_at) VALUES (?, ?, 'running', ?)"
        " ON CONFLICT(name) DO UPDATE SET spec = excluded.spec, state = 'running'",
        (spec.name, _encode_spec(spec), session.now()),
    )
    if source is not None:
        _open_source(session, session.job_row(spec.name)[0], source, again)
    job = _existing(session, spec.name)
    if job.exhausted:
        session.db.execute("UPDATE job SET state = 'finished' WHERE name = ?", (spec.name,))
    return _existing(session, spec.name)


def _open_source(session: Session, job_id: int, name: str, again: bool) -> None:
    session.db.execute(
        "INSERT INTO source(job, name) VALUES (?1, ?2)"
        " ON CONFLICT DO UPDATE SET fed = 0, fed_all = 0 WHERE ?3 AND fed_all",
        (job_id, name, again),
    )
    if session.value("SELECT count(*) FROM source WHERE job = ?", (job_id,)) > MOST_SOURCES:
        through = f"FROM source WHERE job = ? AND fed_all AND name <> '{OWN_START}'"
        fed = session.value(f"SELECT sum(fed) {through}", (job_id,)) or 0
        session.db.execute(f"DELETE {through}", (job_id,))
        session.db.execute("INSERT INTO source VALUES (?, ?, ?, 1)", (job_id, EARLIER, fed))


def _existing(session: Session, name: str) -> Job:
    job = find_job(session, name)
    assert job is not None
    return job


def find_job(session: Session, name: str) -> Job | None:
    row = session.row(f"{_JOB} WHERE name = ?", (name,))
    return None if row is None else _job(row)


def all_jobs(session: Session, state: JobState | None = None) -> Sequence[Job]:
    return [_job(row) for row in session.all(f"{_JOB} WHERE ?1 IS NULL OR state = ?1 ORDER BY id", (state,))]


def _job(row: tuple[Any, ...]) -> Job:
    spec, state, created_at, finished_at, cursors, own, *counts = row
    sources = {name: Source(fed, bool(all_)) for name, (fed, all_) in _decode_sources(cursors).items()}
    return Job(
        decode_spec(spec),
        state,
        Counters(*counts),
        created_at,
        finished_at,
        *fed_of(sources),
        sources=sources,
        counts=dict(sorted(_decode_counts(own).items())),
    )


def set_state(session: Session, name: str, state: JobState) -> None:
    job_id, _ = session.job_row(name)
    finished_at = session.now() if state in ("finished", "cancelled") else 0.0
    session.db.execute("UPDATE job SET state = ?, finished_at = ? WHERE id = ?", (state, finished_at, job_id))


def finish(session: Session, name: str) -> bool:
    job = find_job(session, name)
    if job is None or job.state != "running" or not job.exhausted:
        return False
    set_state(session, name, "finished")
    return True


def bring_back(session: Session, name: str) -> None:
    """A finished job that has something left to do runs again."""
    if session.value("SELECT state FROM job WHERE name = ?", (name,)) == "finished":
        session.flush_counts()
        if not _existing(session, name).exhausted:
            set_state(session, name, "running")


def drop_job(session: Session, name: str) -> None:
    session.db.execute("DELETE FROM past WHERE name = ?", (name,))
    job_id = session.value("SELECT id FROM job WHERE name = ?", (name,))
    if job_id is None:
        return
    _forget(session, job_id)
    while clear_some(session):
        pass


def prune_job(session: Session, job: Job, summary: bytes) -> bool:
    """The job is gone at once. What it leaves behind may be much, and is cleared later, a little at a time."""
    name = job.spec.name
    if not is_same(job, find_job(session, name)):
        return False
    _forget(session, session.job_row(name)[0])
    now = session.now()
    record = _encode(PastJob(job, now, summary))
    session.db.execute("INSERT OR REPLACE INTO past(name, at, record) VALUES (?, ?, ?)", (name, now, record))
    session.db.execute(
        "DELETE FROM past WHERE name IN (SELECT name FROM past ORDER BY at DESC LIMIT -1 OFFSET ?)",
        (PAST_JOBS,),
    )
    return True


def past_job(session: Session, name: str) -> PastJob | None:
    record = session.value("SELECT record FROM past WHERE name = ?", (name,))
    return None if record is None else _decode_past(record)


def past_jobs(session: Session) -> Sequence[PastJob]:
    return [_decode_past(record) for (record,) in session.all("SELECT record FROM past ORDER BY at")]


def clear_some(session: Session) -> bool:
    """Deletes some of what dropped jobs have left; False: there is nothing any more."""
    job_id = session.value("SELECT job FROM dropped LIMIT 1")
    if job_id is None:
        return False
    for table, key in _LEFT.items():
        session.db.execute(
            f"DELETE FROM {table} WHERE job = ?1 AND ({key}) IN (SELECT {key} FROM {table} WHERE job = ?1 LIMIT ?2)",
            (job_id, _AT_ONCE),
        )
        if deleted := session.db.changes():
            if table == "recent":
                seen.count(session, -deleted)
            return True
    if ids := session.all(_LEFT_IN_QUEUES, (job_id, _AT_ONCE)):
        session.db.executemany(DROP_BODY, ids)
        return True
    session.db.execute(_LEFT_QUEUES, (job_id, _AT_ONCE))
    if session.db.changes():
        return True
    session.db.execute("DELETE FROM dropped WHERE job = ?", (job_id,))
    return True


def _forget(session: Session, job_id: int) -> None:
    tokens = session.all(
        "SELECT token FROM lease WHERE queue IN (SELECT id FROM queue WHERE job = ?)", (job_id,)
    )
    end_leases(session, {token for (token,) in tokens})
    own_queues = "(SELECT id FROM queue WHERE job = ?)"
    session.db.execute(f"DELETE FROM delayed WHERE queue IN {own_queues}", (job_id,))
    session.db.execute("UPDATE queue SET pending = 0 WHERE job = ? AND pending > 0", (job_id,))
    for table in ("crowd", "visit", "lane", "dead", "journal", "source", "counter"):
        session.db.execute(f"DELETE FROM {table} WHERE job = ?", (job_id,))
    session.db.execute("DELETE FROM job WHERE id = ?", (job_id,))
    session.db.execute("INSERT INTO dropped(job) VALUES (?)", (job_id,))
    session.forget_names()


def lanes(session: Session, job: str | None = None) -> Mapping[str, int]:
    of_job = None if job is None else session.job_row(job)[0]
    rows = session.all(
        "SELECT name, sum(pending) FROM lane WHERE ?1 IS NULL OR job = ?1 GROUP BY name HAVING sum(pending)",
        (of_job,),
    )
    return dict(rows)


def journal_length(session: Session, job: str, key: str) -> int | None:
    job_id, _ = session.job_row(job)
    length: int | None = session.value("SELECT length FROM journal WHERE job = ? AND key = ?", (job_id, key))
    return length


def journals(session: Session, job: str) -> Mapping[str, int]:
    job_id, _ = session.job_row(job)
    return dict(session.all("SELECT key, length FROM journal WHERE job = ?", (job_id,)))


# -- hosts

_COLUMNS = """h.name, h.interval, h.burst, h.cap, h.blocked_until, h.in_flight, h.next_at, h.hold,
       coalesce(s.state, x''), h.version, d.name, d.in_flight, d.next_at"""
_TABLES = "host h LEFT JOIN host_state s ON s.host = h.id LEFT JOIN domain d ON d.id = h.domain"
_HOST = f"SELECT {_COLUMNS} FROM {_TABLES} WHERE h.name = ?"
_PAGE = f"""
SELECT {_COLUMNS}, h.id,
       (SELECT sum(q.pending) FROM queue q WHERE q.host = h.id AND (?2 IS NULL OR q.job = ?2))
  FROM {_TABLES}
 WHERE h.id > ?1 AND substr(h.name, 1, 9) <> 'items of '
   AND (?2 IS NULL OR EXISTS (SELECT 1 FROM queue q WHERE q.host = h.id AND q.job = ?2))
 ORDER BY h.id LIMIT ?3
"""


def find_host(session: Session, name: str) -> HostRecord | None:
    row = session.row(_HOST, (name,))
    return None if row is None else _host(row)


def host_page(session: Session, job: str | None = None, after: str = "", limit: int = 1000) -> HostPage:
    """By number, so that a walk over very many hosts never holds the writer for long."""
    number = None if job is None else session.job_row(job)[0]
    rows = session.all(_PAGE, (int(after or 0), number, limit))
    last = rows[-1][-2] if len(rows) == limit else ""
    return HostPage([(_host(row[:-2]), row[-1] or 0) for row in rows], str(last))


def _host(row: tuple[Any, ...]) -> HostRecord:
    name, *numbers, state, version, domain, in_flight, next_at = row
    shared = None if domain is None else Domain(domain, in_flight, next_at)
    return HostRecord(name, Valve(*numbers), state, version, shared)


def update_host(session: Session, record: HostRecord) -> bool:
    row = session.row("SELECT id, version FROM host WHERE name = ?", (record.name,))
    if row is None or row[1] != record.version:
        return False
    host_id = row[0]
    before, domain_id, not_before = session.host_row(host_id)
    after = before.reset(record.valve)
    session.db.execute(
        "UPDATE host SET interval = ?, burst = ?, cap = ?, blocked_until = ?, version = version + 1 WHERE id = ?",
        (after.interval, after.burst, after.cap, after.blocked_until, host_id),
    )
    session.db.execute(
        "INSERT OR REPLACE INTO host_state(host, state) VALUES (?, ?)", (host_id, record.state)
    )
    session.set_valve(host_id, before, after, not_before)
    if domain_id:
        look_again(session, domain_id)
    return True


def longest_queues(session: Session, job: str | None = None, limit: int = 10) -> Sequence[tuple[str, int]]:
    of_job = "" if job is None else f"AND q.job = {session.job_row(job)[0]}"
    return session.all(
        "SELECT h.name, sum(q.pending) AS length FROM queue q JOIN host h ON h.id = q.host"
        f" WHERE q.pending > 0 {of_job} GROUP BY h.id ORDER BY length DESC, h.name LIMIT ?",
        (limit,),
    )


# -- dead letters


def _where(query: DeadFilter) -> tuple[str, list[object]]:
    tests: list[tuple[str, object]] = []
    if query.host is not None:
        tests.append(("host = ?", query.host))
    if query.kind is not None:
        tests.append(("kind = ?", query.kind))
    else:
        tests.append(("kind <> ?", REJECTED))
    if query.since is not None:
        tests.append(("at >= ?", query.since))
    if query.until is not None:
        tests.append(("at < ?", query.until))
    if query.ids is not None:
        tests.append(
            ("id IN (SELECT value FROM json_each(?))", msgspec.json.encode(list(query.ids)).decode())
        )
    if query.before is not None:
        at, id = query.before
        tests += [("at <= ?", at), ("(at, id) < (?, ?)", at)]
        return " AND ".join(test for test, _ in tests), [*(value for _, value in tests), id]
    return " AND ".join(test for test, _ in tests), [value for _, value in tests]


def _ids(session: Session, query: DeadFilter) -> Sequence[int]:
    """In their order, each job's by its index: a letter has a part of its page's body, so they are never sorted
    themselves."""
    where, values = _where(query)
    jobs = session.all("SELECT id FROM job WHERE ?1 IS NULL OR name = ?1", (query.job,))
    ordered = f"SELECT at, id FROM dead WHERE job = ? AND {where} ORDER BY at DESC, id DESC LIMIT ?"
    limit = -1 if query.limit is None else query.limit
    found = [row for (job,) in jobs for row in session.all(ordered, (job, *values, limit))]
    return [id for _, id in sorted(found, reverse=True)[: query.limit]]


def dead(session: Session, query: DeadFilter) -> Sequence[DeadLetter]:
    one = "SELECT letter FROM dead WHERE id = ?"
    return [decode_letter(session.value(one, (id,))) for id in _ids(session, query)]


def replay(session: Session, query: DeadFilter) -> int:
    letters = dead(session, query)
    for letter in letters:
        task = letter.task
        [(job_id, queue_id)] = session.all("DELETE FROM dead WHERE id = ? RETURNING job, queue", (task.id,))
        put_back(session, [(queue_id, -task.priority, task.id, 0, encode_task(task, task.created_at))])
        expiring.reopen(session, job_id, session.queue_info(queue_id).host_id, task.fingerprint)
        if is_rejected(letter):
            session.count(job_id, rejected=-1, admitted=1)
        else:
            session.count(job_id, dead=-1)
        session.db.execute(
            "UPDATE job SET state = 'running', finished_at = 0 WHERE id = ? AND state = 'finished'", (job_id,)
        )
    return len(letters)


def drop(session: Session, query: DeadFilter) -> int:
    ids = _ids(session, query)
    for id in ids:
        [(job_id, kind, host)] = session.all("DELETE FROM dead WHERE id = ? RETURNING job, kind, host", (id,))
        if kind == REJECTED and is_items_host(host):
            session.count(job_id, rejected=-1)
    return len(ids)


# -- notes, in the table `meta`


_encode_note = msgspec.msgpack.Encoder().encode
_decode_note = msgspec.msgpack.Decoder(Note).decode


def find_note(session: Session, key: str) -> Note | None:
    blob = session.value("SELECT value FROM meta WHERE key = ?", (_note_key(key),))
    return None if blob is None else _decode_note(blob)


def set_note(session: Session, key: str, value: bytes, version: int) -> bool:
    known = find_note(session, key)
    if version != (known.version if known else 0):
        return False
    blob = _encode_note(Note(value, version + 1))
    session.db.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (_note_key(key), blob))
    return True


def drop_note(session: Session, key: str) -> None:
    session.db.execute("DELETE FROM meta WHERE key = ?", (_note_key(key),))


def drop_notes(session: Session, prefix: str) -> int:
    first = _note_key(prefix)
    beyond = first[:-1] + chr(ord(first[-1]) + 1)
    session.db.execute("DELETE FROM meta WHERE key >= ? AND key < ?", (first, beyond))
    return session.db.changes()


def _note_key(key: str) -> str:
    return f"note:{key}"
