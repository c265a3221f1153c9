"""The connection of the writer thread: transactions, names to numbers, and the counters of a transaction."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from shoal.errors import UsageError
from shoal.frontier.clock import Timebase
from shoal.frontier.sqlite import domains
from shoal.frontier.sqlite.schema import check_version
from shoal.frontier.values import Counters, JobSpec
from shoal.limits import COUNTER_MOST, COUNTER_NAMES
from shoal.model.counts import OTHER
from shoal.valve import DomainLimit, Valve, strictest

T = TypeVar("T")
_CACHED = 200_000  # names kept in memory; beyond this they are looked up again

COUNTED = Counters.__struct_fields__  # each is a column of `job`
_COUNT = f"UPDATE job SET {', '.join(f'{name} = {name} + ?' for name in COUNTED)} WHERE id = ?"
_COUNT_LANE = (
    "INSERT INTO lane(job, name, pending) VALUES (?, ?, ?)"
    " ON CONFLICT DO UPDATE SET pending = pending + excluded.pending"
)

# A new name beyond the limit is counted with the others.
_COUNT_OWN = f"""
INSERT INTO counter(job, name, count)
SELECT ?1, iif(
         EXISTS (SELECT 1 FROM counter WHERE job = ?1 AND name = ?2)
           OR (SELECT count(*) FROM counter WHERE job = ?1 AND name <> '{OTHER}') < {COUNTER_NAMES},
         ?2, '{OTHER}'), ?3
 WHERE true
    ON CONFLICT DO UPDATE SET count = min(count + excluded.count, {COUNTER_MOST})
"""

decode_spec = msgspec.msgpack.Decoder(JobSpec).decode


class QueueInfo(NamedTuple):
    """The job, lane and host of a queue."""

    job_id: int
    job: str
    lane: str
    host_id: int
    host: str


class HostRow(NamedTuple):
    valve: Valve
    domain_id: int  # 0: it has its domain alone
    domain_next_at: float


_HOST = """
SELECT interval, burst, cap, blocked_until, in_flight, next_at, hold, domain,
       CASE WHEN domain THEN (SELECT d.next_at FROM domain d WHERE d.id = h.domain) END
  FROM host h WHERE id = ?
"""
_FIRST = """
SELECT q.place, h.hold FROM queue q JOIN host h ON h.id = q.host
 WHERE q.job = ? AND q.lane = ? AND q.pending > 0 AND q.in_line = 1 ORDER BY q.place LIMIT 1
