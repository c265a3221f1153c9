"""Hosts as the dashboard lists them: page by page, by name and condition."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shoal.admit.identity import fingerprint
from shoal.frontier.compare_and_set import change_host
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import JobSpec
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import HostState
from shoal.inspect import lookup
from shoal.inspect.actions import block, order
from shoal.inspect.lookup import find_hosts
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


async def names(frontier: MemoryFrontier, **query: str) -> str:
    """The first letters of the hosts."""
    return "".join(host.name[0] for host in (await find_hosts(frontier, **query)).hosts)  # type: ignore[arg-type]


async def test_filters(frontier: MemoryFrontier) -> None:
    assert await names(frontier) == "abcd"
    assert await names(frontier, part="b.ex") == "b"
    assert await names(frontier, part="nothing") == ""
    assert await names(frontier, condition="cooling down") == "b"
    assert await names(frontier, condition="healthy") == "acd"


async def test_the_hosts_of_one_job(frontier: MemoryFrontier) -> None:
    [host] = (await find_hosts(frontier, "second")).hosts
    assert (host.name, host.pending) == ("d.example", 2)
    whole = (await find_hosts(frontier)).hosts
    assert [host.pending for host in whole] == [3, 1, 2, 3]


async def test_a_decision_shows_at_once(frontier: MemoryFrontier) -> None:
    await order(frontier, "c.example", block(None, "enough"))
    assert await names(frontier, condition="blocked") == "c"


async def test_pages(frontier: MemoryFrontier) -> None:
    first = await find_hosts(frontier, limit=3)
    assert [host.name[0] for host in first.hosts] == ["a", "b", "c"]
    last = await find_hosts(frontier, after=first.after, limit=3)
    assert ([host.name[0] for host in last.hosts], last.after) == (["d"], "")


async def test_a_filter_looks_at_so_many_hosts_and_no_more(
    frontier: MemoryFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_PAGE", 2)
    monkeypatch.setattr(lookup, "_MOST_LOOKED", 2)
    first = await find_hosts(frontier, part="d.ex")
    assert (first.hosts, bool(first.after)) == ([], True)
    second = await find_hosts(frontier, part="d.ex", after=first.after)
    assert [host.name for host in second.hosts] == ["d.example"]
