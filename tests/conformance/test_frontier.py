"""Every home of the frontier passes the one suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.sqlite import SqliteFrontier, seen
from shoal.testing.conformance import FrontierConformance
from shoal.testing.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class TestMemory(FrontierConformance):
    @pytest.fixture
    async def frontier(self, clock: ManualClock) -> AsyncIterator[Frontier]:
        async with MemoryFrontier(clock) as frontier:
            yield frontier


class TestSqlite(FrontierConformance):
    @pytest.fixture
    async def frontier(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Frontier]:
        async with SqliteFrontier(tmp_path / "frontier.db", clock) as frontier:
            yield frontier


class TestSqliteMerging(TestSqlite):
    """Most marks of the seen-set are in its large table, as in a long crawl."""

    @pytest.fixture(autouse=True)
    def small_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(seen, "RECENT", 1)
        monkeypatch.setattr(seen, "SLICE", 1)
