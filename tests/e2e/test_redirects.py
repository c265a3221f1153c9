"""Redirects in a real crawl: each hop goes through the queue of the host it leads to, and there is an end to them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import shoal
from integration.raw_server import Answer, RawServer, by_path, page, serve
from lateness import Lateness
from shoal import Page, Request, Results, Spider
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import DeadFilter
from shoal.model import DeadLetter

CERTS = Path(__file__).parents[1] / "integration" / "certs"
LOOPBACK = ["127.0.0.0/8"]
TOLERANCE = 0.1  # seconds: the server reads a request when its loop gets to it


def redirect(to: str, **headers: str) -> bytes:
    return page(b"", "302 Found", Location=to, **headers)


def where(page: Page) -> dict[str, object]:
    return {"url": page.url, "asked": page.task.origin, "hops": len(page.task.hops)}


async def crawl(start: str | list[str | Request], store: Path | None = None, **settings: object) -> Results:
    # The site is in the same loop: while that stands still, nobody is to be cut off.
    spider = Spider("redirects", start, **{"rate": 0, "robots": False, "min_timeout": 60, **settings})
    spider.add_handler(where)
    async with asyncio.timeout(120):  # a busy machine takes its time
        return await shoal.crawl(spider, store=store)


async def letters(store: Path) -> list[DeadLetter]:
    async with SqliteFrontier(store) as frontier:
        return list(await frontier.dead(DeadFilter()))


def noting(arrivals: list[float], answer: Answer) -> Answer:
    async def timed(head: bytes, writer: asyncio.StreamWriter) -> None:
        arrivals.append(time.monotonic())
        await answer(head, writer)

    return timed


def counting_up(last: int) -> Answer:
    """/0 leads to /1, and so on, up to the page at /last."""

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        number = int(head.split(b" ")[1][1:])
        writer.write(redirect(f"/{number + 1}") if number < last else page(b"here"))

    return answer


# -- on one host


async def test_a_row_tells_where_the_page_was_found() -> None:
    async with serve(by_path({"/old": redirect("/new"), "/new": page(b"here")})) as server:
        results = await crawl(server.url("/old"))
    assert results.items == [{"url": server.url("/new"), "asked": server.url("/old"), "hops": 1}]
    assert server.paths == ["/old", "/new"]


async def test_every_hop_keeps_the_hosts_gap() -> None:
    arrivals: list[float] = []
    async with serve(noting(arrivals, counting_up(3))) as server:
        with Lateness() as late:
            await crawl(server.url("/0"), rate=2)
    assert len(arrivals) == 4
    assert min(b - a for a, b in pairwise(arrivals)) >= 1 / 2 - TOLERANCE - late.seconds


@pytest.mark.parametrize(
    "answers",
    [
        {"/a": redirect("/b"), "/b": redirect("/a")},
        {"/a": redirect("/a")},
        {"/a": redirect("/a", Set_Cookie="seen=1")},
    ],
    ids=["a circle", "to itself", "with a cookie that does not help"],
)
async def test_a_loop_ends_in_the_dead_letters(answers: dict[str, bytes], tmp_path: Path) -> None:
    async with serve(by_path(answers)) as server:
        results = await crawl(server.url("/a"), tmp_path / "store.db", max_redirects=5)
    assert len(server.paths) <= 2
    assert results.view.job.counters.dead == 1
    [letter] = await letters(tmp_path / "store.db")
    assert letter.kind == "redirect_loop"
    assert letter.task.origin == server.url("/a")
    assert f"in a circle: {server.url('/a')} was asked for before" in letter.task.history[-1].detail


async def test_thirty_hops_are_too_many_by_default_but_can_be_allowed() -> None:
    async with serve(counting_up(30)) as server:
        results = await crawl(server.url("/0"))
        assert results.view.report.errors == {"redirect_loop": 1}
        assert len(server.paths) == 11
        results = await crawl(server.url("/0"), max_redirects=30)
    assert [item["url"] for item in results] == [server.url("/30")]


async def test_two_ways_to_one_page_give_one_row() -> None:
    answers = {"/a": redirect("/page"), "/b": redirect("/page"), "/page": page(b"here")}
    async with serve(by_path(answers)) as server:
        results = await crawl([server.url("/a"), server.url("/b"), server.url("/page")])
    assert [item["url"] for item in results] == [server.url("/page")]
    assert server.paths.count("/page") == 1
    counters = results.view.job.counters
    assert (counters.admitted, counters.done, counters.merged) == (3, 1, 2)


async def test_a_page_is_handled_for_every_meta_and_handler_that_comes_to_it() -> None:
    ways = {f"/{n}": redirect("/page") for n in range(8)}

    def other(page: Page) -> dict[str, object]:
        return {"by": "other", **page.meta}

    async with serve(by_path({**ways, "/page": page(b"here")})) as server:
        metas = [None, {"n": 1}, {"n": 2}, {"n": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, None]
        starts = [Request(server.url(f"/{n}"), meta=meta) for n, meta in enumerate(metas)]
        starts[0] = Request(server.url("/page"))
        starts.append(Request(server.url("/7"), handler="other"))
        spider = Spider("many", starts, rate=0, robots=False)
        spider.add_handler(lambda page: {"by": "first", **page.meta}, name="first")
        spider.add_handler(other)
        async with asyncio.timeout(20):
            results = await shoal.crawl(spider)
    found = sorted(str(sorted(item.items())) for item in results)
    wanted = [{}, {"n": 1}, {"n": 2}, {"a": 1, "b": 2}]
    rows = [{"by": "first", **meta} for meta in wanted] + [{"by": "other"}]
    assert found == sorted(str(sorted(row.items())) for row in rows)
    assert results.view.job.counters.merged == 3


async def test_a_page_that_was_admitted_with_the_same_meta_is_handled_once() -> None:
    def listing(page: Page) -> object:
        if page.url.endswith("/"):
            return page.follow_all(["/old", "/new"], meta={"shelf": 3})
        return {"url": page.url}

    answers = {"/": page(b""), "/old": redirect("/new"), "/new": page(b"here")}
    async with serve(by_path(answers)) as server:
        spider = Spider("shelf", server.url("/"), rate=0, robots=False)
        spider.add_handler(listing)
        async with asyncio.timeout(20):
            results = await shoal.crawl(spider)
    assert results.items == [{"url": server.url("/new")}]
    assert results.view.job.counters.merged == 1


async def test_a_cookie_wall_lets_in_who_comes_back_with_the_cookie() -> None:
    async def wall(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"seen=1" in head:
            writer.write(page(b"inside"))
        else:
            writer.write(redirect("/", Set_Cookie="seen=1; Path=/"))

    async with serve(wall) as server:
        results = await crawl(server.url("/"))
        assert [item["url"] for item in results] == [server.url("/")]
        assert len(server.paths) == 2
        without = await crawl(server.url("/"), cookies=False, max_redirects=3)
    assert without.view.report.errors == {"redirect_loop": 1}


async def test_a_post_that_is_redirected_becomes_a_get() -> None:
    async with serve(by_path({"/form": redirect("/thanks"), "/thanks": page(b"ok")})) as server:
        await crawl([Request(server.url("/form"), method="POST", headers={"Content-Type": "text/plain"})])
    assert [head.split(b" ")[0] for head in server.hits] == [b"POST", b"GET"]
    assert b"content-type" not in server.hits[1].lower()


# -- to other places


async def test_another_host_is_asked_through_its_own_queue_and_robots_txt() -> None:
    arrivals: list[float] = []

    async def target(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(page(b"", "404 Not Found") if b"/robots.txt" in head else page(b"here"))

    async with serve(noting(arrivals, target), host="127.0.0.3") as there:
        ways = {f"/{n}": redirect(there.url(f"/{n}")) for n in range(4)}
        async with serve(by_path(ways), host="127.0.0.2") as here:
            starts: list[str | Request] = [here.url(f"/{n}") for n in range(4)]
            with Lateness() as late:
                results = await crawl(starts, rate=2, per_host=4, robots=True, allow_network=LOOPBACK)
    assert sorted(item["url"] for item in results) == [there.url(f"/{n}") for n in range(4)]
    assert there.paths[0] == "/robots.txt"
    assert min(b - a for a, b in pairwise(arrivals)) >= 1 / 2 - TOLERANCE - late.seconds


async def test_a_link_that_redirects_out_of_the_crawl_is_not_followed(tmp_path: Path) -> None:
    def listing(page: Page) -> list[Request]:
        return page.follow_all("a")

    async with serve(by_path({}), host="127.0.0.3") as there:
        start = page(b'<a href="/away">away</a>', Content_Type="text/html")
        async with serve(by_path({"/": start, "/away": redirect(there.url("/"))}), host="127.0.0.2") as here:
            spider = Spider("stay", here.url("/"), rate=0, robots=False, allow_network=LOOPBACK)
            spider.add_handler(listing)
            await shoal.crawl(spider, store=tmp_path / "store.db")
    assert there.hits == []
    [letter] = await letters(tmp_path / "store.db")
    assert (letter.kind, letter.task.url) == ("policy", here.url("/away"))


async def test_a_private_address_is_not_reached_by_redirect(tmp_path: Path) -> None:
    """What the user typed may be private; where a server sends us may not."""
    async with (
        serve(by_path({}), host="127.0.0.3") as inside,
        serve(by_path({"/": redirect(inside.url("/"))}), host="127.0.0.2") as here,
    ):
        await crawl(here.url("/"), tmp_path / "store.db")
    assert inside.connections == 0
    assert [letter.kind for letter in await letters(tmp_path / "store.db")] == ["forbidden_address"]


async def test_another_scheme_is_followed(tmp_path: Path) -> None:
    """The server's certificate is its own, so the way ends there; but it was taken."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTS / "elsewhere.pem", CERTS / "elsewhere.key")
    async with (
        serve(by_path({}), host="127.0.0.3", tls=tls) as there,
        serve(by_path({"/": redirect(there.url("/"))}), host="127.0.0.2") as here,
    ):
        await crawl(here.url("/"), tmp_path / "store.db", allow_network=LOOPBACK)
    [letter] = await letters(tmp_path / "store.db")
    assert (letter.kind, letter.task.url) == ("tls", there.url("/"))
    assert letter.task.hops == (here.url("/"),)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:alert(1)"])
