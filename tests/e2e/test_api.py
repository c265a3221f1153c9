"""Crawls from code: the public names, and what they promise."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import shoal
from integration.raw_server import RawServer, by_path, page, serve
from shoal import Page, Request, Results, ShoalError, Spider
from shoal.errors import SpiderError
from shoal.frontier.sqlite import SqliteFrontier
from shoal.inspect.job import View
from shoal.testing import ChaoticWeb, HostProfile, WebProcess

DEADLINE = 20


def html(body: str) -> bytes:
    return page(body.encode(), Content_Type="text/html; charset=utf-8")


def links(*hrefs: str) -> bytes:
    return html("".join(f'<a href="{href}">x</a>' for href in hrefs))


def spider_of(start: object, function: object, **settings: object) -> Spider:
    spider = Spider("api", start, **{"rate": 0, "robots": False, **settings})  # type: ignore[arg-type]
    spider.add_handler(function, name="page")  # type: ignore[arg-type]
    return spider


def url_only(page: Page) -> dict[str, str]:
    return {"url": page.url}


def url_and_links(page: Page) -> Iterator[object]:
    yield {"url": page.url, "depth": page.depth}
    yield from page.follow_all("a")


def paths(results: Results) -> list[str]:
    return [item["url"].split("/", 3)[3] for item in results]


# -- names


def test_the_public_names() -> None:
    names = ["Additions", "Drop", "Feed", "FetchFailed", "JobSummary", "LoginFailed", "LoginSession"]
    names += [
        "OutgoingRequest",
        "Page",
        "Plugin",
        "Request",
        "Results",
        "Retry",
        "Secret",
        "ShoalError",
        "Sitemap",
        "Spider",
        "Table",
        "__version__",
        "add",
        "crawl",
        "run",
    ]
    assert shoal.__all__ == names
    assert all(getattr(shoal, name) for name in names)
    with pytest.raises(AttributeError, match="no attribute 'Crawler'"):
        shoal.Crawler  # noqa: B018


def test_a_public_name_is_the_same_however_often_it_is_looked_up() -> None:
    """A module of the same name would take its place once it is imported."""
    for name in shoal.__all__:
        assert getattr(shoal, name) is getattr(shoal, name)
    assert callable(shoal.run)
    assert callable(shoal.crawl)


# -- results


def test_run_gives_the_items_to_a_program_without_a_loop() -> None:
    with WebProcess({"site": HostProfile(pages=10)}) as web:
        results = shoal.run(spider_of(web.url("site"), url_and_links))
        again = shoal.run(spider_of(web.url("site"), url_only))
        pages = web.pages_of("site")
    assert {item["url"] for item in results} == pages
    assert len(results) == len(results.items) == 10
    assert results.view.job.state == "finished"
    assert len(again) == 1, "nothing is left of the first crawl"


def test_a_traceback_of_run_begins_with_the_error_of_the_handler(caplog: pytest.LogCaptureFixture) -> None:
    def broken(page: Page) -> object:
        raise ValueError("no such shelf")

    with WebProcess({"site": HostProfile(pages=1)}) as web:
        results = shoal.run(spider_of(web.url("site"), broken))
    assert [page.reason for page in results.dead] == ["ValueError: no such shelf"]
    assert "no such shelf" in caplog.text
    assert "During handling of" not in caplog.text


async def test_run_in_a_running_loop_says_what_to_do() -> None:
    with pytest.raises(ShoalError, match=r"write results = await shoal.crawl\(spider, …\) there"):
        shoal.run(spider_of("http://127.0.0.1:1/", url_only))


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    yield InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    InteractiveShell.clear_instance()


def test_run_works_in_a_cell_of_a_notebook(notebook: InteractiveShell) -> None:
    """There a loop runs already, in the thread of the cell."""
    with WebProcess({"site": HostProfile(pages=3)}) as web:
        notebook.user_ns["spider"] = spider_of(web.url("site"), url_and_links)

        async def cell() -> Results:
            notebook.run_cell("import shoal\nresults = shoal.run(spider)").raise_error()
            found = notebook.user_ns["results"]
            assert isinstance(found, Results)
            return found

        results = asyncio.run(cell())
        pages = web.pages_of("site")
    assert {item["url"] for item in results} == pages


def test_a_cell_that_is_interrupted_ends_its_crawl(notebook: InteractiveShell) -> None:
    ended: list[str] = []

    def slow(page: Page) -> None: ...

    with WebProcess({"site": HostProfile("slow", pages=3, latency=60)}) as web:
        spider = spider_of(web.url("site"), slow)

        async def cell() -> None:
            def interrupt(view: View) -> None:
                if not ended and view.report.in_flight:
                    ended.append(threading.current_thread().name)
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

            before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as Jupyter does for a cell
            with pytest.raises(KeyboardInterrupt):
                shoal.run(spider, watch=interrupt)
            signal.signal(signal.SIGINT, before)

        asyncio.run(cell())
    assert ended == ["shoal-run"]
    assert "shoal-run" not in [thread.name for thread in threading.enumerate()]


async def test_results_have_what_was_given_up_and_what_was_rejected() -> None:
    spider = Spider("some", rate=0, robots=False, max_attempts=1)

    @spider.handler(key="sku")
    def product(page: Page) -> dict[str, str]:
        return {"url": page.url}

    async with serve(by_path({"/a": page(b"x")})) as server:
        spider.start = [server.url("/a"), server.url("/gone")]
        results = await shoal.crawl(spider)
        gone = server.url("/gone")
    assert [(one.url, one.kind, one.handler, one.attempts) for one in results.dead] == [
        (gone, "http_404", "product", 1)
    ]
    assert [one.item["url"].endswith("/a") for one in results.rejected] == [True]
    assert repr(results) == "<some finished: 0 items from 1 page, 1 dead page, 1 rejected item>"


def test_names_are_completed() -> None:
    assert set(shoal.__all__) <= set(dir(shoal))
    assert shoal.testing.page
    assert shoal.extend.__all__


async def test_items_may_be_dicts_dataclasses_or_structs() -> None:
    @dataclass
    class Book:
        title: str
        pages: int

    class Author(msgspec.Struct):
        name: str

    def three(page: Page) -> Iterator[object]:
        yield {"plain": True}
        yield Book("Tides", 12)
        yield Author("Ada")

    async with serve(by_path({"/": page(b"x")})) as server:
        results = await shoal.crawl(spider_of(server.url("/"), three))
    assert results.items == [{"plain": True}, {"title": "Tides", "pages": 12}, {"name": "Ada"}]


async def test_handlers_may_be_any_kind_of_function() -> None:
    spider = Spider("kinds", rate=0, robots=False)

    @spider.handler
    def plain(page: Page) -> dict[str, str]:
        return {"by": "plain"}

    @spider.handler
    async def awaited(page: Page) -> list[dict[str, str]]:
        await asyncio.sleep(0)
        return [{"by": "awaited"}]

    @spider.handler
    def generator(page: Page) -> Iterator[dict[str, str]]:
        yield {"by": "generator"}

    @spider.handler
    async def async_generator(page: Page) -> AsyncIterator[dict[str, str]]:
        await asyncio.sleep(0)
        yield {"by": "async_generator"}

    async with serve(by_path({f"/{name}": page(b"x") for name in spider.handlers})) as server:
        spider.start = [Request(server.url(f"/{name}"), handler=name) for name in spider.handlers]
        results = await shoal.crawl(spider)
    assert {item["by"] for item in results} == {"plain", "awaited", "generator", "async_generator"}


async def test_an_item_with_a_key_is_written_once() -> None:
    spider = Spider("keyed", rate=0, robots=False)

    @spider.handler(key="sku")
    def product(page: Page) -> dict[str, object]:
        return {"sku": "A1" if "same" in page.url else page.url[-1], "price": 3}

    async with serve(by_path({f"/{n}": page(b"x") for n in ("same-1", "same-2", "b")})) as server:
        spider.start = [server.url("/same-1"), server.url("/same-2"), server.url("/b")]
        results = await shoal.crawl(spider)
    assert sorted(item["sku"] for item in results) == ["A1", "b"]
    assert results.view.job.counters.items == 2


async def test_meta_travels_with_a_request() -> None:
    def detail(page: Page) -> Iterator[object]:
        if page.meta:
            yield page.meta
        else:
            yield page.follow("/detail", meta={"from": "listing", "n": 3})

    async with serve(by_path({"/": links(), "/detail": page(b"x")})) as server:
        results = await shoal.crawl(spider_of(server.url("/"), detail))
    assert results.items == [{"from": "listing", "n": 3}]


# -- store and output


async def test_a_crawl_with_a_store_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store, output = tmp_path / "store.db", tmp_path / "rows.jsonl"
    async with ChaoticWeb({"site": HostProfile(pages=12)}) as web:
        spider = spider_of(web.url("site"), url_and_links)
        first = await shoal.crawl(spider, store=store, output=output, max_pages=5)
        assert (first.items, first.view.job.counters.done) == ([], 5)
        second = await shoal.crawl(spider, store=store, output=output)
        third = await shoal.crawl(spider, store=store, output=output)
        hits = [hit.path for hit in web.hits()]
        pages = web.pages_of("site")
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert sorted(row["url"] for row in rows) == sorted(pages)
    assert second.view.job.counters.done == 12
    assert third.view.note == "already finished"
    assert len(hits) == len(set(hits)) == 12


async def test_fresh_starts_again(tmp_path: Path) -> None:
    store, output = tmp_path / "store.db", tmp_path / "rows.jsonl"
    async with ChaoticWeb({"site": HostProfile(pages=4)}) as web:
        for _ in range(2):
            spider = spider_of(web.url("site"), url_and_links)
            await shoal.crawl(spider, store=store, output=output, fresh=True)
        assert len(web.hits()) == 8
    assert len(output.read_text().splitlines()) == 4


async def test_jobs_of_one_store_do_not_meet(tmp_path: Path) -> None:
    async with serve(by_path({"/": page(b"x")})) as server:
        spider = spider_of(server.url("/"), url_only)
        one = await shoal.crawl(spider, store=tmp_path / "store.db", job="one")
        two = await shoal.crawl(spider, store=tmp_path / "store.db", job="two")
    assert len(one) == len(two) == 1


async def test_settings_given_to_crawl_win_over_the_spiders() -> None:
    async with serve(by_path({"/": page(b"x")})) as server:
        spider = spider_of(server.url("/"), url_only, user_agent="Mine/1.0")
        await shoal.crawl(spider, user_agent="Theirs/2.0")
        with pytest.raises(ShoalError, match="processes"):
            await shoal.crawl(spider, processes=2)
        with pytest.raises(
            ShoalError, match=r"^shoal.crawl\(\): 'rat' is not a setting; did you mean 'rate'\?"
        ):
            await shoal.crawl(spider, rat=1)
    assert b"User-Agent: Theirs/2.0" in server.hits[0]


# -- how far


async def test_paginate_follows_next_links_and_numbers() -> None:
    answers = {
        "/list": html('<span class="pages">3</span>'),
        "/list?page=2": page(b"x"),
        "/list?page=3": page(b"x"),
        "/1": html('<li class="next"><a href="/2">next</a></li>'),
        "/2": html("the end"),
    }

    def listing(page: Page) -> Iterator[object]:
        yield {"url": page.url, "depth": page.depth}
        yield from page.paginate("li.next a")
        if page.url.endswith("/list"):
            yield from page.paginate(param="page", total="span.pages")

    async with serve(by_path(answers)) as server:
        starts = [server.url("/list"), server.url("/1")]
        results = await shoal.crawl(spider_of(starts, listing, depth=0))
    assert sorted(paths(results)) == ["1", "2", "list", "list?page=2", "list?page=3"]
    assert {item["depth"] for item in results} == {0}


@pytest.mark.parametrize(("depth", "reached"), [(0, 1), (1, 2), (2, 3), (None, 4)])
async def test_depth_counts_links_from_the_start(depth: int | None, reached: int) -> None:
    answers = {"/0": links("/1"), "/1": links("/2"), "/2": links("/3"), "/3": links("/0")}
    async with serve(by_path(answers)) as server:
        results = await shoal.crawl(spider_of(server.url("/0"), url_and_links, depth=depth))
    assert paths(results) == [str(n) for n in range(reached)]


@pytest.mark.parametrize("budget", [1, 7, 23])
async def test_the_page_budget_is_exact(budget: int) -> None:
    async with ChaoticWeb({"site": HostProfile(pages=60)}) as web:
        spider = spider_of(web.url("site"), url_and_links, max_pages=budget, per_host=16)
        results = await shoal.crawl(spider)
        hits = len(web.hits())
    assert len(results) == results.view.job.counters.done == hits == budget


async def test_the_budget_of_a_host_is_exact() -> None:
    async with ChaoticWeb([HostProfile(pages=30), HostProfile(pages=30)]) as web:
        spider = spider_of(web.start_urls, url_and_links, max_pages_per_host=9)
        results = await shoal.crawl(spider)
    assert len(results) == 18


async def test_statuses_that_are_asked_for_reach_the_handler() -> None:
    def status(page: Page) -> dict[str, int]:
        return {"status": page.status}

    async with serve(by_path({})) as server:
        asked = await shoal.crawl(spider_of(server.url("/x"), status, handle_status=[404]))
        not_asked = await shoal.crawl(spider_of(server.url("/x"), status))
    assert asked.items == [{"status": 404}]
    assert not_asked.items == []
    assert not_asked.view.report.errors == {"http_404": 1}


# -- in what order


def pages_of(server: RawServer) -> list[str]:
    return [path for path in server.paths if path != "/"]


async def crawl_in_order(requests: Sequence[Request], **settings: object) -> list[str]:
    """The order in which a host's requests arrive when one runs at a time."""

    def listing(page: Page) -> Iterator[Request]:
        if page.depth == 0:
            yield from requests

    async with serve(by_path({}, missing=page(b"x"))) as server:
        await shoal.crawl(spider_of(server.url("/"), listing, concurrency=1, per_host=1, **settings))
        return pages_of(server)


