"""`since="last"`: the time of a run counts once it has finished, with nothing left and every file read."""

from __future__ import annotations

import pytest

from shoal import Sitemap
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, Cursor, Job, JobSpec
from shoal.inspect.retention import forget_notes
from shoal.jobs.source_runs import begin_run, end_run
from shoal.model import Dead, Done, Failure, Settlement, Task
from shoal.model.built_in import SITEMAP
from shoal.spider.start_sources import read_note
from shoal.valve import Valve

MAP = "https://shop.example/sitemap.xml"
LAST = Sitemap(MAP, since="last")


@pytest.fixture
def frontier() -> MemoryFrontier:
    return MemoryFrontier()


class Runs:
    """Runs of one spider, each as a job of its own."""

    def __init__(self, frontier: MemoryFrontier, spider: str = "shop") -> None:
        self._frontier = frontier
        self._spider = spider

    async def begin(self, name: str, source: Sitemap = LAST) -> float | None:
        """Since when."""
        job = await self._frontier.open_job(JobSpec(name, valve=Valve(cap=10)))
        request = await begin_run(self._frontier, self._spider, source.request(), name, job.created_at)
        note = read_note(request.meta)
        assert not note.is_since_last
        return note.since

    async def work(self, name: str, dead: str = "") -> Job:
        """A page and a sitemap, one of which may be given up."""
        tasks = [
            Task(MAP, SITEMAP, host="a", fingerprint=1),
            Task(f"{MAP}?", "page", host="b", fingerprint=2),
        ]
        await self._frontier.add(name, tasks, Cursor("", 2, True))
        claimed = await self._frontier.claim(Claim("w", [name], {"normal": 2}, 2))
        await self._frontier.settle(
            [
                Settlement(lease, Dead(Failure("gone")) if lease.task.handler == dead else Done())
                for lease in claimed.leases
            ]
        )
        assert await self._frontier.finish(name)
        job = await self._frontier.job(name)
        assert job is not None
        return job


async def test_a_finished_run_is_the_last_one(frontier: MemoryFrontier) -> None:
    runs = Runs(frontier)
    assert await runs.begin("one") is None
    assert await runs.begin("one") is None  # once more, after a kill
    one = await runs.work("one")
    await end_run(frontier, one)
    await end_run(frontier, one)
    await forget_notes(frontier, "one")
    await frontier.drop_job("one")
    assert await runs.begin("two") == one.created_at
    assert await runs.begin("two") == one.created_at
    assert await Runs(frontier, "other").begin("three") is None  # another spider may want other pages
    assert await runs.begin("four", Sitemap(MAP, since="last", include="x")) is None


async def test_a_run_that_did_not_ask_for_it_counts_too(frontier: MemoryFrontier) -> None:
    runs = Runs(frontier)
    assert await runs.begin("one", Sitemap(MAP)) is None
    one = await runs.work("one")
    await end_run(frontier, one)
    assert await runs.begin("two") == one.created_at
    assert await runs.begin("three", Sitemap(MAP)) is None
    assert await runs.begin("four", Sitemap(MAP, since=77)) == 77


async def test_a_run_that_has_not_ended_does_not_count(frontier: MemoryFrontier) -> None:
    runs = Runs(frontier)
    await runs.begin("one")
    job = await frontier.job("one")
    assert job is not None
    assert await runs.begin("two") is None
    await frontier.add("one", [Task(MAP, "page", host="a", fingerprint=1)])
    job = await frontier.job("one")
    assert job is not None
    await end_run(frontier, job)  # as when max_pages is reached
    assert await runs.begin("two") is None


@pytest.mark.parametrize(("dead", "counts"), [(SITEMAP, False), ("page", True)])
async def test_a_sitemap_that_was_not_read_takes_the_whole_run_back(
    frontier: MemoryFrontier, dead: str, counts: bool
) -> None:
    runs = Runs(frontier)
    await runs.begin("one")
    one = await runs.work("one", dead)
    await end_run(frontier, one)
    assert await runs.begin("two") == (one.created_at if counts else None)


async def test_a_process_that_died_after_the_end_is_made_up_for(frontier: MemoryFrontier) -> None:
    runs = Runs(frontier)
    await runs.begin("one")
    one = await runs.work("one")
    assert await runs.begin("two") == one.created_at
