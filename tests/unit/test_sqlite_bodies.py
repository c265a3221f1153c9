"""Bodies of tasks, beside their places or apart: what is claimed is the same, and none is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.frontier.sqlite import SqliteFrontier, adding
from shoal.frontier.sqlite.connection import Session
from shoal.testing.conformance.tools import claim, make_task, start_job, urls_of

FEW = [f"http://few{n}.test/{n}" for n in range(3)]
MANY = [f"http://many.test/{n}" for n in range(adding.RUN)]


def bodies(session: Session) -> tuple[int, int]:
    """How many are apart, and how many are beside their places. The first have no body there, and exactly they."""
    apart = {id for (id,) in session.all("SELECT id FROM body")}
    assert apart == {id for (id,) in session.all("SELECT id FROM task WHERE NOT length(body)")}
    return len(apart), session.value("SELECT count(*) FROM task WHERE length(body)")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


async def test_bodies_are_apart_where_a_queue_gets_few(path: Path) -> None:
    async with SqliteFrontier(path) as frontier:
        await start_job(frontier, [make_task(url) for url in FEW + MANY])
        assert await frontier._writer.do(bodies) == (len(FEW), len(MANY))
        later = ["http://many.test/later", "http://many.test/last"]
        await frontier.add("job", [make_task(url) for url in later])
        assert await frontier._writer.do(bodies) == (len(FEW) + 2, len(MANY))
        found = await frontier.find("job", make_task(later[1]))
        assert (found.place, found.ahead) == ("pending", len(MANY) + 1)
        leases = (await claim(frontier, 100)).leases
        assert sorted(urls_of(leases)) == sorted(FEW + MANY + later)
        assert [url for url in urls_of(leases) if "many" in url] == MANY + later, "in the order of the queue"
        assert await frontier._writer.do(bodies) == (0, 0)


async def test_a_task_that_comes_back_is_claimed_again(path: Path) -> None:
    async with SqliteFrontier(path) as frontier:
        await start_job(frontier, [make_task(url) for url in FEW])
        first = (await claim(frontier)).leases
        await frontier.release(first)
        assert await frontier._writer.do(bodies) == (0, len(FEW))
        again = (await claim(frontier)).leases
        assert [lease.task for lease in again] == [lease.task for lease in first]


async def test_a_job_that_is_dropped_leaves_no_body(path: Path) -> None:
    async with SqliteFrontier(path) as frontier:
        await start_job(frontier, [make_task(url) for url in FEW + MANY])
        await frontier.drop_job("job")
        assert await frontier._writer.do(bodies) == (0, 0)
