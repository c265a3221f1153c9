"""A standing crawl against a real server, as people see it: status, why, the report, and what is kept over time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import shoal
from shoal import Page, Request, Spider
from shoal.engine.history_recorder import read_history
from shoal.frontier import open_frontier
from shoal.inspect.freshness_form import freshness_page
from shoal.inspect.overview import look
from shoal.inspect.why import answers_about
from shoal.report.document import render
from shoal.report.gathering import gather
from shoal.testing.changing_site import ChangingSite, Content, later


def shop(site: ChangingSite) -> Spider:
    spider = Spider("shop", start=site.url + "/")

    @spider.handler(revisit="1h")
    def listing(page: Page) -> Iterator[Request]:
        yield from page.follow_all("a", "product")

    @spider.handler(key="name", revisit="1h")
    def product(page: Page) -> Iterator[dict[str, str]]:
        yield {"name": page.text("h1"), "price": page.text(".price")}

    return spider


async def test_what_visits_have_shown_is_seen_everywhere(tmp_path: Path) -> None:
    pages = {"/": Content(links=["/a", "/b"]), "/a": Content("10"), "/b": Content("20")}
    store = tmp_path / "store.db"
    async with ChangingSite(pages).serving() as site:
        for price in ("10", "11"):
            site.set("/a", price)
            results = await shoal.crawl(
                shop(site), store=store, output=tmp_path / "rows.jsonl", robots=False, rate=0, once=True
            )
            fresh = results.view.freshness
            assert fresh is not None
            assert (fresh.followed, fresh.overdue, fresh.ratio) == (3, 0, 1.0)
            later(store, hours=1.5)
        url = site.url + "/b"
    async with open_frontier(str(store)) as frontier:
        [one] = (await look(frontier)).jobs
        assert one.freshness is not None
        assert (one.freshness.followed, one.freshness.overdue) == (3, 3), (
            "nobody has visited them for 90 minutes"
        )
        seen = one.freshness.visits
        assert (seen.visits, seen.unchanged, seen.changed) == (6, 2, 1)
        told = (await read_history(frontier, "shop")).total().visits
        assert (told.visits, told.unchanged, told.changed) == (6, 2, 1)
        assert told.freshness is not None
        assert 0.6 < told.freshness < 0.7, "they were due after 60 of 90 minutes"
        found = await freshness_page(frontier, [one.job], None)
        assert sum(found["due"]["pages"]) == found["due"]["pages"][0] == 3
        assert [page.url.rpartition("/")[2] for page in found["restless"]] == ["a"]
        [answer] = await answers_about(frontier, url, None)
        assert answer.causes[0].sentence == (
            "visited twice, unchanged for 3 h; its next visit has been due for 30 min"
        )
        report = render(await gather(frontier, "shop"))
    assert "3</b> <span>pages followed</span><small>3 overdue, the oldest by 30 min" in report
    assert "What visits found, a minute" in report
    assert "Fresh pages" in report
