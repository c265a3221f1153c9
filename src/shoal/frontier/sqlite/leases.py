"""The end of leases: the rows go, and each host gets its in-flight places back, once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Set

import apsw

from shoal.frontier.sqlite.session import Session


def end_leases(session: Session, tokens: Set[int]) -> dict[int, int]:
    """Answers token -> queue for the leases that were still held."""
    if not tokens:
        return {}
    rows = session.all(
        "DELETE FROM lease WHERE token IN carray(?) RETURNING token, queue",
        (apsw.carray(array("q", tokens)),),
    )
    hosts: Counter[int] = Counter()
    for _, queue_id in rows:
        info = session.queue_info(queue_id)
        hosts[info.host_id] += 1
        session.count(info.job_id, leased=-1)
    for host_id, count in hosts.items():
        valve = session.valve(host_id)
        session.set_valve(host_id, valve, valve.give_back(count))
    return dict(rows)