async def test_a_scheme_that_is_not_the_webs_is_refused(location: str, tmp_path: Path) -> None:
    async with serve(by_path({"/": redirect(location)})) as server:
        await crawl(server.url("/"), tmp_path / "store.db")
    [letter] = await letters(tmp_path / "store.db")
    assert letter.kind == "policy"
    assert letter.task.history[-1].detail.endswith(": scheme")


# -- secrets


def authorization(server: RawServer) -> Callable[[str], bool]:
    sent = {
        head.split(b" ")[1].decode(): b"authorization: bearer s3cret" in head.lower() for head in server.hits
    }
    return sent.__getitem__


async def test_authorization_stays_with_the_origin_it_was_meant_for() -> None:
    async with serve(by_path({"/there": page(b"here")}), host="127.0.0.3") as there:
        ways = {"/start": redirect("/next"), "/next": redirect(there.url("/there"))}
        async with serve(by_path(ways), host="127.0.0.2") as here:
            start = Request(here.url("/start"), headers={"Authorization": "Bearer s3cret", "X-Kept": "yes"})
            await crawl([start], allow_network=LOOPBACK)
    assert authorization(here)("/start")
    assert authorization(here)("/next")
    assert not authorization(there)("/there")
    assert b"x-kept: yes" in there.hits[0].lower()
