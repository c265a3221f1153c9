"""A whole crawl of a site whose pages need scripts, with a stand-in for the browser: what goes where, and how often."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from shoal import Page, Spider
from shoal.engine.dispatcher import Engine
from shoal.engine.served import OneJob
from shoal.fetch.transport import FetchRequest
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Journal
from shoal.frontier.values import Settled
from shoal.model import Outcome, Response, Retry, Row, Settlement
from shoal.policy.load import Traffic
from shoal.runtime.job_plan import JobPlan
from shoal.runtime.job_runner import JobRunner
from shoal.runtime.submit import submit
from shoal.settings import Settings
from shoal.spider.rendering import Rendered
from shoal.testing import HostProfile
from shoal.testing.conformance.tools import JournalSink
from shoal.testing.simulation.workers import make_feeder
from shoal.testing.web.habits import Scripted

HOST = "site.test"
DEADLINE = 60.0


class Browserlike:
    """Answers as the host does; what it renders is what the script of a shell would make of it."""

    def __init__(self, profile: HostProfile) -> None:
        self.host = Scripted(profile, 3, ())
        self.opened: list[int] = []
        self.plain: list[int] = []

    async def fetch(self, request: FetchRequest) -> Outcome:
        await asyncio.sleep(0)
        path = request.url.partition(HOST)[2]
        if path == "/robots.txt":
            return Response(request.url, 404, {}, b"")
        number = int(path.rpartition("/")[2])
        answer = self.host.answer(path, 0.0)
        headers = {"Content-Type": answer.media_type}
        if request.rendering is None:
            self.plain.append(number)
            return Response(request.url, answer.status, headers, answer.body)
        self.opened.append(number)
        return Rendered(request.url, answer.status, headers, self.host.site.html(number))

    async def close(self) -> None:
        pass


class Watched(MemoryFrontier):
    """Keeps what is settled."""

    def __init__(self) -> None:
        super().__init__()
        self.settled: list[Settlement] = []

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        self.settled += batch
        return await super().settle(batch, journal, epoch=epoch)


class Rows:
    def __init__(self) -> None:
        self.key = "rows"
        self.lines: list[bytes] = []

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        self.lines += [row.data for row in rows]
        return committed + len(rows)


async def crawl(profile: HostProfile) -> tuple[Browserlike, Watched, int]:
    """The site, the store, and how many rows there are."""
    spider = Spider("scripted", f"http://{HOST}/p/0")
    settings = Settings(rate=0, challenge_routes=["lane:browser"])

    @spider.handler
    def page(page: Page) -> Any:
        yield {"title": page.text("title")}
        yield from page.follow_all("nav a")

    plan = JobPlan(spider, settings, "job")
    frontier, web, rows = Watched(), Browserlike(profile), Rows()
    async with frontier, asyncio.timeout(DEADLINE):
        await submit(plan, frontier)
        crew = JobRunner(
            "job",
            spider,
            settings,
            frontier,
            JournalSink(rows),
            traffic=Traffic(),
            transport=web,
            rng=random.Random(0),
        )
        await crew.open()
        await make_feeder(plan, frontier).feed()
        await Engine(frontier, OneJob(frontier, crew, settings), settings, name="w").run()
        await crew.close()
    return web, frontier, len(rows.lines)


def moved(frontier: Watched) -> int:
    """Permissions to hit the host that were spent on nothing."""
    verdicts = [settlement.verdict for settlement in frontier.settled]
    return sum(isinstance(verdict, Retry) and verdict.failure.kind == "needs_browser" for verdict in verdicts)


async def test_shells_apart_from_the_other_pages() -> None:
    web, frontier, rows = await crawl(HostProfile("scripted", pages=400, links=6, shells_at="/app/"))
    shells = {number for number in range(400) if web.host.site.is_shell(number)}
    assert rows == 400
    assert set(web.opened) == shells
    assert len(web.opened) == len(shells), "each once"
    assert len(shells & set(web.plain)) < 0.3 * len(shells)
    assert moved(frontier) < 0.5 * len(shells), "most are put into the lane when they are found"


async def test_shells_among_the_other_pages() -> None:
    web, _, rows = await crawl(HostProfile("scripted", pages=400, links=6))
    shells = {number for number in range(400) if web.host.site.is_shell(number)}
    assert rows == 400
    assert set(web.opened) >= shells
    assert len(set(web.opened) - shells) <= 0.1 * len(web.opened)


async def test_a_site_that_becomes_plain() -> None:
    profile = HostProfile("scripted", pages=400, links=6, shells=1.0, plain_after=100)
    web, _, rows = await crawl(profile)
    assert rows == 400
    assert len(web.opened) < 350
    assert len(web.plain) > 50
