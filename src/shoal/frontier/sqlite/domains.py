"""Domains: the limit that the hosts of one registrable domain share, once there are two.

A queue whose host is due but whose domain is not stands apart (in_line = CROWDED). When the domain is due, as many of
these queues join the line as it allows, by their places. `crowd` has a row for every domain, job and lane with such
queues. It says when to look at them again: when the domain is due; or after the next change, if enough have joined
already. So a thousand hosts that wait for their domain cost a claim nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.admit.identity import registrable_domain
from shoal.valve import FOREVER, Domain

if TYPE_CHECKING:
    from shoal.frontier.sqlite.connection import Session

CROWDED = 2  # queue.in_line of a queue that waits for its domain
_FORWARD = 500  # queues that join the line at once if the domain has no limit any more

_OF_CROWD = "job = ?1 AND lane = ?2 AND domain = ?3 AND domain > 0 AND pending > 0 AND in_line"
_PARK = f"""
UPDATE queue SET in_line = {CROWDED}, place = max(place, coalesce(
    (SELECT place FROM queue WHERE {_OF_CROWD} = {CROWDED} ORDER BY place LIMIT 1), 0))
 WHERE id = ?4
"""
# A queue joins the line like any other.
_COME = """
UPDATE queue SET in_line = 1, place = seat(place, ?1, h.interval, h.hold)
  FROM host h WHERE h.id = queue.host AND queue.id = ?2
"""


def meet_host(session: Session, host_id: int, name: str) -> None:
    """Adds a new host to its domain. The domain's limit begins with the second host."""
    domain = registrable_domain(name)
    if not domain:
        return
    row = session.row("SELECT id, first, shared FROM domain WHERE name = ?", (domain,))
    if row is None:
        session.db.execute("INSERT INTO domain(name, first) VALUES (?, ?)", (domain, host_id))
        return
    domain_id, first, shared = row
    if not shared:
        session.db.execute(
            "UPDATE domain SET shared = 1, in_flight = (SELECT in_flight FROM host WHERE id = first) WHERE id = ?",
            (domain_id,),
        )
        session.db.execute("UPDATE host SET domain = ? WHERE id = ?", (domain_id, first))
        session.db.execute("UPDATE queue SET domain = ? WHERE host = ?", (domain_id, first))
        session.db.execute(
            "INSERT INTO visit(domain, job) SELECT DISTINCT domain, job FROM queue WHERE host = ?", (first,)
        )
    session.db.execute("UPDATE host SET domain = ? WHERE id = ?", (domain_id, host_id))


def give_back(session: Session, domain_id: int, count: int) -> None:
    """So many requests to its hosts have ended."""
    session.db.execute("UPDATE domain SET in_flight = max(0, in_flight - ?) WHERE id = ?", (count, domain_id))
    look_again(session, domain_id)


def hold_back(session: Session, domain_id: int, seconds: float) -> None:
    session.db.execute("UPDATE domain SET next_at = next_at + ? WHERE id = ?", (seconds, domain_id))
    look_again(session, domain_id)


def look_again(session: Session, domain_id: int) -> None:
    """The domain or one of its hosts changed: sets anew when to look at the queues that wait for it."""
    if session.value("SELECT 1 FROM crowd WHERE domain = ? LIMIT 1", (domain_id,)):
        due = SharedDomain(session, domain_id).due
        session.db.execute("UPDATE crowd SET due = ? WHERE domain = ?", (due, domain_id))


class SharedDomain:
    """A domain during one claim."""

    def __init__(self, session: Session, domain_id: int) -> None:
        self._session, self._id = session, domain_id
        row = session.row("SELECT name, in_flight, next_at FROM domain WHERE id = ?", (domain_id,))
        assert row is not None
        self._domain = Domain(*row)
        self._limit = session.domain_limit(domain_id)

    @property
    def due(self) -> float:
        return self._domain.due(self._limit)

    @property
    def next_at(self) -> float:
        return self._domain.next_at

    def allowance(self, paced: bool, now: float) -> int:
        return self._domain.allowance(self._limit, paced, now)

    def take(self, count: int, paced: bool, now: float) -> None:
        self._change(self._domain.take(count, self._limit, paced, now))

    def reserve(self, turn: float, paced: bool) -> None:
        self._change(self._domain.reserve(turn, self._limit, paced))

    def refund(self, since: float, paced: bool) -> None:
        self._change(self._domain.refund(since, self._limit, paced))

    def _change(self, after: Domain) -> None:
        self._domain = after
        execute = self._session.db.execute
        execute(
            "UPDATE domain SET in_flight = ?, next_at = ? WHERE id = ?",
            (after.in_flight, after.next_at, self._id),
        )
        execute("UPDATE crowd SET due = ? WHERE domain = ?", (self.due, self._id))

    def park(self, job_id: int, lane: str, queue_id: int) -> None:
        """The queue waits until the domain is due."""
        execute = self._session.db.execute
        execute(_PARK, (job_id, lane, self._id, queue_id))
        execute(
            "INSERT OR REPLACE INTO crowd(domain, job, lane, due) VALUES (?, ?, ?, ?)",
            (self._id, job_id, lane, self.due),
        )

    def call(self, job_id: int, lane: str, now: float) -> int:
        """Lets as many queues join the line as the domain allows, less those in it already; returns how many."""
        of_crowd = (job_id, lane, self._id)
        count = f"SELECT count(*) FROM queue WHERE {_OF_CROWD} = 1"
        more = max(0, min(_FORWARD, self.allowance(True, now)) - self._session.value(count, of_crowd))
        due = FOREVER if self.due <= now else self.due
        waiting = self._session.all(
            f"SELECT id FROM queue WHERE {_OF_CROWD} = {CROWDED} ORDER BY place LIMIT ?4",
            (*of_crowd, more + 1),
        )
        called = waiting[:more]
        front = self._session.front(job_id, lane)
        self._session.db.executemany(_COME, [(front, queue_id) for (queue_id,) in called])
        if len(called) < len(waiting):
            crowd = "UPDATE crowd SET due = ?4 WHERE domain = ?3 AND job = ?1 AND lane = ?2"
            self._session.db.execute(crowd, (*of_crowd, due))
        else:
            crowd = "DELETE FROM crowd WHERE domain = ?3 AND job = ?1 AND lane = ?2"
            self._session.db.execute(crowd, of_crowd)
        return len(called)
