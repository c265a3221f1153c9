"""Where a job's start URLs come from: each source has a cursor of its own, and the job ends when all are fed."""

from __future__ import annotations

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import EARLIER, MOST_SOURCES, OWN_START, Cursor, Source
from shoal.testing.conformance.tools import claim, counted, make_task, settle, spec


class Sources:
    async def test_a_job_without_sources_waits_for_one(self, frontier: Frontier) -> None:
        job = await frontier.open_job(spec())
        assert (job.fed, job.fed_all, job.sources, job.exhausted) == (0, False, {}, False)

    async def test_each_source_has_a_cursor_of_its_own(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), OWN_START)
        await frontier.open_job(spec(), "list")
        await frontier.add("job", [make_task("http://a.test/1")], Cursor(fed=1))
        await frontier.add("job", [make_task("http://a.test/2")], Cursor("list", fed=7))
        await frontier.add("job", [], Cursor("list", fed_all=True))
        job = await counted(frontier)
        assert job.sources == {OWN_START: Source(1), "list": Source(7, fed_all=True)}
        assert (job.fed, job.fed_all, job.unfed) == (8, False, [OWN_START])
        await frontier.add("job", [], Cursor(fed=2, fed_all=True))
        assert (await counted(frontier)).fed_all

    async def test_a_job_ends_when_all_sources_are_fed(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), "half fed")
        await frontier.add("job", [make_task("http://a.test/1")], Cursor("half fed", fed=150))
        await frontier.open_job(spec(), "another")
        await frontier.add("job", [make_task("http://a.test/2")], Cursor("another", fed=1, fed_all=True))
        for _ in range(2):
            [lease] = (await claim(frontier, 1)).leases
            await settle(frontier, lease)
        job = await counted(frontier)
        assert (job.counters.open, job.exhausted) == (0, False)
        await frontier.add("job", [], Cursor("half fed", fed=400, fed_all=True))
        assert (await counted(frontier)).exhausted

    async def test_another_source_brings_a_finished_job_back(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), OWN_START)
        await frontier.add("job", [], Cursor(fed=3, fed_all=True))
        await frontier.set_state("job", "finished")
        assert (await frontier.open_job(spec(), OWN_START)).state == "finished"
        job = await frontier.open_job(spec(), "list")
        assert (job.state, job.fed_all, job.sources[OWN_START]) == ("running", False, Source(3, fed_all=True))

    async def test_a_source_that_is_opened_again_goes_on_or_begins_anew(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), "list")
        await frontier.add("job", [], Cursor("list", fed=5))
        job = await frontier.open_job(spec(), "list", again=True)
        assert job.sources == {"list": Source(5)}, "it was cut short: it goes on"
        await frontier.add("job", [], Cursor("list", fed=9, fed_all=True))
        assert (await frontier.open_job(spec(), "list")).sources == {"list": Source(9, fed_all=True)}
        assert (await frontier.open_job(spec(), "list", again=True)).sources == {"list": Source()}

    async def test_odd_names_are_names(self, frontier: Frontier) -> None:
        names = ["fed:", "a b\n1", "ü–…", "'; --", "1 1"]
        for number, name in enumerate(names):
            await frontier.open_job(spec(), name)
            await frontier.add("job", [], Cursor(name, fed=number))
        assert (await counted(frontier)).sources == {name: Source(n) for n, name in enumerate(names)}

    async def test_many_lists_are_summed_up(self, frontier: Frontier) -> None:
        """Whoever submits a URL every minute must not make the job's record long."""
        await frontier.open_job(spec(), OWN_START)
        await frontier.add("job", [], Cursor(fed=1, fed_all=True))
        await frontier.open_job(spec(), "unfed")
        many = 2 * MOST_SOURCES + 10
        for number in range(many):
            await frontier.open_job(spec(), f"list {number}")
            await frontier.add("job", [], Cursor(f"list {number}", fed=1, fed_all=True))
        job = await counted(frontier)
        assert len(job.sources) <= MOST_SOURCES
        assert (job.fed, job.unfed) == (many + 1, ["unfed"])
        assert job.sources[EARLIER].fed_all
        assert job.sources[OWN_START] == Source(1, fed_all=True)

    async def test_a_dropped_job_forgets_its_sources(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(), "list")
        await frontier.drop_job("job")
        assert (await frontier.open_job(spec())).sources == {}