async def test_lanes_go_by_urgency() -> None:
    lanes = ("discovery", "normal", "urgent")
    order = await crawl_in_order([Request(f"/{lane}", lane=lane) for lane in lanes])
    assert order == ["/urgent", "/normal", "/discovery"]


async def test_higher_priority_first_then_first_come_first_served() -> None:
    wanted = [("/a", 0), ("/b", 5), ("/c", -1), ("/d", 5)]
    order = await crawl_in_order([Request(path, priority=priority) for path, priority in wanted])
    assert order == ["/b", "/d", "/a", "/c"]


async def test_a_handlers_lane_and_priority_are_those_of_its_pages() -> None:
    spider = Spider("lanes", rate=0, robots=False, concurrency=1, per_host=1)

    @spider.handler
    def listing(page: Page) -> Iterator[Request]:
        yield page.follow("/later", later)
        yield page.follow("/sooner", sooner)
        yield page.follow("/first", first)

    @spider.handler(priority=3)
    def sooner(page: Page) -> None: ...

    @spider.handler
    def later(page: Page) -> None: ...

    @spider.handler(lane="urgent")
    def first(page: Page) -> None: ...

    async with serve(by_path({}, missing=page(b"x"))) as server:
        spider.start = server.url("/")
        await shoal.crawl(spider)
    assert pages_of(server) == ["/first", "/sooner", "/later"]


