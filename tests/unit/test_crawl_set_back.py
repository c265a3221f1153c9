"""A crawl whose store goes back between a page and its settlement: links that it had left out must not be lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import pytest

from shoal import Page, Spider
from shoal.engine.dispatcher import Engine
from shoal.engine.served import OneJob
from shoal.fetch.transport import FetchRequest
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Journal
from shoal.frontier.values import Settled
from shoal.model import Done, Outcome, Response, Settlement
from shoal.model.request import Request
from shoal.policy.load import Traffic
from shoal.runtime.job_plan import JobPlan
from shoal.runtime.job_runner import JobRunner
from shoal.runtime.submit import submit
from shoal.settings import Settings
from shoal.sink.jsonl import MemoryJournal
from shoal.testing.conformance.tools import JournalSink
from shoal.testing.simulation.virtual import SimulatedClock, VirtualLoop
from shoal.testing.simulation.workers import make_feeder

QUICK, SLOW, LINKED = "http://a.test/quick", "http://a.test/slow", "http://a.test/linked"
SECONDS = {QUICK: 0.1, SLOW: 1.0, LINKED: 5.0}


class Web:
    """Two pages with the same link. One of them is gone when it is asked for again."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fetch(self, request: FetchRequest) -> Outcome:
        url = request.url
        self.asked.append(url)
        await asyncio.sleep(SECONDS[url])
        if url == QUICK and self.asked.count(QUICK) > 1:
            return Response(url, 404, {}, b"")
        link = b"" if url == LINKED else b'<a href="%s">x</a>' % LINKED.encode()
        return Response(url, 200, {"Content-Type": "text/html"}, link)

    async def close(self) -> None:
        pass


class GoesBack(MemoryFrontier):
    """Just before the slow page is settled, to how it was before the quick one was. `heeds`: it looks at epochs."""

    def __init__(self, given: list[tuple[str, int]], *, heeds: bool) -> None:
        super().__init__(SimulatedClock(asyncio.get_running_loop()))
        self.epoch = "0"
        self._heeds = heeds
        self._before: dict[str, object] = {}
        self._note = given.append  # how many links each settlement has, as they come

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        done = [one.lease.task.url for one in batch if isinstance(one.verdict, Done)]
        for one in batch:
            self._note((one.lease.task.url, len(one.found)))
        if QUICK in done and self.epoch == "0":
            self._before = self.saved()
        if SLOW in done and self.epoch == "0":
            self.go_back(self._before)
        return await super().settle(batch, journal, epoch=epoch if self._heeds else None)


@pytest.mark.parametrize("heeds", [True, False])
def test_a_link_passed_over_before_a_set_back_is_brought_after_it(heeds: bool) -> None:
    """The page it was known from is given out again, and fails for good. Not `heeds` is the proof: so it was lost."""
    web, rows = Web(), MemoryJournal()
    given: list[tuple[str, int]] = []

    async def crawl() -> None:
        spider = Spider("twice", [QUICK, SLOW])
        settings = Settings(rate=0, per_host=5, robots=False)

        @spider.handler
        def page(page: Page) -> Iterator[dict[str, str] | Request]:
            yield {"url": page.url}
            yield from page.follow_all("a")

        plan, frontier = JobPlan(spider, settings, "job"), GoesBack(given, heeds=heeds)
        await submit(plan, frontier)
        crew = JobRunner(
            "job",
            spider,
            settings,
            frontier,
            JournalSink(rows),
            traffic=Traffic(),
            transport=web,
            clock=SimulatedClock(asyncio.get_running_loop()),
            rng=random.Random(0),
        )
        await crew.open()
        feeding = asyncio.create_task(make_feeder(plan, frontier).feed())
        await Engine(frontier, OneJob(frontier, crew, settings), settings, name="w").run()
        await feeding
        await crew.close()
        job = await frontier.job("job")
        assert job is not None
        assert (job.state, job.counters.dead, job.counters.stale) == ("finished", 1, 0)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(crawl())
    assert given[:2] == [(QUICK, 1), (SLOW, 0)]
    assert web.asked.count(SLOW) == 1, "it is not fetched again"
    assert web.asked.count(QUICK) == 2
    assert any(LINKED.encode() in row for row in rows.rows) is heeds
    assert (given[2:3] == [(SLOW, 1)]) is heeds