"""


def _seat(*values: Any) -> float:
    """`Valve.seat` for SQL."""
    place, front, interval, hold = values
    return Valve(interval, hold=hold).seat(place, front)


NO_TURN = 0.0  # lease.since of a lease that has no turn of its host


class Session:
    def __init__(self, db: apsw.Connection, timebase: Timebase) -> None:
        self.db = db
        db.create_scalar_function("seat", _seat, 4, deterministic=True)
        self.run = db.cursor().execute  # without a new cursor each time, for what is run very often
        self.now = timebase.now
        self.rounds = itertools.count()  # of claims by this process
        self._names = _Names()
        self._counts: dict[int, Counter[str]] = {}
        self._lanes: Counter[tuple[int, str]] = Counter()  # pending, by job and lane
        self._own: Counter[tuple[int, str]] = Counter()  # counters of spiders, by job and name

    # -- transactions

    def begin(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        check_version(self.db)

    def commit(self) -> None:
        self.db.execute("COMMIT")

    def rollback(self) -> None:
        self._forget()
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def attempt(self, job: Callable[[Session], T]) -> T:
        """Runs one caller's job in a savepoint. If it fails, only its own changes are undone."""
        self.db.execute("SAVEPOINT job")
        try:
            result = job(self)
            self.flush_counts()
        except Exception:
            self._forget()
            if self.db.in_transaction:
                self.db.execute("ROLLBACK TO job; RELEASE job")
            raise
        self.db.execute("RELEASE job")
        return result

    def _forget(self) -> None:
        """Drops cached numbers and counts of a transaction that was undone."""
        self.forget_names()
        self._counts.clear()
        self._lanes.clear()
        self._own.clear()

    def close(self) -> None:
        self.db.close(True)

    # -- reading

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return self.db.execute(sql, values).fetchone()

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row; None if there is none."""
        return self.db.execute(sql, values).get

    # -- numbers

    def forget_names(self) -> None:
        self._names = _Names()

    def serials(self, count: int) -> int:
        """Reserves `count` new numbers, for task ids or lease tokens, and returns the first."""
        row = self.value("UPDATE meta SET value = value + ? WHERE key = 'serial' RETURNING value", (count,))
        return int(row) - count + 1

    def job_row(self, name: str) -> tuple[int, JobSpec]:
        row = self.row("SELECT id, spec FROM job WHERE name = ?", (name,))
        if row is None:
            raise UsageError(f"no job named {name!r} in this store")
        return row[0], self._spec(row[1])

    def _spec(self, data: bytes) -> JobSpec:
        if self._names.specs.get(data) is None:
            self._names.specs[data] = decode_spec(data)
        return self._names.specs[data]

    def domain_limit(self, domain_id: int) -> DomainLimit:
        """The strictest limit of the running jobs that have tasks there."""
        rows = self.all(
            "SELECT j.spec FROM visit v JOIN job j ON j.id = v.job WHERE v.domain = ? AND j.state = 'running'",
            (domain_id,),
        )
        return strictest(self._spec(data).domain for (data,) in rows)

    def host_id(self, name: str, valve: Valve) -> int:
        """The host's number. A new host starts with the given valve."""
        number = self._names.hosts.get(name)
        if number is None:
            number = self._find_host(name) or self._new_host(name, valve)
            self._names.hosts[name] = number
        return number

    def _find_host(self, name: str) -> int | None:
        number: int | None = self.value("SELECT id FROM host WHERE name = ?", (name,))
        return number

    def _new_host(self, name: str, valve: Valve) -> int:
        self.db.execute(
            "INSERT INTO host(name, interval, burst, cap, blocked_until, in_flight, next_at)"
            " VALUES (?, ?, ?, ?, ?, 0, 0)",
            (name, valve.interval, valve.burst, valve.cap, valve.blocked_until),
        )
        number = self.db.last_insert_rowid()
        domains.meet_host(self, number, name)
        return number

    def queue_id(self, job_id: int, lane: str, host_id: int) -> int:
        key = (job_id, lane, host_id)
        number = self._names.queues.get(key)
        if number is None:
            row = self.row(
                "SELECT id FROM queue WHERE host = ? AND job = ? AND lane = ?", (host_id, job_id, lane)
            )
            number = row[0] if row else self._new_queue(job_id, lane, host_id)
            self._names.queues[key] = number
        return number

    def _new_queue(self, job_id: int, lane: str, host_id: int) -> int:
        valve, domain_id, _ = self.host_row(host_id)
        if domain_id:
            self.db.execute("INSERT OR IGNORE INTO visit(domain, job) VALUES (?, ?)", (domain_id, job_id))
        self.db.execute(
            "INSERT INTO queue(job, lane, host, due, domain) VALUES (?, ?, ?, ?, ?)",
            (job_id, lane, host_id, valve.due(), domain_id),
        )
        return self.db.last_insert_rowid()

    def queue_info(self, queue_id: int) -> QueueInfo:
        info = self._names.infos.get(queue_id)
        if info is None:
            row = self.row(
                "SELECT q.job, j.name, q.lane, q.host, h.name FROM queue q"
                " JOIN job j ON j.id = q.job JOIN host h ON h.id = q.host WHERE q.id = ?",
                (queue_id,),
            )
            assert row is not None
            info = self._names.infos[queue_id] = QueueInfo(*row)
        return info

    # -- valves

    def host_row(self, host_id: int) -> HostRow:
        row = self.row(_HOST, (host_id,))
        assert row is not None
        return HostRow(Valve(*row[:7]), row[7], row[8] or 0.0)

    def front(self, job_id: int, lane: str) -> float | None:
        """The time of the line (`Valve.front`); None: it is empty."""
        first = self.row(_FIRST, (job_id, lane))
        return Valve(hold=first[1]).front(first[0]) if first is not None else None

    def set_valve(self, host_id: int, before: Valve, after: Valve, not_before: float = 0.0) -> None:
        """Stores what claim and settle change, and when the host's queues are due. `not_before`: when its domain is
        due."""
        self.db.execute(
            "UPDATE host SET in_flight = ?, next_at = ?, hold = ? WHERE id = ?",
            (after.in_flight, after.next_at, after.hold, host_id),
        )
        if after.due() != before.due():
            due = max(after.due(), not_before if after.interval else 0.0)
            self.db.execute("UPDATE queue SET due = ?, in_line = 0 WHERE host = ?", (due, host_id))

    # -- counters

    def count(self, job_id: int, **changes: int) -> None:
        counts = self._counts.get(job_id)
        if counts is None:
            counts = self._counts[job_id] = Counter()
        for name, change in changes.items():
            counts[name] += change

    def count_own(self, job_id: int, counts: Iterable[tuple[str, int]]) -> None:
        for name, number in counts:
            self._own[job_id, name] += number

    def count_pending(self, job_id: int, lane: str, change: int) -> None:
        """Must be called with every change of a queue's length."""
        self.count(job_id, pending=change)
        self._lanes[job_id, lane] += change

    def flush_counts(self) -> None:
        """Writes the counts. Called before they are read."""
        self.db.executemany(_COUNT_LANE, [(*lane, change) for lane, change in self._lanes.items()])
        self._lanes.clear()
        for job_id, counts in self._counts.items():
            self.db.execute(_COUNT, (*(counts[name] for name in COUNTED), job_id))
        self._counts.clear()
        self.db.executemany(_COUNT_OWN, [(*key, number) for key, number in self._own.items()])
        self._own.clear()


class _Names:
    """Look-ups that are valid until a transaction is undone."""

    def __init__(self) -> None:
        self.hosts: dict[str, int] = _Bounded()
        self.queues: dict[tuple[int, str, int], int] = _Bounded()
        self.infos: dict[int, QueueInfo] = _Bounded()
        self.specs: dict[bytes, JobSpec] = _Bounded()


K = TypeVar("K")
V = TypeVar("V")


class _Bounded(dict[K, V]):
    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= _CACHED:
            self.clear()
        super().__setitem__(key, value)
