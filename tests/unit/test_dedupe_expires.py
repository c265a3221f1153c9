"""dedupe_expires beyond the suite of all homes: exact times, what is cleared, and what processes remember."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.errors import SettingsError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import JobSpec
from shoal.runtime.job_plan import read_expiry
from shoal.testing.conformance.tools import claim, make_task, settle, start_job
from shoal.testing.manual_clock import ManualClock

_PAGES = [make_task(f"http://h{n % 3}.test/{n}") for n in range(300)]


@pytest.mark.parametrize("home", ["memory", "sqlite"])
async def test_a_page_is_known_to_the_second(home: str, tmp_path: Path) -> None:
    clock = ManualClock()
    frontier: Frontier = (
        MemoryFrontier(clock) if home == "memory" else SqliteFrontier(tmp_path / "s.db", clock)
    )
    async with frontier:
        await start_job(frontier, _PAGES[:1], dedupe_expires=100.0)
        [lease] = (await claim(frontier)).leases
        clock.advance(50)
        await settle(frontier, lease)
        clock.advance(99)
        assert (await frontier.add("job", _PAGES[:1])).new == 0
        clock.advance(1)
        assert (await frontier.add("job", _PAGES[:1])).new == 1


async def test_what_is_over_leaves_the_file(tmp_path: Path) -> None:
    clock = ManualClock()
    async with SqliteFrontier(tmp_path / "s.db", clock) as frontier:
        await start_job(frontier, _PAGES, dedupe_expires=100.0)
        for lease in (await claim(frontier, 300)).leases:
            await settle(frontier, lease)
        clock.advance(101)
        for n in range(4):  # in small steps
            await frontier.add("job", [make_task(f"http://new.test/{n}")])
        [seen, passed] = await frontier._writer.do(  # type: ignore[attr-defined]
            lambda session: [
                session.value("SELECT count(*) FROM (SELECT * FROM recent UNION ALL SELECT * FROM seen)"),
                session.value("SELECT count(*) FROM passed"),
            ]
        )
        assert (seen, passed) == (4, 0)


async def test_jobs_without_it_write_no_times(tmp_path: Path) -> None:
    async with SqliteFrontier(tmp_path / "s.db") as frontier:
        await frontier.open_job(JobSpec("job"))
        await frontier.add("job", _PAGES[:1])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease)
        passed = await frontier._writer.do(  # type: ignore[attr-defined]
            lambda session: session.value("SELECT count(*) FROM passed")
        )
        assert passed == 0


def test_times_are_read() -> None:
    assert (read_expiry(""), read_expiry("7d")) == (0.0, 604_800.0)
    with pytest.raises(SettingsError, match="dedupe_expires: 'soon' is no time: write 12h"):
        read_expiry("soon")
