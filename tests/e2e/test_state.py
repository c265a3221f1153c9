"""`spider.state` and own counters in whole crawls: shared by processes and machines, apart for each job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import shoal
from crash.fleet import Fleet
from crash.harness import Desk
from shoal import Page, Spider
from shoal.errors import SpiderError
from shoal.frontier import open_frontier
from shoal.jobs.state import state_key
from shoal.limits import COUNTER_NAMES
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

PAGES = 60
SPIDER = """
from shoal import Spider


async def start():
    await spider.state.change("starts", lambda starts: starts + 1, default=0)
    yield {url!r}


spider = Spider("site", start=start, trust_start=True, robots=False, rate=0, per_host=10)


@spider.handler
async def page(page):
    page.count("pages")
    await spider.state.change("pages", lambda pages: pages + 1, default=0)
    yield {{"url": page.url, "starts": await spider.state.get("starts")}}
    for link in page.follow_all("a"):
        yield link
"""


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("slow", pages=PAGES, links=6, latency=0.01)}) as web:
        yield web


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


async def values_of(store: str, job: str) -> Any:
    async with open_frontier(store) as frontier:
        note = await frontier.note(state_key(job))
    return None if note is None else msgspec.json.decode(note.value)["values"]


async def test_two_processes_share_it(desk: Desk, web: WebProcess) -> None:
    spider = desk.file("site.py", SPIDER.format(url=web.url("site")))
    desk.finish("crawl", spider, "-o", "rows.jsonl", "--processes", "2", "--summary", "summary.json")
    assert await values_of(str(desk.store), "site") == {"starts": 1, "pages": PAGES}
    assert {row["starts"] for row in desk.rows()} == {1}
    summary = msgspec.json.decode((desk.folder / "summary.json").read_bytes())
    assert summary["counts"] == desk.status()["counts"] == {"pages": PAGES}
    desk.finish("crawl", spider, "-o", "rows.jsonl", "--fresh", "--max-pages", "5")
    assert await values_of(str(desk.store), "site") == {"starts": 1, "pages": 5}, "the job was made anew"


def test_jobs_of_a_fleet_have_their_own(desk: Desk, web: WebProcess, valkey: ValkeyServer) -> None:
    """Each of two workers works on both jobs at a time."""
    fleet = Fleet(desk, f"{valkey.url}?shards=3")
    desk.file("site.py", SPIDER.format(url=web.url("site")))
    for job in ("one", "two"):
        fleet.submit(job=job)
    for _ in range(2):
        fleet.worker("--concurrency", "8")
    for job in ("one", "two"):
        assert fleet.finishes(job).counts == {"pages": PAGES}
        note = fleet.ask(lambda frontier: frontier.note(state_key(job)))  # noqa: B023
        assert note is not None
        assert msgspec.json.decode(note.value)["values"] == {"starts": 1, "pages": PAGES}


async def test_a_crawl_from_code_has_it(web: WebProcess) -> None:
    spider = Spider("code", web.url("site"), robots=False, rate=0, max_pages=3)

    @spider.handler
    async def page(page: Page) -> dict[str, int]:
        return {"n": await spider.state.change("n", lambda n: n + 1, default=10)}

    results = await shoal.crawl(spider)
    assert [row["n"] for row in results] == [11]
    with pytest.raises(SpiderError, match="while a job runs"):
        await spider.state.get("n")


async def test_too_many_names_are_told_once(web: WebProcess, caplog: pytest.LogCaptureFixture) -> None:
    spider = Spider("many", web.url("site"), robots=False, rate=0, max_pages=4)

    @spider.handler
    def page(page: Page) -> object:
        for number in range(90):
            page.count(f"{page.url} {number}"[-100:])
        return page.follow_all("a")

    results = await shoal.crawl(spider)
    counts = results.view.job.counts
    assert (len(counts), counts["(other)"]) == (COUNTER_NAMES + 1, 4 * 90 - COUNTER_NAMES)
    told = [record for record in caplog.records if getattr(record, "event", "") == "counters_full"]
    assert [record.getMessage() for record in told] == [
        "the spider of job many counts under more than 200 names: further ones are added up as (other)"
    ]
