"""What a handler says of its page: ask again, or leave it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

import shoal
from shoal import Drop, Page, Retry, Spider
from shoal.errors import SpiderError
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter


async def test_a_handler_asks_again_or_drops(tmp_path: Path) -> None:
    hits: Counter[str] = Counter()

    async def answer(request: web.BaseRequest) -> web.Response:
        hits[request.path] += 1
        return web.Response(text=str(hits[request.path]))

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site = f"http://127.0.0.1:{runner.addresses[0][1]}"
    paths = ["/soon", "/never", "/unwanted", "/unwanted2", "/plain", "/exit"]
    spider = Spider(
        "s", [site + path for path in paths], rate=0, robots=False, max_attempts=3, retry_base=0.01
    )

    @spider.handler
    def page(page: Page) -> Iterator[object]:
        page.count("hits")
        yield {"path": page.url.removeprefix(site), "hit": int(page.body)}
        yield page.follow("/found-on" + page.url.removeprefix(site), ignored)
        if "/soon" in page.url and int(page.body) < 3:
            raise Retry("sold out", after=0.05)
        if "/never" in page.url:
            raise Retry
        if "/unwanted" in page.url:
            raise Drop("not wanted")
        if "/exit" in page.url:
            sys.exit("a handler is no script")

    @spider.handler
    def ignored(page: Page) -> None:
        pass

    try:
        results = await shoal.crawl(spider, store=str(tmp_path / "store.db"))
    finally:
        await runner.cleanup()
    assert sorted((row["path"], row["hit"]) for row in results) == [("/plain", 1), ("/soon", 3)]
    assert hits["/never"] == hits["/soon"] == 3
    # What a page yields before it is dropped, or asked for again, is not used.
    assert {path for path in hits if path.startswith("/found-on")} == {"/found-on/plain", "/found-on/soon"}
    assert results.view.job.counts == {"hits": 4, "pages dropped: not wanted": 2}, "pages that are done"
    async with open_frontier(str(tmp_path / "store.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter(kind="retry_asked"))
        [ended] = await frontier.dead(DeadFilter(kind="handler"))
    assert "SystemExit: a handler is no script" in ended.task.history[-1].detail
    assert (letter.kind, len(letter.task.history)) == ("retry_asked", 3)
    assert letter.snapshot is not None
    assert letter.snapshot.body == b"3"


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf")])
def test_a_wait_that_is_none_is_told(after: float) -> None:
    with pytest.raises(SpiderError, match="Retry: after is"):
        Retry("x", after=after)
