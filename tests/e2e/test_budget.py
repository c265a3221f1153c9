"""Every host answers 503: traffic grows by the retry budget and no more, and the crawl ends by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal
from shoal import Page, Spider
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.settings import POLICIES
from shoal.testing import ChaoticWeb, HostProfile

HOSTS, PAGES = 20, 20
BUDGET = 0.3
DEADLINE = 30


def no_page(page: Page) -> None:
    raise AssertionError(page.url)


@pytest.mark.parametrize("breaker", [True, False], ids=["breaker", "no breaker"])
async def test_requests_stay_within_the_budget(
    breaker: bool, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with ChaoticWeb([HostProfile("failing")] * HOSTS) as web:
        start = [web.url(host, f"/p/{n}") for n in range(PAGES) for host in web.spec.hosts]
        spider = Spider(
            "storm",
            start,
            rate=0,
            retry_base=0.01,
            retry_budget=BUDGET,
            breaker_cooldown=0.05,
            breaker_probes=3,
            policies=[name for name in POLICIES if breaker or name != "breaker"],
        )
        spider.add_handler(no_page)
        async with asyncio.timeout(DEADLINE):
            results = await shoal.crawl(spider, store=tmp_path / "store.db")
        asked = Counter((hit.host, hit.path) for hit in web.hits() if hit.path != "/robots.txt")
    first, total = len(asked), asked.total()
    record_property("requests", f"{first} first attempts, {total} in all")
    assert first * BUDGET > 10, "else the floor of the budget holds"
    assert total <= first * (1 + BUDGET)
    assert breaker or first == HOSTS * PAGES
    assert (results.view.job.state, results.view.job.counters.dead) == ("finished", HOSTS * PAGES)
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        letters = await frontier.dead(DeadFilter())
    unfetched = sum(letter.kind == "host_down" for letter in letters)
    assert {letter.kind for letter in letters} == {"http_503", "host_down"} - (
        set() if breaker else {"host_down"}
    )
    assert HOSTS * PAGES - unfetched <= first
    details = {letter.task.history[-1].detail for letter in letters if letter.kind == "http_503"}
    assert any("(too many retries in the whole crawl (retry_budget 0.3))" in detail for detail in details)


async def test_a_host_has_a_budget_of_its_own(tmp_path: Path) -> None:
    """Good times elsewhere do not pay for it."""
    async with ChaoticWeb({"bad": HostProfile("failing"), "good": HostProfile(pages=200)}) as web:
        start = [web.url("good", f"/p/{n}") for n in range(200)]
        start += [web.url("bad", f"/p/{n}") for n in range(10)]
        spider = Spider("storm", start, rate=0, retry_base=0.01, policies=["budget"], retry_budget_floor=4)
        spider.add_handler(lambda page: None, name="page")
        async with asyncio.timeout(DEADLINE):
            await shoal.crawl(spider, store=tmp_path / "store.db")
        asked = len([hit for hit in web.hits_of("bad") if hit.path != "/robots.txt"])
    assert 10 < asked <= 10 + 4 + 10 * BUDGET
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        letters = await frontier.dead(DeadFilter())
    assert any("no retries left for this host" in letter.task.history[-1].detail for letter in letters)
