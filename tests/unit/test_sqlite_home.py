"""What the SQLite home does beyond the protocol: honest intervals when commits are slow, and waking up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.values import JobSpec
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import claim, make_task, settle
from shoal.valve import Valve

DEADLINE = 60.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def frontier(clock: ManualClock, tmp_path: Path) -> AsyncIterator[SqliteFrontier]:
    async with SqliteFrontier(tmp_path / "store.db", clock) as frontier:
        await frontier.open_job(JobSpec("job", valve=Valve(interval=1.0, cap=5)))
        await frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(5)])
        yield frontier


@pytest.fixture
def slow_disk(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give it the seconds that each of the next commits is to take."""
    delays: list[float] = []
    commit = Session.commit

    def slow(session: Session) -> None:
        if delays:
            clock.advance(delays.pop(0))
        commit(session)

    monkeypatch.setattr(Session, "commit", slow)
    return delays


async def test_an_interval_counts_from_when_the_lease_is_handed_out(
    frontier: SqliteFrontier, clock: ManualClock, slow_disk: list[float]
) -> None:
    """The request goes out after the commit. Counted from the claim, the next one would come right behind it."""
    slow_disk.append(0.8)
    assert len((await claim(frontier)).leases) == 1
    clock.advance(0.3)
    early = await claim(frontier)
    assert early.leases == []
    assert early.next_due == pytest.approx(0.7, abs=1e-3)
    clock.advance(0.7)
    assert len((await claim(frontier)).leases) == 1


async def test_a_prompt_commit_moves_nothing(
    frontier: SqliteFrontier, clock: ManualClock, slow_disk: list[float]
) -> None:
    slow_disk.append(0.005)
    await claim(frontier)
    clock.advance(0.995)
    assert len((await claim(frontier)).leases) == 1


async def test_a_host_without_a_limit_is_not_held_back(
    frontier: SqliteFrontier, slow_disk: list[float]
) -> None:
    await frontier.open_job(JobSpec("free", valve=Valve(interval=0.0, cap=5)))
    await frontier.add("free", [make_task(f"http://b.test/{n}") for n in range(2)])
    slow_disk.append(0.8)
    [first] = (await claim(frontier, 1, jobs=["free"])).leases
    assert len((await claim(frontier, 1, jobs=["free"])).leases) == 1
    assert await settle(frontier, first)


async def test_an_idle_wait_ends_when_another_process_commits(tmp_path: Path) -> None:
    async with SqliteFrontier(tmp_path / "store.db") as one, SqliteFrontier(tmp_path / "store.db") as two:
        await one.open_job(JobSpec("job"))
        await two.wait(0.25)  # notes where the file is
        waiting = asyncio.create_task(two.wait(60))
        await one.add("job", [make_task("http://a.test/")])
        async with asyncio.timeout(DEADLINE):
            await waiting


async def test_a_wake_is_not_lost(frontier: SqliteFrontier) -> None:
    frontier.wake()
    async with asyncio.timeout(DEADLINE):
        await frontier.wait(60)


async def test_the_repr_names_the_file(frontier: SqliteFrontier, tmp_path: Path) -> None:
    assert repr(frontier) == f"<SqliteFrontier {tmp_path / 'store.db'}>"
