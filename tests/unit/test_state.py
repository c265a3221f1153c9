"""`spider.state`: values of a job that processes share; what cannot be kept is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shoal import Spider
from shoal.errors import SpiderError
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import JobSpec
from shoal.inspect.retention import forget_notes
from shoal.jobs.state import StoredState, state_key
from shoal.limits import STATE_BYTES
from shoal.spider.state import state_of
from shoal.testing import state_in_memory

state = Spider("any").state


@pytest.fixture
async def frontiers(tmp_path: Path) -> AsyncIterator[tuple[SqliteFrontier, SqliteFrontier]]:
    """Of two processes."""
    store = tmp_path / "store.db"
    async with SqliteFrontier(store) as one, SqliteFrontier(store) as two:
        await one.open_job(JobSpec("job"))
        yield one, two


async def test_two_processes_share_it(frontiers: tuple[SqliteFrontier, SqliteFrontier]) -> None:
    one, two = (StoredState(frontier, "job", lambda: 1.0) for frontier in frontiers)
    with state_of(one):
        assert await state.get("cursor", "none yet") == "none yet"
        await state.set("cursor", {"next": [1, 2.5, "ü", None, True]})
    with state_of(two):
        assert await state.get("cursor") == {"next": [1, 2.5, "ü", None, True]}
        await state.set("cursor", None)
    with state_of(one):
        assert await state.get("cursor", "gone") == "gone"


async def test_no_change_is_lost(frontiers: tuple[SqliteFrontier, SqliteFrontier]) -> None:
    async def count(values: StoredState) -> int:
        with state_of(values):
            changed: int = await state.change("n", lambda n: n + 1, default=0)
            return changed

    ends = [StoredState(frontier, "job", lambda: 1.0) for frontier in frontiers]
    told = await asyncio.gather(*(count(values) for values in ends * 20))
    assert sorted(told) == list(range(1, 41))


async def test_jobs_side_by_side_have_their_own(frontiers: tuple[SqliteFrontier, SqliteFrontier]) -> None:
    async def run(job: str) -> str:
        with state_of(StoredState(frontiers[0], job, lambda: 1.0)):
            for _ in range(5):
                await state.change("name", lambda name: (name or "") + job)
            found: str = await state.get("name")
            return found

    assert await asyncio.gather(run("a"), run("b")) == ["aaaaa", "bbbbb"]


async def test_a_job_that_is_made_anew_begins_without(
    frontiers: tuple[SqliteFrontier, SqliteFrontier],
) -> None:
    former, later = (StoredState(frontiers[0], "job", lambda made=made: made) for made in (1.0, 2.0))
    with state_of(former):
        await state.set("cursor", 7)
    with state_of(later):
        assert await state.get("cursor") is None
        await state.set("cursor", 1)
    with state_of(former), pytest.raises(SpiderError, match="job job was started over"):
        await state.set("cursor", 8)
    with state_of(later):
        assert await state.get("cursor") == 1
    await forget_notes(frontiers[0], "job")
    assert await frontiers[1].note(state_key("job")) is None


def test_a_page_that_never_ended_is_closed_elsewhere() -> None:
    async def page() -> None:
        with state_in_memory():
            await asyncio.sleep(0)

    running = page()
    copy_context().run(running.send, None)
    running.close()


async def test_outside_of_a_job_it_says_where_it_is() -> None:
    with pytest.raises(SpiderError, match=r"^spider\.state is there while a job runs: use it in handlers"):
        await state.get("cursor")


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {1, 2},
        {1: 2},
        b"x",
        datetime(2026, 1, 1, tzinfo=UTC),
        float("nan"),
        object(),
        "\ud800",
        [[(1,)]],
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_json_would_change_is_refused(value: Any) -> None:
    with state_in_memory({"cursor": 7}) as kept:
        with pytest.raises(SpiderError, match=r"^spider\.state: 'cursor' is a \w+ that JSON does not keep"):
            await state.set("cursor", value)
        assert kept == {"cursor": 7}


@pytest.mark.parametrize("name", [7, "", "x" * 101, "a\nb", None])
async def test_an_odd_name_is_refused(name: Any) -> None:
    with state_in_memory():
        for asked in (state.get(name), state.set(name, 1)):
            with pytest.raises(SpiderError, match="give a text of up to 100 characters"):
                await asked


async def test_an_asynchronous_change_is_refused() -> None:
    async def change(value: object) -> int:
        return 1

    with (
        state_in_memory(),
        pytest.raises(SpiderError, match="the function is asynchronous; give a plain one"),
    ):
        await state.change("n", change)


async def test_it_is_small(frontiers: tuple[SqliteFrontier, SqliteFrontier]) -> None:
    with state_of(StoredState(frontiers[0], "job", lambda: 1.0)):
        await state.set("half", "x" * (STATE_BYTES // 2))
        with pytest.raises(
            SpiderError, match=r"all values together have 65,\d+ bytes as JSON, and 65,536 is the limit"
        ):
            await state.set("more", "x" * (STATE_BYTES // 2))
        assert await state.get("more") is None
        assert len(await state.get("half")) == STATE_BYTES // 2