# -- start


async def test_start_may_be_a_file(tmp_path: Path) -> None:
    async with serve(by_path({}, missing=page(b"x"))) as server:
        file = tmp_path / "urls.txt"
        file.write_text(f"# ours\n{server.url('/1')}\n\nnot a url\n{server.url('/2')}\n")
        results = await shoal.crawl(spider_of(file, url_only), trust_start=True)
    assert sorted(paths(results)) == ["1", "2"]
    assert results.view.report.refused == {"not a URL": 1}


async def test_an_async_generator_is_read_only_as_far_as_the_queue_has_room() -> None:
    """Endless, so that only backpressure can stop it; the crawl ends by its page budget."""
    given = 0

    async with serve(by_path({}, missing=page(b"x"))) as server:

        async def urls() -> AsyncIterator[str]:
            nonlocal given
            while True:
                given += 1
                yield server.url(f"/{given}")
                if given % 100 == 0:
                    await asyncio.sleep(0)

        spider = spider_of(urls, url_only, trust_start=True, high_water=200, max_pages=50, per_host=8)
        async with asyncio.timeout(DEADLINE):
            results = await shoal.crawl(spider)
    assert len(results) == 50
    assert given <= 1_000, "drained far ahead of the queue"


async def test_a_slow_source_is_crawled_as_it_comes() -> None:
    handled = asyncio.Event()

    def note(page: Page) -> dict[str, str]:
        handled.set()
        return {"url": page.url}

    async with serve(by_path({}, missing=page(b"x"))) as server:

        async def urls() -> AsyncIterator[str]:
            yield server.url("/1")
            async with asyncio.timeout(DEADLINE):
                await handled.wait()  # the first page is done before the second URL is known
            yield server.url("/2")

        results = await shoal.crawl(spider_of(urls, note), trust_start=True)
    assert paths(results) == ["1", "2"]


