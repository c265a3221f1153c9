"""The dashboard's index of hosts: what it knows, how it orders, and what it forgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shoal.admit.identity import fingerprint
from shoal.dashboard.hostindex import SORTS, HostIndex, HostIndexes, Query, Trails
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.hosts.host_limits import HostRules, change_host
from shoal.hosts.host_state import HostState, state_of
from shoal.inspect.host_actions import block, order
from shoal.jobs.note import write_note
from shoal.model import Task
from shoal.policy.breaker import BreakerState
from shoal.policy.timeout import TimeoutState
from shoal.settings import Settings
from shoal.valve import Valve

SETTINGS = Settings(robots=False)
RULES = HostRules(SETTINGS)
PENDING = {"a.example": 3, "b.example": 1, "c.example": 2, "d.example": 1}


@pytest.fixture
async def frontier() -> AsyncIterator[MemoryFrontier]:
    """Four hosts; b's breaker is open, c never answered, and a second job knows only d."""
    async with MemoryFrontier() as frontier:
        for job in ("first", "second"):
            await frontier.open_job(
                JobSpec(job, valve=Valve(interval=0.5, cap=2), settings=write_note(b"", SETTINGS))
            )
        for host, count in PENDING.items():
            await frontier.add("first", [task(host, n) for n in range(count)])
        await frontier.add("second", [task("d.example", 7), task("d.example", 8)])
        await learn(frontier, "a.example", 0.9, errors=("timeout",))
        await learn(frontier, "b.example", 0.1, breaker="open", errors=("connect", "connect"))
        await learn(frontier, "d.example", 0.3)
        yield frontier


def task(host: str, number: int) -> Task:
    url = f"http://{host}/{number}"
    return Task(url, host=host, fingerprint=fingerprint(url))


async def learn(
    frontier: MemoryFrontier,
    host: str,
    latency: float,
    *,
    breaker: str = "closed",
    errors: tuple[str, ...] = (),
) -> None:
    now = await frontier.now()
    policies = {
        **RULES.policies.initial(),
        "timeout": TimeoutState(latency=latency),
        "breaker@http": BreakerState(breaker, now + 60 if breaker == "open" else 0.0),  # type: ignore[arg-type]
    }
    state = HostState(policies=RULES.policies.encode(policies), errors=errors)
    changed = await change_host(frontier, host, lambda record: RULES.applied(record, state, now))
    assert changed is not None


async def names(index: HostIndex, query: Query) -> str:
    """The first letters of the hosts, in order."""
    return "".join(row.host[0] for row in await index.find(query, patience=1))


async def test_every_order_and_its_reverse(frontier: MemoryFrontier) -> None:
    index = HostIndex(frontier)
    await index.walk()
    orders = {
        (sort, descending): await names(index, Query(sort=sort, descending=descending))
        for sort in SORTS
        for descending in (False, True)
    }
    assert orders == {
        ("name", False): "abcd",
        ("name", True): "dcba",
        ("pending", False): "bcad",  # d has three, of two jobs
        ("pending", True): "adcb",
        ("rate", False): "abcd",
        ("rate", True): "abcd",  # equal ones stay in the order of their names
        ("latency", False): "cbda",  # not known comes before the quick ones
        ("latency", True): "adbc",
        ("in_flight", False): "abcd",
        ("in_flight", True): "abcd",
        ("errors", False): "cdab",
        ("errors", True): "bacd",
        ("condition", False): "acdb",
        ("condition", True): "bacd",
    }


async def test_filters(frontier: MemoryFrontier) -> None:
    index = HostIndex(frontier)
    await index.walk()
    assert await names(index, Query(part="b.ex")) == "b"
    assert await names(index, Query(part="nothing")) == ""
    assert await names(index, Query(condition="cooling down")) == "b"
    assert await names(index, Query(condition="healthy", sort="pending")) == "cad"
    assert index.conditions == {"healthy": 3, "cooling down": 1}


async def test_the_index_of_one_job(frontier: MemoryFrontier) -> None:
    index = HostIndex(frontier, "second")
    await index.walk()
    [row] = await index.find(Query(), patience=1)
    assert (row.host, row.pending) == ("d.example", 2)


async def test_what_moves_by_itself_is_taken_anew(frontier: MemoryFrontier) -> None:
    index = HostIndex(frontier)
    await index.walk()
    await frontier.claim(Claim("w", ["first"], {"normal": 1}, 1))
    await index.walk()
    rows = await index.find(Query(sort="in_flight", descending=True), patience=1)
    assert rows[0].in_flight == 1
    assert rows[0].pending == PENDING[rows[0].host] - 1
    assert [row.in_flight for row in rows[1:]] == [0, 0, 0]


async def test_a_decision_shows_with_the_next_walk(frontier: MemoryFrontier) -> None:
    index = HostIndex(frontier)
    await index.walk()
    await order(frontier, "c.example", block(None, "enough"))
    await index.walk()
    assert await names(index, Query(condition="blocked")) == "c"
    record = await frontier.host("c.example")
    assert record is not None
    assert state_of(record).manual.reason == "enough"


async def test_time_alone_changes_who_is_not_well(frontier: MemoryFrontier) -> None:
    now = await frontier.now()
    await order(frontier, "c.example", block(now + 0.05, ""))
    index = HostIndex(frontier)
    await index.walk()
    assert await names(index, Query(condition="blocked")) == "c"
    async with asyncio.timeout(5):
        while await names(index, Query(condition="blocked")) == "c":
            await index.walk()


async def test_a_trail_of_those_that_change(frontier: MemoryFrontier) -> None:
    index = HostIndex(frontier)
    await index.walk()
    assert index.trail("a.example") == []
    for latency in (0.5, 0.5, 0.7):
        await learn(frontier, "a.example", latency)
        await index.walk()
    assert index.trail("a.example") == [0.9, 0.5, 0.7]
    assert index.trail("b.example") == []


def test_trails_are_bounded() -> None:
    trails = Trails(most=2)
    for n in range(50):
        trails.add("a", None, float(n))
    assert trails.of("a") == [float(n) for n in range(20, 50)]
    trails.add("b", 1.0, 2.0)
    trails.add("a", None, 99.0)
    trails.add("c", 1.0, 2.0)
    assert len(trails) == 2
    assert trails.of("b") == []
    assert trails.of("c") == [1.0, 2.0]
    trails.add("d", 1.0, None)
    assert trails.of("d") == []


async def test_who_asks_before_the_first_walk_is_over_gets_what_there_is(frontier: MemoryFrontier) -> None:
    index = HostIndex(frontier)
    assert await index.find(Query(), patience=0.01) == []
    assert index.age is None
    assert index.conditions is None
    await index.walk()
    assert index.age is not None


async def test_nobody_looks_nobody_walks(frontier: MemoryFrontier) -> None:
    indexes = HostIndexes(frontier, most=2)
    try:
        index = indexes.of()
        await asyncio.sleep(0.05)
        assert index.idle
        assert index.age is None
        rows = await index.find(Query(), patience=5)
        assert len(rows) == 4
        assert not index.idle
        assert indexes.of("first") is not index
        assert indexes.of("second") is indexes.of("second")
        assert indexes.of() is index  # it stays, however many others come
    finally:
        await indexes.close()
