"""The running jobs are read once for all who ask, and again when there is news."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.news import News, UnheardNews
from shoal.frontier.values import Job, JobState
from shoal.runtime.served_jobs import RunningJobs
from shoal.testing.conformance.tools import spec
from shoal.testing.simulation.virtual import VirtualLoop


class Counted(MemoryFrontier):
    """A store that tells its news, as one on a server does."""

    def __init__(self) -> None:
        super().__init__()
        self.news = News()  # type: ignore[assignment]
        self.reads = 0

    async def jobs(self, state: JobState | None = None) -> Sequence[Job]:
        self.reads += 1
        return await super().jobs(state)


async def test_one_read_for_all_until_there_is_news() -> None:
    frontier = Counted()
    jobs = RunningJobs(frontier)
    assert await asyncio.gather(*(jobs.get() for _ in range(5))) == [[]] * 5
    assert frontier.reads == 1
    waiting = asyncio.create_task(jobs.change(60))
    await asyncio.sleep(0)
    await frontier.open_job(spec(), "start")
    frontier.news.tell()
    async with asyncio.timeout(30):
        await waiting
    assert [job.spec.name for job in await jobs.get()] == ["job"]
    assert frontier.reads == 2


async def test_a_store_that_went_back_is_read_again() -> None:
    frontier = Counted()
    jobs = RunningJobs(frontier)
    before = frontier.saved()
    await frontier.open_job(spec(), "start")
    assert len(await jobs.get()) == 1
    frontier.go_back(before)
    assert await jobs.get() == []


def test_it_is_read_now_and_then_in_case_news_got_lost() -> None:
    async def look() -> int:
        frontier = Counted()
        jobs = RunningJobs(frontier)
        for _ in range(60):
            await jobs.get()
            await jobs.change(1.0)
        return frontier.reads

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert 8 <= runner.run(look()) <= 16


def test_where_nobody_is_told_all_look_together() -> None:
    """And none of them makes another look sooner."""

    async def look(news: News, rounds: list[float]) -> None:
        while True:
            count = news.count
            rounds.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.01)  # meanwhile another may have looked
            await news.after(count, 2.0)

    async def all_look() -> list[int]:
        news, rounds = UnheardNews(), [list[float]() for _ in range(3)]
        tasks = [asyncio.create_task(look(news, own)) for own in rounds]
        await asyncio.sleep(70.5)
        for task in tasks:
            task.cancel()
        return [len(own) for own in rounds]

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert all(90 <= count <= 110 for count in runner.run(all_look()))