async def test_a_source_that_fails_ends_the_crawl_with_its_error() -> None:
    async def urls() -> AsyncIterator[str]:
        yield "http://127.0.0.1:9/"
        raise RuntimeError("the database went away")

    said = r"test_api\.py:\d+: the start of spider 'api' failed after start request 1: RuntimeError: the database"
    with pytest.raises(SpiderError, match=said) as told:
        async with asyncio.timeout(DEADLINE):
            await shoal.crawl(spider_of(urls, url_only, grace=0, retry_base=30))
    assert isinstance(told.value.__cause__, RuntimeError)


async def test_watch_is_shown_the_crawl() -> None:
    views = []
    async with ChaoticWeb({"site": HostProfile("slow", latency=0.3, pages=3)}) as web:
        await shoal.crawl(spider_of(web.url("site"), url_and_links), watch=views.append)
    assert views
    assert views[-1].job.spec.name == "api"


async def test_a_cancelled_crawl_hands_everything_back(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    arrived = asyncio.Event()

    async def hang(head: bytes, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with serve(hang) as server:
        spider = spider_of(server.url("/"), url_only)
        crawling = asyncio.create_task(shoal.crawl(spider, store=store))
        async with asyncio.timeout(DEADLINE):
            await arrived.wait()
        crawling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await crawling
    async with SqliteFrontier(store) as frontier:
        job = await frontier.job("api")
    assert job is not None
    assert (job.counters.pending, job.counters.leased) == (1, 0)
