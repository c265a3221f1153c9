"""claim: takes tasks of the due hosts in turn, as many as each valve allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.frontier.sqlite import domains
from shoal.frontier.sqlite.adding import DROP_BODY, put_back
from shoal.frontier.sqlite.codec import decode_task
from shoal.frontier.sqlite.connection import NO_TURN, Session
from shoal.frontier.sqlite.domains import CROWDED, SharedDomain
from shoal.frontier.values import Claim, Claimed, Turn
from shoal.frontier.verdicts import budget_left
from shoal.model import Lease
from shoal.valve import FOREVER, Valve

# A host that becomes due joins the line where `Valve.seat` says. If others already wait for its domain, it joins their
# crowd instead: at its place, but not before the first of them.
_CROWD = "SELECT 1 FROM crowd c WHERE c.domain = queue.domain AND c.job = ?1 AND c.lane = ?2"
_CROWDED = f"queue.domain > 0 AND EXISTS ({_CROWD})"
_JOIN = f"""
UPDATE queue SET in_line = CASE WHEN {_CROWDED} THEN {CROWDED} ELSE 1 END, place =
    CASE WHEN {_CROWDED}
      THEN max(place, coalesce((SELECT q.place FROM queue q
             WHERE q.job = ?1 AND q.lane = ?2 AND q.domain = queue.domain AND q.domain > 0 AND q.pending > 0
               AND q.in_line = {CROWDED} ORDER BY q.place LIMIT 1), 0))
      ELSE seat(place, ?4, h.interval, h.hold)
    END
  FROM host h
 WHERE h.id = queue.host AND job = ?1 AND lane = ?2 AND pending > 0 AND in_line = 0 AND due <= ?3
"""
_LINE = """
SELECT q.id, q.pending, h.id, h.version, h.name, h.domain,
       h.interval, h.burst, h.cap, h.blocked_until, h.in_flight, h.next_at, h.hold
  FROM queue q JOIN host h ON h.id = q.host
 WHERE q.job = ? AND q.lane = ? AND q.pending > 0 AND q.in_line = 1 ORDER BY q.place LIMIT ?
