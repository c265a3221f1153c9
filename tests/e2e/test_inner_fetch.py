"""Requests inside a handler: `await page.fetch(…)`."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

import shoal
from lateness import Lateness
from shoal import FetchFailed, Page, Spider
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.model import DeadLetter

FORM = """<form id=f action=/sent method=post><input type=hidden name=token value=t1><input name=q>
<button name=go value=1>Go</button></form>"""


class Site:
    """A server on loopback: by path, what it answers."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self.times: list[float] = []
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        path = request.path
        self.hits[path] += 1
        self.times.append(time.monotonic())
        if path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private")
        if path == "/form":
            return web.Response(text=FORM, content_type="text/html")
        if path == "/sent":
            referer = request.headers.get("Referer", "").removeprefix(self.url)
            return web.json_response(
                {"method": request.method, "body": await request.text(), "referer": referer}
            )
        if path == "/moved":
            return web.Response(status=302, headers={"Location": "/api/moved"})
        if path == "/round":
            return web.Response(status=302, headers={"Location": "/round"})
        if path == "/flaky" and self.hits[path] < 3:
            return web.Response(status=503)
        if path == "/busy":
            return web.Response(status=503, text="busy")
        if path == "/gone":
            return web.Response(status=404, text="gone")
        return web.json_response({"path": path, "hit": self.hits[path]})


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[Site]:
    runner = web.ServerRunner(web.Server(site.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield site
    finally:
        await runner.cleanup()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving(Site()) as site:
        yield site


def spider_for(site: Site, *paths: str, **settings: object) -> Spider:
    usual = {"rate": 0, "robots": False, "max_attempts": 2, "retry_base": 0.01, "policies": []}
    return Spider("s", [site.url + path for path in paths], **(usual | settings))


async def dead(store: Path) -> list[DeadLetter]:
    async with open_frontier(str(store)) as frontier:
        return list(await frontier.dead(DeadFilter()))


async def test_a_handler_gets_further_pages(site: Site) -> None:
    spider = spider_for(site, "/start", max_attempts=3)

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        yield {"api": (await page.fetch("/api/1")).json()}
        yield {"moved": (await page.fetch("/moved")).json()}
        yield {"flaky": (await page.fetch("/flaky")).json()["hit"]}
        form = await page.fetch("/form")
        form.count("forms")
        page.count("starts")
        sent = await form.fetch(form.submit_form("#f", {"q": "a b"}))
        yield {"form": sent.json(), "at": sent.url}
        json = await page.fetch("/sent", json={"n": 1})
        yield {"json": json.json()}

    results = await shoal.crawl(spider)
    rows = {name: value for row in results for name, value in row.items()}
    assert rows["api"] == {"path": "/api/1", "hit": 1}
    assert rows["moved"] == {"path": "/api/moved", "hit": 1}
    assert rows["flaky"] == 3
    assert rows["form"] == {"method": "POST", "body": "token=t1&q=a+b&go=1", "referer": "/start"}
    assert rows["at"] == f"{site.url}/sent"
    assert rows["json"] == {"method": "POST", "body": '{"n":1}', "referer": "/start"}
    assert results.view.job.counts == {"forms": 1, "starts": 1}, "all of it is one page"
    report = results.view.report
    assert (report.fetches, report.pages, report.handled) == (sum(site.hits.values()), 1, 1)
    assert report.statuses == {200: 7, 302: 1, 503: 2}


async def test_a_handler_catches_what_failed(site: Site) -> None:
    spider = spider_for(site, "/start", robots=True, max_redirects=3)

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        for url in (
            "/gone",
            "/busy",
            "/private",
            "/round",
            "ftp://x/",
            "http://127.0.0.1:9/",
            "http://10.0.0.1/",
        ):
            try:
                await page.fetch(url)
            except FetchFailed as error:
                body = error.page.body.decode() if error.page is not None else None
                yield {"url": url, "kind": error.kind, "status": error.status, "body": body}

    rows = list(await shoal.crawl(spider))
    assert [(row["url"], row["kind"], row["status"], row["body"]) for row in rows] == [
        ("/gone", "http_404", 404, "gone"),
        ("/busy", "http_503", 503, "busy"),
        ("/private", "robots", None, None),
        ("/round", "redirect_loop", None, ""),
        ("ftp://x/", "policy", None, None),
        ("http://127.0.0.1:9/", "forbidden_address", None, None),
        ("http://10.0.0.1/", "forbidden_address", None, None),
    ]
    assert site.hits["/busy"] == 2
    assert site.hits["/private"] == 0


async def test_what_is_not_caught_ends_the_page(site: Site, tmp_path: Path) -> None:
    spider = spider_for(site, "/a?to=/gone", "/b?to=/busy", "/c?to=/flaky")

    @spider.handler
    async def start(page: Page) -> object:
        other = await page.fetch(page.url.partition("=")[2])
        return {"page": page.url.removeprefix(site.url), "other": other.json()["path"]}

    results = await shoal.crawl(spider, store=str(tmp_path / "s.db"))
    assert [row["other"] for row in results] == ["/flaky"]  # with the second attempt of its page
    letters = {letter.task.url.removeprefix(site.url)[:2]: letter for letter in await dead(tmp_path / "s.db")}
    assert {path: (letter.kind, letter.task.attempt) for path, letter in letters.items()} == {
        "/a": ("http_404", 1),
        "/b": ("http_503", 2),
    }
    assert f"{site.url}/gone" in letters["/a"].task.history[-1].detail
    assert letters["/b"].snapshot is not None
    assert letters["/b"].snapshot.body == b"busy"


async def test_pages_and_requests_inside_them_keep_the_interval_together(site: Site) -> None:
    """The server's own clock is asked: no two requests are closer, but for how late it read the first."""
    spider = spider_for(site, *(f"/{i}" for i in range(4)), rate=20, per_host=4)

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        for n in range(2):
            yield (await page.fetch(f"/inner{page.url[-1]}/{n}")).json()

    began = time.monotonic()
    with Lateness() as machine:
        assert len(list(await shoal.crawl(spider))) == 8
    assert len(site.times) == 12
    # Any k requests take at least k - 1 intervals; half of one is left for delays, or more on a busy machine.
    for first, last in itertools.combinations(range(12), 2):
        least = (last - first - 0.5) * 0.05 - 2 * machine.seconds  # the crawl may be late, and the server
        assert site.times[last] - site.times[first] >= least
    assert time.monotonic() - began < 30


async def test_waiting_for_a_turn_is_not_the_handlers_time(site: Site) -> None:
    spider = spider_for(site, "/start", rate=5, handler_timeout=0.5)

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        for n in range(5):
            yield (await page.fetch(f"/{n}")).json()

    assert len(list(await shoal.crawl(spider))) == 5


async def test_the_handlers_own_time_is_bounded_all_the_same(site: Site, tmp_path: Path) -> None:
    spider = spider_for(site, "/start", handler_timeout=0.3)

    @spider.handler
    async def start(page: Page) -> AsyncIterator[object]:
        yield (await page.fetch("/1")).json()
        await asyncio.Event().wait()

    assert list(await shoal.crawl(spider, store=str(tmp_path / "s.db"))) == []
    assert [letter.kind for letter in await dead(tmp_path / "s.db")] == ["handler_timeout"]


async def test_a_turn_too_far_away_makes_the_page_wait(site: Site, tmp_path: Path) -> None:
    spider = spider_for(site, "/start", rate=2, handler_timeout=0.2, max_attempts=2)

    @spider.handler
    async def start(page: Page) -> object:
        return (await page.fetch("/1")).json()

    assert list(await shoal.crawl(spider, store=str(tmp_path / "s.db"))) == []
    [letter] = await dead(tmp_path / "s.db")
    assert (letter.kind, letter.task.attempt) == ("turn_wait", 2)
    assert "seconds away" in letter.task.history[-1].detail
    assert site.hits["/1"] == 0


async def test_a_page_that_waits_holds_no_slot(site: Site) -> None:
    """With one slot, the second page must be fetched while the handler of the first waits for its own request."""
    second = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/slow":
            await second.wait()
        if request.path == "/second":
            second.set()
        return web.Response(text="x")

    site.answer = answer  # type: ignore[method-assign]
    async with serving(site):
        spider = spider_for(site, "/first", "/second", concurrency=1, per_host=4)

        @spider.handler
        async def start(page: Page) -> object:
            if page.url.endswith("/first"):
                await page.fetch("/slow")
            return {"url": page.url}

        assert len(list(await shoal.crawl(spider))) == 2


@pytest.mark.parametrize("how", ["used", "yielded"])
async def test_forgetting_to_await_is_told(site: Site, tmp_path: Path, how: str) -> None:
    spider = spider_for(site, "/start")

    @spider.handler
    def start(page: Page) -> Iterator[object]:
        other = page.fetch("/1")
        yield {"x": other.json()} if how == "used" else other  # type: ignore[attr-defined]

    assert list(await shoal.crawl(spider, store=str(tmp_path / "s.db"))) == []
    [letter] = await dead(tmp_path / "s.db")
    assert "without await: write `await page.fetch(…)`" in letter.task.history[-1].detail


async def test_requests_in_a_task_group(site: Site, tmp_path: Path) -> None:
    spider = spider_for(site, "/fine", "/bad")

    @spider.handler
    async def start(page: Page) -> object:
        last = "/gone" if page.url.endswith("/bad") else "/3"
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(page.fetch(url)) for url in ("/1", "/2", last)]
        return {"paths": [task.result().json()["path"] for task in tasks]}

    results = await shoal.crawl(spider, store=str(tmp_path / "s.db"))
    assert list(results) == [{"paths": ["/1", "/2", "/3"]}]
    assert [letter.kind for letter in await dead(tmp_path / "s.db")] == ["http_404"]


async def test_requests_at_once_run_one_after_another(site: Site) -> None:
    at_once, most = 0, 0

    async def answer(request: web.BaseRequest) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        return web.json_response({})

    site.answer = answer  # type: ignore[method-assign]
    async with serving(site):
        spider = spider_for(site, "/start")

        @spider.handler
        async def start(page: Page) -> object:
            pages = await asyncio.gather(*(page.fetch(f"/{n}") for n in range(4)))
            return {"pages": len(pages)}

        assert list(await shoal.crawl(spider)) == [{"pages": 4}]
    assert most == 1


async def test_another_host_has_its_own_limits(site: Site) -> None:
    """Its robots.txt is read first, and a process has no more requests there than its pages may have."""
    at_once = most = 0
    asked: list[str] = []

    class Other(Site):
        async def answer(self, request: web.BaseRequest) -> web.Response:
            nonlocal at_once, most
            asked.append(request.path)
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.03)
            at_once -= 1
            return await super().answer(request)

    async with serving(Other()) as other:
        paths = [f"/{n}" for n in range(8)]
        network = ["127.0.0.0/8"]
        spider = spider_for(site, *paths, robots=True, per_host=2, burst=8, rate=1000, allow_network=network)
        spider.settings["hosts"] = [site.url.removeprefix("http://")]  # the other is out of scope

        @spider.handler
        async def start(page: Page) -> AsyncIterator[object]:
            yield (await page.fetch(f"{other.url}/api/{page.url[-1]}")).json()
            with pytest.raises(FetchFailed) as failed:
                await page.fetch(f"{other.url}/private/{page.url[-1]}")
            assert failed.value.kind == "robots"

        rows = list(await shoal.crawl(spider))
    assert sorted(row["path"] for row in rows) == [f"/api/{n}" for n in range(8)]
    assert asked[0] == "/robots.txt"
    assert Counter(asked)["/robots.txt"] == 1
    assert not any(path.startswith("/private") for path in asked)
    assert most <= 2


async def test_what_a_handler_leaves_running_sends_nothing_more(site: Site) -> None:
    """Otherwise it would take turns of the host for a page that is settled."""
    spider = Spider("left", [f"{site.url}/a", f"{site.url}/b"], rate=0, per_host=1, robots=False)
    left: list[asyncio.Task[Page]] = []

    @spider.handler
    async def page(page: Page) -> None:
        if page.url.endswith("/a"):
            left.extend(asyncio.create_task(page.fetch(f"{site.url}/{n}")) for n in range(3))

    await shoal.crawl(spider)
    said = await asyncio.gather(*left, return_exceptions=True)
    assert "the handler of this page has ended" in str(said[-1])
    assert sum(site.hits[f"/{n}"] for n in range(3)) <= 1, "the first may have been on its way"
