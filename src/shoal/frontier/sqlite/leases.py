"""The end of leases: the rows go, and each host and domain gets its places back, once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Set
from statistics import fmean

import apsw

from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.domains import give_back


def end_leases(session: Session, tokens: Set[int], *, timed: bool = False) -> dict[int, int]:
    """Answers token -> queue for the leases that were still held. `timed`: how long they were tells about the host."""
    if not tokens:
        return {}
    rows = session.all(
        "DELETE FROM lease WHERE token IN carray(?) RETURNING token, queue, since",
        (apsw.carray(array("q", tokens)),),
    )
    now = session.now()
    hosts: dict[int, list[float]] = {}
    for _, queue_id, since in rows:
        info = session.queue_info(queue_id)
        hosts.setdefault(info.host_id, []).append(now - since)
        session.count(info.job_id, leased=-1)
    shared: Counter[int] = Counter()
    for host_id, held in hosts.items():
        valve, domain_id, not_before = session.host_row(host_id)
        after = valve.give_back(len(held), fmean(held) if timed else None)
        session.set_valve(host_id, valve, after, not_before)
        if domain_id:
            shared[domain_id] += len(held)
    for domain_id, count in shared.items():
        give_back(session, domain_id, count)
    return {token: queue_id for token, queue_id, _ in rows}