"""
_CROWDS = "SELECT domain FROM crowd WHERE job = ? AND lane = ? AND due <= ? ORDER BY due LIMIT 100"
_SERVE = "UPDATE queue SET pending = pending - ?1, place = place + ?2, in_line = pending > ?1 WHERE id = ?3"
_RUNNING = "SELECT id, done, leased, created_at FROM job WHERE name = ? AND state = 'running'"
_PEEK = "SELECT rank, id, attempt, body, apart FROM pending WHERE queue = ? ORDER BY rank, id LIMIT ?"
_POP = "DELETE FROM task WHERE queue = ? AND (rank, id) <= (?, ?)"
_LEASE = """
INSERT INTO lease(token, worker, since, deadline, queue, rank, id, attempt, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def claim(session: Session, claim: Claim) -> Claimed:
    now = session.now()
    promote(session, now)
    first = session.serials(claim.limit)
    tokens = iter(range(first, first + claim.limit))
    leases: list[Lease] = []
    open_lanes: list[tuple[int, str]] = []  # (job, lane) with room left
    taken: Counter[str] = Counter()
    for job_id, job, permits in _running(session, claim):
        for lane, most in [pair for lanes in claim.rounds() for pair in lanes.items()]:
            room = min(most - taken[lane], claim.limit - len(leases), permits)
            if room <= 0 or (job_id, lane) in open_lanes:
                continue  # no room, or nothing is due
            got = _Taker(session, claim, job_id, job, lane, now, tokens).take(room)
            leases += got
            taken[lane] += len(got)
            permits -= len(got)
            session.count(job_id, leased=len(got))
            session.count_pending(job_id, lane, -len(got))
            if len(got) < room:
                open_lanes.append((job_id, lane))
    return Claimed(leases, next_due(session, open_lanes, now), now)


def _running(session: Session, claim: Claim) -> list[tuple[int, str, int]]:
    """The running jobs by priority, with how many tasks the page budget still allows. Jobs of equal priority take
    turns."""
    jobs, names = [], claim.jobs
    start = next(session.rounds) % len(names) if names else 0
    for name in [*names[start:], *names[:start]]:
        row = session.row(_RUNNING, (name,))
        if row is not None and claim.means(name, row[3]):
            spec = session.job_row(name)[1]
            jobs.append((-spec.priority, row[0], name, budget_left(spec, row[1], row[2])))
    jobs.sort(key=lambda job: job[0])
    return [job[1:] for job in jobs]


class _Taker:
    """Takes tasks of one job and lane."""

    def __init__(
        self,
        session: Session,
        claim: Claim,
        job_id: int,
        job: str,
        lane: str,
        now: float,
        tokens: Iterable[int],
    ) -> None:
        self._session, self._db = session, session.db
        self._worker, self._deadline = claim.worker, now + claim.lease_seconds
        self._ahead = claim.ahead.get(job, 0)
        self._job_id, self._job, self._lane = job_id, job, lane
        self._now, self._tokens = now, iter(tokens)
        self._domains: dict[int, SharedDomain] = {}

    def take(self, room: int) -> list[Lease]:
        """Serves the due hosts in passes, a fair share each, until there is no room or nothing is due."""
        leases: list[Lease] = []
        while room > 0 and (due := self._due(room)):
            share = max(1, room // len(due))
            for queue_id, pending, host_id, version, host, domain_id, *numbers in due:
                valve = Valve(*numbers)
                count = min(share, room, pending, valve.allowance(self._now))
                if domain_id:
                    count = self._share(domain_id, queue_id, count, valve.interval > 0)
                    if not count:
                        continue
                leases += self._lease(queue_id, count, host, version, valve.interval)
                more = max(0, min(self._ahead, share - count, room - count, pending - count))
                if more:
                    leases += self._lease(queue_id, more, host, version, valve.interval, ahead=True)
                self._db.execute(_SERVE, (count + more, valve.charge(count), queue_id))
                not_before = self._domains[domain_id].next_at if domain_id else 0.0
                self._session.set_valve(host_id, valve, valve.take(count, self._now), not_before)
                room -= count + more
        return leases

    def _share(self, domain_id: int, queue_id: int, count: int, paced: bool) -> int:
        """How many of `count` requests the host's domain allows, and takes them. If none, the queue waits."""
        domain = self._domain(domain_id)
        allowed = min(count, domain.allowance(paced, self._now))
        if allowed:
            domain.take(allowed, paced, self._now)
        else:
            domain.park(self._job_id, self._lane, queue_id)
        return allowed

    def _domain(self, domain_id: int) -> SharedDomain:
        if domain_id not in self._domains:
            self._domains[domain_id] = SharedDomain(self._session, domain_id)
        return self._domains[domain_id]

    def _call_crowds(self, most: int) -> None:
        """Lets hosts of domains that are due join the line."""
        called = 0
        while called < most and (due := self._session.all(_CROWDS, (self._job_id, self._lane, self._now))):
            for (domain_id,) in due:
                called += self._domain(domain_id).call(self._job_id, self._lane, self._now)

    def _due(self, most: int) -> list[tuple[Any, ...]]:
        front = self._session.front(self._job_id, self._lane)
        self._db.execute(_JOIN, (self._job_id, self._lane, self._now, front))
        self._call_crowds(most)
        return self._session.all(_LINE, (self._job_id, self._lane, most))

    def _lease(
        self, queue_id: int, count: int, host: str, version: int, interval: float, *, ahead: bool = False
    ) -> list[Lease]:
        since = NO_TURN if ahead else self._now
        tasks = self._session.all(_PEEK, (queue_id, count))
        self._db.execute(_POP, (queue_id, tasks[-1][0], tasks[-1][1]))
        self._db.executemany(DROP_BODY, [(id,) for _, id, _, _, apart in tasks if apart])
        rows, leases = [], []
        for (rank, id, attempt, body, _), token in zip(tasks, self._tokens, strict=False):
            rows.append((token, self._worker, since, self._deadline, queue_id, rank, id, attempt + 1, body))
            task = decode_task(
                body, id=id, job=self._job, host=host, lane=self._lane, rank=rank, attempt=attempt + 1
            )
            leases.append(Lease(token, task, self._deadline, version, interval, ahead))
        self._db.executemany(_LEASE, rows)
        return leases


def reserve(session: Session, job: str, host: str, most: float) -> Turn:
    job_id, spec = session.job_row(job)
    host_id = session.host_id(host, spec.valve)
    valve, domain_id, _ = session.host_row(host_id)
    now, paced = session.now(), valve.interval > 0
    due = max(valve.turn(), now)
    domain = None
    if domain_id:
        session.db.execute("INSERT OR IGNORE INTO visit(domain, job) VALUES (?, ?)", (domain_id, job_id))
        domain = SharedDomain(session, domain_id)
        due = max(due, domain.next_at) if paced else due
    taken = due - now <= most
    if taken:
        if domain is not None:
            domain.reserve(due, paced)
        not_before = domain.next_at if domain is not None else 0.0
        session.set_valve(host_id, valve, valve.reserve(due), not_before)
    version = session.value("SELECT version FROM host WHERE id = ?", (host_id,))
    return Turn(due - now, taken, valve.interval, version)


def hold_back(session: Session, hosts: Iterable[str], seconds: float) -> None:
    """Delays the hosts and their domains, as if their last request had been so much later."""
    shared: set[int] = set()
    for (host_id,) in session.all(
        "SELECT id FROM host WHERE interval > 0 AND name IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(list(hosts)).decode(),),
    ):
        valve, domain_id, next_at = session.host_row(host_id)
        session.set_valve(host_id, valve, replace(valve, next_at=valve.next_at + seconds), next_at + seconds)
        shared.add(domain_id)
    for domain_id in shared - {0}:
        domains.hold_back(session, domain_id, seconds)


def promote(session: Session, now: float) -> None:
    """Puts due retries and revisits back into their queues: a retry at the place of its rank and age, a revisit with a
    new id behind what is already there, so that pages which are always due leave room for new ones."""
    rows = session.all(
        "SELECT queue, rank, id, attempt, body, due, revisit FROM delayed WHERE due <= ? ORDER BY due, id LIMIT 1000",
        (now,),
    )
    numbers = _new_ids(session, sum(row[-1] for row in rows))
    for queue_id, rank, id, attempt, body, due, revisit in rows:
        session.db.execute("DELETE FROM delayed WHERE due = ? AND id = ?", (due, id))
        number = next(numbers) if revisit else id
        put_back(session, [(queue_id, rank, number, attempt, body)])
        session.count(session.queue_info(queue_id).job_id, delayed=-1, waiting=-revisit)


def _new_ids(session: Session, count: int) -> Iterator[int]:
    first = session.serials(count) if count else 0
    return iter(range(first, first + count))


def next_due(session: Session, open_lanes: Iterable[tuple[int, str]], now: float) -> float:
    """Seconds until a host with work for the claimer is due, a retry's time comes, or a lease expires."""
    times = [
        session.value(
            "SELECT due FROM queue WHERE job = ? AND lane = ? AND pending > 0 AND in_line = 0 ORDER BY due LIMIT 1",
            job_and_lane,
        )
        for job_and_lane in open_lanes
    ]
    times += [
        session.value("SELECT due FROM crowd WHERE job = ? AND lane = ? ORDER BY due LIMIT 1", job_and_lane)
        for job_and_lane in open_lanes
    ]
    if open_lanes:
        times.append(session.value("SELECT due FROM delayed ORDER BY due LIMIT 1"))
    times.append(session.value("SELECT min(deadline) FROM lease"))
    soonest = min((time for time in times if time is not None), default=FOREVER)
    return FOREVER if soonest >= FOREVER else max(0.0, soonest - now)
