"""When a job is finished, and what brings it back. Adding and finishing exclude each other."""

from __future__ import annotations

import asyncio

import pytest

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Cursor, DeadFilter, JobState
from shoal.model import Dead
from shoal.testing.conformance.tools import FAILED, claim, counted, make_task, settle, spec, start_job


async def finished(frontier: Frontier, max_pages: int = 0) -> None:
    await start_job(frontier, [make_task("http://a.test/")], Cursor(fed=1, fed_all=True), max_pages=max_pages)
    [lease] = (await claim(frontier)).leases
    await settle(frontier, lease)
    assert await frontier.finish("job")


class Finishing:
    async def test_a_job_is_finished_when_nothing_is_left_to_do(self, frontier: Frontier) -> None:
        assert not await frontier.finish("job")
        await frontier.open_job(spec())
        assert not await frontier.finish("job"), "it waits for a source"
        await frontier.add("job", [make_task("http://a.test/")], Cursor(fed_all=True))
        assert not await frontier.finish("job"), "a page is pending"
        [lease] = (await claim(frontier)).leases
        assert not await frontier.finish("job"), "a page is in flight"
        await settle(frontier, lease)
        assert await frontier.finish("job")
        job = await counted(frontier)
        assert job.state == "finished"
        assert job.finished_at >= job.created_at
        assert not await frontier.finish("job"), "it is already"

    @pytest.mark.parametrize("state", ["paused", "cancelled"])
    async def test_what_a_person_stopped_stays_so(self, frontier: Frontier, state: JobState) -> None:
        await start_job(frontier, [], Cursor(fed_all=True))
        await frontier.set_state("job", state)
        assert not await frontier.finish("job")
        await frontier.add("job", [make_task("http://a.test/")])
        job = await counted(frontier)
        assert (job.state, job.counters.pending) == (state, 1)

    async def test_what_is_added_brings_a_finished_job_back(self, frontier: Frontier) -> None:
        await finished(frontier)
        await frontier.add("job", [make_task("http://a.test/")])
        assert (await counted(frontier)).state == "finished", "it was known"
        for host in ("b", "c", "d"):
            await frontier.add("job", [make_task(f"http://{host}.test/")])
            job = await counted(frontier)
            assert (job.state, job.finished_at, job.fed_all) == ("running", 0.0, True)
            [lease] = (await claim(frontier)).leases
            await settle(frontier, lease)
            assert await frontier.finish("job")
        assert (await counted(frontier)).counters.done == 4

    async def test_a_job_without_permits_stays_finished(self, frontier: Frontier) -> None:
        await finished(frontier, max_pages=1)
        await frontier.add("job", [make_task("http://b.test/")])
        job = await counted(frontier)
        assert (job.state, job.counters.pending) == ("finished", 1)
        assert (await frontier.open_job(spec(max_pages=2))).state == "running"

    async def test_adding_and_finishing_exclude_each_other(self, frontier: Frontier) -> None:
        """Whichever comes first, what was added is left to do, and the job runs."""
        await finished(frontier)
        before = 1
        for number in range(12):
            adds = [
                frontier.add("job", [make_task(f"http://h{number}.{n}.test/{n}")])
                for n in range(1 + number % 3)
            ]
            ends = [frontier.finish("job") for _ in range(3)]
            everything = [*ends[:1], *adds, *ends[1:]] if number % 2 else [*adds, *ends]
            await asyncio.gather(*everything)
            job = await counted(frontier)
            assert (job.state, job.counters.pending) == ("running", len(adds))
            for lease in (await claim(frontier)).leases:
                await settle(frontier, lease)
            before += len(adds)
            assert (await counted(frontier)).counters.done == before

    async def test_replaying_and_finishing_exclude_each_other(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add(
            "job", [make_task("http://a.test/"), make_task("http://b.test/")], Cursor(fed_all=True)
        )
        for _ in range(10):
            for lease in (await claim(frontier)).leases:
                await settle(frontier, lease, Dead(FAILED))
            await asyncio.gather(
                frontier.finish("job"), frontier.replay(DeadFilter(job="job")), frontier.finish("job")
            )
            job = await counted(frontier)
            assert (job.state, job.counters.pending) == ("running", 2)

    async def test_the_fate_of_each_is_told(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(max_pages_per_host=2))
        await frontier.add("job", [make_task("http://b.test/1"), make_task("http://b.test/2")])
        tasks = [
            make_task("http://a.test/1"),
            make_task("http://b.test/1"),
            make_task("http://a.test/1"),
            make_task("http://a.test/2", lane="urgent"),
            make_task("http://c.test/", priority=3),
            make_task("http://b.test/3"),
            make_task("http://a.test/2"),
        ]
        added = await frontier.add("job", tasks)
        assert (added.new, added.duplicates, added.over_budget) == (3, 3, 1)
        assert list(added.each) == [
            "new",
            "duplicate",
            "duplicate",
            "new",
            "new",
            "over_budget",
            "duplicate",
        ]
        assert list((await frontier.add("job", [])).each) == []
        many = [make_task(f"http://h{n % 7}{n // 14}.test/{n}") for n in range(1100)]
        again = await frontier.add("job", [*many, *many[:3]])
        assert list(again.each[-3:]) == ["duplicate"] * 3
        assert again.each.count("new") == again.new
