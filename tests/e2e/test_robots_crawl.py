"""robots.txt in a real crawl: what it forbids is never asked for, and it is itself asked for politely."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence

import pytest

import shoal
from integration.raw_server import Answer, page, serve
from lateness import Lateness
from shoal import Page, Request, Results, Spider
from shoal.inspect.single_page import look
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, HostProfile

TOLERANCE = 0.1  # seconds: the server reads a request when its loop gets to it


def follow_everything(page: Page) -> list[Request]:
    return page.follow_all("a")


async def crawl(start: Sequence[str], **settings: object) -> Results:
    # The site is in the same loop: while that stands still, nobody is to be cut off.
    spider = Spider("robots", list(start), **{"rate": 0, "min_timeout": 60, **settings})
    spider.add_handler(follow_everything)
    async with asyncio.timeout(120):  # a busy machine takes its time
        return await shoal.crawl(spider)


async def test_what_is_forbidden_is_never_hit() -> None:
    robots = "User-agent: *\nDisallow: /private/\n"
    async with ChaoticWeb({"docs": HostProfile(pages=15, private=5, robots=robots)}) as web:
        results = await crawl(web.start_urls)
        paths = [hit.path for hit in web.hits()]
    assert not [path for path in paths if path.startswith("/private")]
    assert len(paths) == 16
    assert results.view.job.counters.done == 15
    assert results.view.report.errors == {"robots": 5}


async def test_rules_for_shoal_go_before_those_for_everybody() -> None:
    robots = "User-agent: *\nDisallow: /\n\nUser-agent: shoal\nDisallow: /private/\n"
    async with ChaoticWeb({"docs": HostProfile(pages=5, private=2, robots=robots)}) as web:
        results = await crawl(web.start_urls)
    assert results.view.job.counters.done == 5


async def test_robots_txt_is_asked_for_once_however_many_pages_run_at_once() -> None:
    async with ChaoticWeb({"site": HostProfile("slow", latency=0.3, pages=40)}) as web:
        urls = [web.url("site", f"/p/{n}") for n in range(40)]
        await crawl(urls, per_host=20)
        paths = [hit.path for hit in web.hits_of("site")]
        peak = web.peak_concurrency("site")
    assert paths[0] == "/robots.txt"
    assert paths.count("/robots.txt") == 1
    assert peak > 10, "the pages did run at once"


async def test_a_resumed_crawl_remembers_robots_txt(tmp_path: object) -> None:
    async with ChaoticWeb({"site": HostProfile(pages=6, robots="User-agent: *\nDisallow: /private/")}) as web:
        spider = Spider("robots", [web.url("site", f"/p/{n}") for n in range(6)], rate=0)
        spider.add_handler(lambda page: None, name="page")
        await shoal.crawl(spider, store=f"{tmp_path}/store.db", max_pages=3)
        await shoal.crawl(spider, store=f"{tmp_path}/store.db")
        paths = [hit.path for hit in web.hits()]
    assert paths.count("/robots.txt") == 1
    assert len(paths) == 7


async def test_crawl_delay_is_held() -> None:
    robots = "User-agent: *\nCrawl-delay: 0.5\n"
    async with ChaoticWeb({"library": HostProfile(pages=5, robots=robots)}) as web:
        with Lateness() as late:
            await crawl(web.start_urls, per_host=4)
        gaps = web.gaps("library")
    assert len(gaps) == 5
    assert min(gaps) >= 0.5 - TOLERANCE - late.seconds, "between robots.txt and the first page too"


async def test_an_endless_crawl_delay_is_cut() -> None:
    robots = "User-agent: *\nCrawl-delay: 86400\n"
    async with ChaoticWeb({"library": HostProfile(pages=3, robots=robots)}) as web:
        results = await crawl(web.start_urls, max_crawl_delay=0.1)
    assert results.view.job.counters.done == 3


async def test_robots_txt_takes_its_turn_in_the_hosts_rate() -> None:
    async with ChaoticWeb({"site": HostProfile(pages=3)}) as web:
        with Lateness() as late:
            await crawl(web.start_urls, rate=2)
        hits = web.hits_of("site")
        gaps = web.gaps("site")
    assert hits[0].path == "/robots.txt"
    assert gaps[0] >= 1 / 2 - TOLERANCE - late.seconds


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_no_robots_txt_allows_everything(status: int) -> None:
    async with ChaoticWeb({"site": HostProfile(pages=8, robots=status)}) as web:
        results = await crawl(web.start_urls)
    assert results.view.job.counters.done == 8


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_no_page_is_hit_while_robots_txt_fails(status: int) -> None:
    async with ChaoticWeb({"site": HostProfile(pages=8, robots=status)}) as web:
        urls = [web.url("site", f"/p/{n}") for n in range(3)]
        results = await crawl(urls, max_attempts=2, retry_base=0.05)
        paths = [hit.path for hit in web.hits()]
    assert set(paths) == {"/robots.txt"}
    assert len(paths) <= 4, "not asked again for every page"
    assert results.view.job.counters.dead == 3
    assert set(results.view.report.errors) == {"robots_unreachable"}


async def test_a_robots_txt_that_recovers_opens_the_site() -> None:
    asked = 0

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        path = head.split(b" ")[1].decode()
        if path == "/robots.txt":
            asked += 1
            failing = page(b"", "503 Service Unavailable")
            writer.write(failing if asked < 3 else page(b"User-agent: *\nDisallow: /no"))
        else:
            writer.write(page(b'<a href="/no">no</a>', Content_Type="text/html"))

    async with serve(answer) as server:
        results = await crawl([server.url("/yes")], retry_base=0.05)
    assert results.view.job.counters.done == 1
    assert server.paths == ["/robots.txt"] * 3 + ["/yes"]
    assert results.view.report.errors == {"robots_unreachable": 2, "robots": 1}


async def test_robots_txt_that_hangs_forbids_until_it_answers() -> None:
    async with ChaoticWeb({"site": HostProfile(pages=2, robots=0)}) as web:
        results = await crawl(web.start_urls, max_attempts=1, read_timeout=0.3)
        paths = [hit.path for hit in web.hits()]
    assert set(paths) <= {"/robots.txt"}
    assert results.view.report.errors == {"read_timeout": 1}, "what is in the way, not what was wanted"


async def test_without_robots_it_is_never_asked_for() -> None:
    robots = "User-agent: *\nDisallow: /\nCrawl-delay: 30\n"
    async with ChaoticWeb({"site": HostProfile(pages=8, robots=robots)}) as web:
        results = await crawl(web.start_urls, robots=False)
        paths = [hit.path for hit in web.hits()]
    assert "/robots.txt" not in paths
    assert results.view.job.counters.done == 8


async def test_a_redirected_robots_txt_keeps_the_hosts_gap() -> None:
    arrivals: list[float] = []

    def redirecting(hops: int) -> Answer:
        async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
            arrivals.append(time.monotonic())
            path = head.split(b" ")[1].decode()
            number = {"/robots.txt": 0}.get(path, int(path[2:]) if path[2:].isdigit() else hops)
            if number < hops:
                writer.write(page(b"", "302 Found", Location=f"/r{number + 1}"))
            else:
                writer.write(page(b"User-agent: *\nDisallow: /private"))

        return answer

    async with serve(redirecting(3)) as server:
        with Lateness() as late:
            results = await crawl([server.url("/private"), server.url("/open")], rate=2)
    assert server.paths[:4] == ["/robots.txt", "/r1", "/r2", "/r3"]
    assert "/private" not in server.paths
    assert results.view.report.errors == {"robots": 1}
    assert min(b - a for a, b in itertools.pairwise(arrivals)) >= 1 / 2 - TOLERANCE - late.seconds


async def test_robots_txt_that_redirects_to_a_busy_host_keeps_that_hosts_gap() -> None:
    """Six hosts send their robots.txt to one that is being crawled itself; every page of all of them is had."""
    arrivals: list[float] = []

    async def busy(head: bytes, writer: asyncio.StreamWriter) -> None:
        arrivals.append(time.monotonic())
        path = head.split(b" ")[1].decode()
        writer.write(page(b"User-agent: *\nDisallow: /private") if "robots" in path else page(b"<p>page</p>"))

    async with serve(busy, host="127.0.1.1") as target, contextlib.AsyncExitStack() as stack:

        async def moved(head: bytes, writer: asyncio.StreamWriter) -> None:
            number = head.split(b"127.0.2.")[1].split(b":")[0].decode()
            location = target.url(f"/robots-{int(number) % 2}.txt")
            is_robots = head.startswith(b"GET /robots.txt ")
            writer.write(page(b"", "302 Found", Location=location) if is_robots else page(b"<p>page</p>"))

        servers = [await stack.enter_async_context(serve(moved, host=f"127.0.2.{n}")) for n in range(1, 7)]
        urls = [target.url(f"/{n}") for n in range(12)]
        urls += [server.url(path) for server in servers for path in ("/open", "/private")]
        with Lateness() as late:
            results = await crawl(urls, rate=4, retry_base=0.1, retry_cap=0.5, allow_network=["127.0.0.0/8"])
    assert results.view.job.counters.done == 12 + 6
    assert results.view.report.errors == {"robots": 6}
    assert target.paths.count("/robots-0.txt") == target.paths.count("/robots-1.txt") == 1, "then it is known"
    assert min(b - a for a, b in itertools.pairwise(arrivals)) >= 1 / 4 - TOLERANCE - late.seconds


async def test_noindex_and_nofollow_are_obeyed_if_the_settings_say_so() -> None:
    answers = {
        "/": page(b"<a href=/a>x</a> <a href=/b rel=nofollow>x</a>", Content_Type="text/html"),
        "/a": page(b"<a href=/c>x</a>", Content_Type="text/html", X_Robots_Tag="shoal: none"),
    }

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.get(head.split(b" ")[1].decode(), page(b"<p>x", Content_Type="text/html")))

    def handler(seen: Page) -> list[object]:
        return [{"url": seen.url}, *seen.follow_all("a")]

    for obeys, rows, hits in ((False, 4, 5), (True, 1, 3)):
        async with serve(answer) as server, asyncio.timeout(20):
            settings = {"rate": 0, "robots_meta": obeys, "rel_nofollow": obeys}
            spider = Spider("manners", [server.url("/")], allow_network=["127.0.0.0/8"], **settings)
            spider.add_handler(handler)
            report = (results := await shoal.crawl(spider)).view.report
        assert (results.view.job.counters.items, len(server.hits)) == (rows, hits)
        assert (report.refused, report.cut) == (
            ({"nofollow": 2}, {"noindex items": 1}) if obeys else ({}, {})
        )


async def test_a_look_at_a_page_tells_what_it_asks() -> None:
    markup = b"<meta name=robots content=noindex><a href=/a>x</a><a href=/b rel=nofollow>x</a>"
    async with serve(lambda head, writer: _write(writer, page(markup, Content_Type="text/html"))) as server:
        sight = await look(server.url("/"), Settings(robots=False))
        assert (sight.asks, sight.admitted, sight.refused) == (("noindex",), 2, {})
        obeying = await look(server.url("/"), Settings(robots=False, rel_nofollow=True))
        assert (obeying.admitted, obeying.refused) == (1, {"nofollow": 1})


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
