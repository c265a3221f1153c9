"""One host with a very long queue, slow or dead, does not hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lateness import Lateness
from shoal import Page, Request, Spider, crawl
from shoal.testing import HostProfile, WebProcess

SMALL, PAGES, INTERVAL = 8, 10, 0.2  # so few and slow that the processor is not what holds them up
QUEUED = 5_000
DEADLINE = 90.0


def spider_until(web: WebProcess, finished: asyncio.Event, **settings: object) -> Spider:
    """Queues everything on the big host first, if there is one. `finished`: every page of the small hosts was
    handled."""
    small = [name for name in web.spec.hosts if name != "big"]
    missing = {url for name in small for url in web.pages_of(name)}

    def start() -> Iterator[str]:
        if "big" in web.spec.hosts:
            yield from (web.url("big", f"/p/{n}") for n in range(QUEUED))
        yield from (web.url(name) for name in small)

    spider = Spider("fair", start, trust_start=True, high_water=10 * QUEUED, **settings)

    @spider.handler
    def page(page: Page) -> Iterator[Request]:
        missing.discard(page.url)
        if not missing:
            finished.set()
        if page.url.startswith(tuple(web.url(name, "/") for name in small)):
            yield from page.follow_all("a")

    return spider


async def crawl_the_small(web: WebProcess, store: Path, **settings: object) -> None:
    """Stops when the small hosts are done, long before the big one could be."""
    finished = asyncio.Event()
    crawling = asyncio.create_task(crawl(spider_until(web, finished, **settings), store=store))
    try:
        async with asyncio.timeout(DEADLINE):
            await finished.wait()
    finally:
        crawling.cancel()
        await asyncio.gather(crawling, return_exceptions=True)


def small_hosts() -> dict[str, HostProfile]:
    return {f"small-{n}": HostProfile("fast", pages=PAGES) for n in range(SMALL)}


@pytest.mark.parametrize(
    "big",
    [
        HostProfile("fast", pages=QUEUED),
        HostProfile("slow", pages=QUEUED, latency=1.0),
        HostProfile("hanging"),
    ],
    ids=lambda profile: profile.kind,
)
async def test_a_long_queue_is_nobody_elses_problem(big: HostProfile, tmp_path: Path) -> None:
    """Those that waited for it would take twenty seconds and more."""
    with Lateness() as late:
        took = await seconds_of_the_small({"big": big, **small_hosts()}, tmp_path / "store.db")
    alone = PAGES * INTERVAL  # robots.txt and the pages, an interval apart
    if took >= alone * 1.4 + 0.5:  # perhaps the machine is busy: then it is so without the big one, too
        alone = await seconds_of_the_small(small_hosts(), tmp_path / "alone.db")
    assert took < alone * 1.4 + 0.5 + late.stalled


async def seconds_of_the_small(hosts: dict[str, HostProfile], store: Path) -> float:
    with WebProcess(hosts) as web:
        # So few slots that two for the big host would matter, were the others to wait for them.
        await crawl_the_small(web, store, rate=1 / INTERVAL, concurrency=6, per_host=2)
        times = [hit.started for hit in web.hits() if hit.host != "big"]
    return max(times) - min(times)


async def test_without_limits_the_slots_are_shared_out_evenly(tmp_path: Path) -> None:
    """The big host alone could fill all of them, again and again."""
    with WebProcess({"big": HostProfile("fast", pages=QUEUED), **small_hosts()}) as web:
        await crawl_the_small(web, tmp_path / "store.db", rate=0, concurrency=16, per_host=16)
        hits = web.hits()
    ended = max(hit.started for hit in hits if hit.host != "big")
    big = sum(hit.host == "big" and hit.started <= ended for hit in hits)
    # It has a start while the others are still being fed, and then the share of one host among many.
    assert big < 5 * SMALL * PAGES
