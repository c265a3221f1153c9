"""A URL that is added while a crawl comes to its end is crawled by it, or left for the next: never lost or stranded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import shoal
from shoal import Spider
from shoal.frontier import open_frontier
from shoal.testing import ChaoticWeb, HostProfile

ROUNDS = 12


async def test_what_is_added_to_a_crawl_that_runs_is_crawled_by_it(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with ChaoticWeb({"site": HostProfile(pages=9)}) as web:
        spider = Spider("site", web.url("site", "/p/0"), robots=False, rate=0, trust_start=True)

        @spider.handler
        async def page(page: shoal.Page) -> dict[str, str]:
            if page.url.endswith("/0"):  # the last page of the job, and it is in flight
                added = await shoal.add("site", web.url("site", "/p/1"), store=store)
                assert (added.new, added.state) == (1, "running")
            return {"url": page.url}

        results = await shoal.crawl(spider, store=store)
        assert sorted(row["url"] for row in results) == [web.url("site", f"/p/{n}") for n in (0, 1)]
        assert results.view.job.state == "finished"


async def test_what_is_added_at_the_very_end_is_not_stranded(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with ChaoticWeb({"site": HostProfile(pages=9)}) as web:
        for number in range(ROUNDS):
            name, crawled, last_page = f"job{number}", list[str](), asyncio.Event()
            spider = Spider("site", web.url("site", "/p/0"), robots=False, rate=0, trust_start=True)

            @spider.handler
            def page(page: shoal.Page) -> None:
                crawled.append(page.url)  # noqa: B023
                last_page.set()  # noqa: B023

            async def add() -> None:
                """Somewhere between its last page and its last breath."""
                await last_page.wait()  # noqa: B023
                await asyncio.sleep(0.003 * number)  # noqa: B023
                await shoal.add(name, web.url("site", "/p/1"), store=store)  # noqa: B023

            async with asyncio.timeout(20):
                await asyncio.gather(shoal.crawl(spider, store=store, job=name), add())
            async with open_frontier(str(store)) as frontier:
                job = await frontier.job(name)
            assert job is not None
            assert job.state == ("running" if job.counters.open else "finished")
            if job.counters.open:  # it came after the end, and brought the job back
                await shoal.crawl(spider, store=store, job=name)
            assert sorted(crawled) == [web.url("site", f"/p/{n}") for n in (0, 1)]
