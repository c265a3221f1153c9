"""What the sites see: the configured gap and cap, read from the server's own log.

The server notes when it gets to read a request, and on a busy machine it may itself be late: then one gap looks short
and its neighbour long. So gaps are judged with a tolerance, and rates over windows, where such shifts cancel out. Both
forgive as much as this process was seen to be late. A server in another process may be late by itself: there, a
short gap is forgiven if it makes up for a long one before it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import shoal
from lateness import Lateness
from shoal import Page, Request, Spider
from shoal.testing import ChaoticWeb, Hit, HostProfile, WebProcess

RATE, INTERVAL, PER_HOST = 5.0, 0.2, 2  # an interval that a machine which stalls for a moment does not blur
FAST, SLOW, PAGES = 10, 4, 14
DEADLINE = 120
PATIENCE = 60.0  # seconds: a site that a busy machine keeps waiting is not asked again


def follow_everything(page: Page) -> list[Request]:
    return page.follow_all("a")


def starts_by_host(hits: Sequence[Hit]) -> dict[str, list[float]]:
    starts: dict[str, list[float]] = {}
    for hit in sorted(hits, key=lambda hit: hit.started):
        starts.setdefault(hit.host, []).append(hit.started)
    return starts


def most_within(times: Sequence[float], span: float) -> int:
    """The largest number of hits in any window of `span` seconds."""
    return max(bisect_right(times, at + span) - number for number, at in enumerate(times))


def short_gaps(times: Sequence[float], interval: float, least: float, *, made_up: bool) -> int:
    """`made_up`: without those that make up for a longer gap before them: a delay does not change the mean. At
    most one interval is made up. A late request takes no more, and a host that had no pages saves nothing up."""
    short, behind = 0, 0.0
    for gap in (b - a for a, b in pairwise(times)):
        short += gap + behind < least
        behind = min(interval, max(0.0, behind + gap - interval)) if made_up else 0.0
    return short


def assert_polite(
    hits: Sequence[Hit], interval: float, late: float, burst: int = 1, *, made_up: bool = False
) -> None:
    hosts = starts_by_host(hits)
    for host, times in hosts.items():
        for span in (1.0, 1.5):
            allowed = (span + late) / interval + burst
            assert most_within(times, span) <= allowed + 1, (host, span)
    gaps = sum(len(times) - 1 for times in hosts.values())
    short = sum(
        short_gaps(times, interval, 0.7 * interval - late, made_up=made_up) for times in hosts.values()
    )
    assert burst > 1 or short <= gaps * 0.05, f"{short} of {gaps} gaps are short"


class Crawled(NamedTuple):
    web: ChaoticWeb
    late: float  # seconds that the machine was late at most
    stalled: float  # … and that it had too little time for all


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """All hosts, crawled to the end."""
    hosts = {f"fast-{n}": HostProfile("fast", pages=PAGES) for n in range(FAST)}
    # Slower than the interval: without a cap there would be three at once.
    hosts |= {f"slow-{n}": HostProfile("slow", pages=PAGES, latency=2.8 * INTERVAL) for n in range(SLOW)}

    async def crawl() -> ChaoticWeb:
        async with ChaoticWeb(hosts) as web:
            spider = Spider("polite", web.start_urls, rate=RATE, per_host=PER_HOST, min_timeout=PATIENCE)
            spider.add_handler(follow_everything)
            results = await shoal.crawl(spider, store=tmp_path_factory.mktemp("polite") / "store.db")
        assert results.view.job.counters.done == (FAST + SLOW) * PAGES
        return web

    with Lateness() as late:
        web = asyncio.run(crawl())
    return Crawled(web, late.seconds, late.stalled)


def test_every_page_and_one_robots_txt_was_asked_for_once(crawled: Crawled) -> None:
    hits = crawled.web.hits()
    assert len(hits) == (FAST + SLOW) * (PAGES + 1)
    assert len({(hit.host, hit.path) for hit in hits}) == len(hits)


def test_gaps_are_kept_robots_txt_included(crawled: Crawled) -> None:
    assert_polite(crawled.web.hits(), INTERVAL, crawled.late)


def test_no_host_gets_more_at_once_than_its_cap(crawled: Crawled) -> None:
    peaks = {host: crawled.web.peak_concurrency(host) for host in crawled.web.spec.hosts}
    assert max(peaks.values()) <= PER_HOST
    assert all(peaks[f"slow-{n}"] == PER_HOST for n in range(SLOW))  # and what is allowed is used


def test_the_allowed_rate_is_used(crawled: Crawled) -> None:
    """All hosts side by side take hardly longer than one."""
    times = [hit.started for hit in crawled.web.hits() if hit.host.startswith("fast")]
    assert max(times) - min(times) < PAGES * INTERVAL * 2 + crawled.stalled


async def test_a_burst_is_as_large_as_configured() -> None:
    async with ChaoticWeb({"site": HostProfile("slow", latency=0.2, pages=12)}) as web:
        urls = [web.url("site", f"/p/{n}") for n in range(12)]
        spider = Spider("burst", urls, rate=5, burst=3, per_host=12, robots=False, min_timeout=PATIENCE)
        spider.add_handler(lambda page: None, name="page")
        with Lateness() as late:
            await shoal.crawl(spider)
        hits = web.hits()
    times = starts_by_host(hits)["site"]
    assert most_within(times, 0.15 + late.seconds) >= 2, "not used"
    assert most_within(times, 0.15) <= 4 + late.seconds / 0.2, "more than allowed"
    assert_polite(hits, 0.2, late.seconds, burst=3)


def test_several_processes_share_one_limit(tmp_path: Path) -> None:
    hosts = {f"slow-{n}": HostProfile("slow", pages=10, latency=1.4 * INTERVAL) for n in range(4)}
    with WebProcess(hosts) as web, Lateness() as late:
        options = ["--rate", str(RATE), "--per-host", str(PER_HOST), "--processes", "2", "-o", "rows.jsonl"]
        options += ["-s", f"min_timeout={PATIENCE}"]
        subprocess.run(
            [sys.executable, "-c", "from shoal.cli import main; main()", "crawl", *web.start_urls, *options],
            cwd=tmp_path,
            env={"PYTHONPATH": str(Path(shoal.__file__).parents[1])},
            check=True,
            capture_output=True,
            timeout=DEADLINE,
        )
        hits = web.hits()
        assert len(hits) == 4 * 11, "robots.txt once a host, and every page once"
        assert_polite(hits, INTERVAL, late.seconds, made_up=True)
        assert max(web.peak_concurrency(host) for host in hosts) <= PER_HOST


async def test_a_job_that_has_ended_holds_nobody_up(tmp_path: Path) -> None:
    """Its rate was the strictest on the host, for an hour after its end."""
    async with ChaoticWeb({"host": HostProfile("fast", pages=30)}) as web:
        urls = [web.url("host", f"/p/{n}") for n in range(30)]
        for job, rate, start in (("gentle", 2, urls[:2]), ("brisk", 20, urls)):
            spider = Spider(job, start, rate=rate, robots=False)
            spider.add_handler(follow_nothing)
            before = len(web.hits())
            with Lateness() as late:
                await shoal.crawl(spider, store=tmp_path / "store.db")
        times = [hit.started for hit in web.hits()[before:]]
    assert len(times) == 30
    assert 29 / 20 - 0.05 - late.seconds <= times[-1] - times[0] < 29 / 2, "not as at the rate of the first"


def follow_nothing(page: Page) -> None:
    pass
