"""Lanes in a crawl: weights, borrowing, caps, serving a part of them, and lanes of one's own, by the server's log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal import Page, Request, ShoalError, Spider
from shoal.errors import SettingsError, SpiderError
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.settings import WEIGHTS
from shoal.spider.spider import place_of_code
from shoal.testing import ChaoticWeb, HostProfile

# "calm" stands for the lightest of the built-in lanes, whose pages would be opened in a browser.
PLAIN: dict[str, Any] = {"robots": False, "rate": 0, "per_host": 100, "lanes": {"calm": 1.0}}
DEADLINE = 20


def web_of(*lanes: str, latency: float = 0.01) -> ChaoticWeb:
    """A host for each lane, so that the log tells them apart."""
    return ChaoticWeb({lane: HostProfile("slow", latency=latency, pages=1000) for lane in lanes})


def spider_of(web: ChaoticWeb, pages: int, **settings: object) -> Spider:
    start = [Request(web.url(lane, f"/p/{n}"), lane=lane) for n in range(pages) for lane in web.spec.hosts]
    spider = Spider("lanes", start, **{**PLAIN, **settings})
    spider.add_handler(lambda page: None, name="page")
    return spider


async def crawl(spider: Spider, **options: Any) -> shoal.Results:
    async with asyncio.timeout(DEADLINE):
        return await shoal.crawl(spider, **options)


@pytest.mark.parametrize("slots", [18, 4], ids=lambda slots: f"{slots} slots")
async def test_lanes_share_by_weight(slots: int, record_property: Callable[[str, object], None]) -> None:
    weights = {**WEIGHTS, "images": 3.0, "calm": 1.0}
    del weights["browser"]
    async with web_of(*weights) as web:
        lanes = {"images": 3.0, "calm": 1.0}
        # Without backpressure: of a machine that stands still for a moment, it takes slots away.
        spider = spider_of(web, 200, lanes=lanes, concurrency=slots, max_pages=360, backpressure=[])
        await crawl(spider)
        served = Counter(hit.host for hit in sorted(web.hits(), key=lambda hit: hit.started)[:360])
    record_property("pages by lane", dict(served))
    expected = {lane: 360 * weight / sum(weights.values()) for lane, weight in weights.items()}
    assert served == {lane: pytest.approx(pages, rel=0.2, abs=4) for lane, pages in expected.items()}


async def test_idle_capacity_is_lent_out() -> None:
    async with web_of("calm") as web:
        await crawl(spider_of(web, 100, concurrency=10))
        assert web.peak_concurrency("calm") == 10


async def test_the_lightest_lane_does_not_starve() -> None:
    """With a single slot, too."""
    async with web_of("urgent", "calm", latency=0.002) as web:
        await crawl(spider_of(web, 50, concurrency=1))
        order = [hit.host for hit in sorted(web.hits(), key=lambda hit: hit.started)]
    first, second, third = [number for number, lane in enumerate(order) if lane == "calm"][:3]
    assert first <= 12
    assert [second - first, third - second] == [9, 9], "one in nine, as the weights say"


async def test_caps_hold_though_nobody_else_wants_the_slots() -> None:
    async with web_of("normal", "calm") as web:
        await crawl(spider_of(web, 60, concurrency=12, lane_caps={"calm": 2}))
        assert web.peak_concurrency("calm") == 2
        assert web.peak_concurrency("normal") >= 10


async def test_a_process_serves_the_lanes_it_is_told_to(tmp_path: Path) -> None:
    async with web_of("urgent", "normal", "calm") as web:
        spider = spider_of(web, 10)
        only = asyncio.create_task(shoal.crawl(spider, store=tmp_path / "store.db", serve=["urgent", "calm"]))
        async with asyncio.timeout(DEADLINE):
            while len(web.hits()) < 20:  # noqa: ASYNC110 (the server does not know of us)
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        assert {hit.host for hit in web.hits()} == {"urgent", "calm"}
        assert not only.done(), "there is work left, for others"
        await crawl(spider, store=tmp_path / "store.db", serve=["normal"])
        async with asyncio.timeout(DEADLINE):
            await only
        assert Counter(hit.host for hit in web.hits()) == {"urgent": 10, "normal": 10, "calm": 10}


# -- lanes of one's own


async def test_a_handler_may_have_a_lane_of_its_own() -> None:
    async with web_of("pages", "pictures") as web:
        spider = Spider("lanes", web.url("pages"), **{**PLAIN, "lanes": {"images": 0.5}}, any_host=True)
        spider.settings["allow_network"] = ["127.0.0.0/8"]
        lanes: list[str] = []

        @spider.handler
        def page(page: Page) -> Iterator[Request]:
            yield page.follow(web.url("pictures", "/p/1"), picture)
            yield page.follow(web.url("pictures", "/p/2"), picture, lane="urgent")

        @spider.handler(lane="images")
        def picture(page: Page) -> None:
            lanes.append(page.task.lane)

        await crawl(spider)
    assert sorted(lanes) == ["images", "urgent"]


async def test_a_lane_that_does_not_exist_stops_the_crawl_before_it_begins(tmp_path: Path) -> None:
    spider = Spider("lanes", "http://127.0.0.1:9/")
    spider.add_handler(lambda page: None, name="picture", lane="images")
    with pytest.raises(
        SpiderError,
        match=r"spider 'lanes': handler 'picture': there is no lane 'images'; there are urgent, normal, "
        r"discovery, browser; add more with the setting lanes",
    ):
        await crawl(spider)
    for setting in ({"serve": ["fast"]}, {"lane_caps": {"fast": 1}}):
        with pytest.raises(SettingsError, match=rf"{next(iter(setting))}: there is no lane 'fast'"):
            await crawl(spider, lanes={"images": 1}, **setting)


async def test_a_request_in_a_lane_that_does_not_exist_does_not_vanish(tmp_path: Path) -> None:
    async with web_of("normal") as web:
        spider = Spider("lanes", web.url("normal"), **PLAIN)

        @spider.handler
        def listing(page: Page) -> Iterator[object]:
            yield {"url": page.url}
            yield page.follow("/p/1", lane="images")

        results = await crawl(spider, store=tmp_path / "store.db")
    assert len(results) == 0, "all or nothing: the page can be replayed"
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
    assert letter.kind == "junk"
    where = place_of_code(listing)
    assert "test_lanes.py:" in where
    assert letter.task.history[-1].detail == (
        "handler 'listing' yielded a request: there is no lane 'images'; there are urgent, normal, discovery, "
        f"browser, calm; add more with the setting lanes ({where}, for /p/1)"
    )


async def test_a_start_request_in_a_lane_that_does_not_exist_stops_the_crawl() -> None:
    spider = Spider("lanes", [Request("http://127.0.0.1:9/", lane="images")], **PLAIN)
    spider.add_handler(lambda page: None, name="page")
    with pytest.raises(ShoalError, match="spider 'lanes': start request 1: there is no lane 'images'"):
        await crawl(spider)
