"""A fleet whose parts fail all the time: it ends by itself, with one row a page, polite throughout.

Workers and coordinators are killed, a worker is frozen until its leases are others', Valkey and PostgreSQL are
restarted, and Valkey forgets its scripts; all within a few seconds, in an order that the seed decides. For longer runs:
`python -m benchmarks.fleet chaos --minutes 10`.
"""

from __future__ import annotations

import pytest
from benchmarks.fleet.chaos import Terms, run
from msgspec.structs import replace

from crash.harness import fork

# As much in flight for each slot as in the benchmark, with fewer of both.
FEW = Terms(hosts=24, slots=8)


@pytest.mark.parametrize(
    "terms",
    [replace(FEW, seed=1), replace(FEW, seed=2, cluster=True)],
    ids=["one server", "three nodes"],
)
def test_nothing_is_lost_or_doubled_and_no_host_is_hit_too_fast(terms: Terms) -> None:
    verdict = run(terms, fork)
    complaints = verdict.complaints(terms.rate, terms.per_host)
    assert not complaints, "\n".join([*complaints, *verdict.story])
    assert len(verdict.story) == 7
