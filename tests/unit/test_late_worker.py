"""A worker that joins a fleet late: it gets retries of pages that others asked for first, and must not bury them."""

from __future__ import annotations

import random

import pytest

from shoal.engine.history_recorder import HistoryRecorder
from shoal.engine.tally import Tally
from shoal.fetch.transport import FetchRequest
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.model import Dead, Failure, Lease, Outcome, Response, Retry, Settlement
from shoal.policy.load import Traffic
from shoal.runtime.job_runner import JobRunner
from shoal.settings import Settings
from shoal.sink.file_sink import FileSink
from shoal.sink.jsonl import MemoryJournal
from shoal.spider.page import Page
from shoal.spider.spider import Spider
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

PAGES = 40


class Unreachable:
    async def fetch(self, request: FetchRequest) -> Outcome:
        return Failure("connect", "it failed", elapsed=0.1)

    async def close(self) -> None:
        pass


async def has_crawled(frontier: MemoryFrontier, pages: int) -> None:
    """Another process has fetched so many pages of the job."""
    tally = Tally()
    recorder = HistoryRecorder(frontier, "job", tally, lambda: 1_750_000_000.0)
    await recorder.open()
    for _ in range(pages):
        tally.fetched("b.test", Response("http://b.test/", 200, {}, b"x", elapsed=0.1))
    await recorder.write_if_due(everything=True)


async def second_attempts(frontier: MemoryFrontier, clock: ManualClock) -> list[Lease]:
    await frontier.add("job", [make_task(f"http://h{n}.test/", handler="page") for n in range(PAGES)])
    claim = Claim("other", ["job"], {"normal": PAGES}, PAGES)
    leases = (await frontier.claim(claim)).leases
    retry = Retry(1.0, Failure("connect", "it failed", attempt=1))
    await frontier.settle([Settlement(lease, retry) for lease in leases])
    clock.advance(2)
    return list((await frontier.claim(Claim("late", ["job"], {"normal": PAGES}, PAGES))).leases)


@pytest.mark.parametrize(("crawled", "buried"), [(1000, 0), (0, PAGES - 10)])
async def test_it_begins_with_what_the_job_has_earned(crawled: int, buried: int) -> None:
    clock, settings = ManualClock(), Settings(rate=0, robots=False, policies=[])
    async with MemoryFrontier(clock) as frontier:
        await frontier.open_job(JobSpec("job"))
        await has_crawled(frontier, crawled)
        leases = await second_attempts(frontier, clock)
        assert [lease.task.attempt for lease in leases] == [2] * PAGES
        spider = Spider("any")

        @spider.handler
        def page(page: Page) -> None: ...

        runner = JobRunner(
            "job",
            spider,
            settings,
            frontier,
            FileSink(MemoryJournal()),
            traffic=Traffic(),
            clock=clock,
            rng=random.Random(0),
            transport=Unreachable(),
        )
        await runner.open()
        settlements = [await runner.pages.process(lease) for lease in leases]
        verdicts = [settlement.verdict for settlement in settlements if settlement is not None]
        assert sum(isinstance(verdict, Dead) for verdict in verdicts) == buried
        assert len(verdicts) == PAGES
