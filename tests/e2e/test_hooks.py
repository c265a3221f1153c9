"""Hooks on the path of a page: each kind, what it may say, and what goes wrong in it."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web

import shoal
from shoal import Drop, OutgoingRequest, Page, Request, Retry, Spider
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.inspect.single_page import look
from shoal.model import DeadLetter
from shoal.runtime.results import Results
from shoal.settings import Settings


class Site:
    """Answers with the path; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[web.BaseRequest] = []
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(request)
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/there?x=1"})
        return web.Response(text=f"<h1>{request.path}</h1><a href='next'>", content_type="text/html")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


def make(site: Site, *paths: str, **settings: Any) -> Spider:
    starts = [site.url + path for path in paths]
    return Spider(
        "s", starts, **{"rate": 0, "robots": False, "retry_base": 0.01, "max_attempts": 3} | settings
    )


def with_row(spider: Spider) -> Spider:
    @spider.handler
    def row(page: Page) -> Iterator[object]:
        yield {"url": page.url, "title": page.text("h1")}

    return spider


async def letters(store: Path) -> list[DeadLetter]:
    async with open_frontier(str(store)) as frontier:
        return list(await frontier.dead(DeadFilter()))


async def run(spider: Spider, store: Path, **settings: Any) -> Results:
    return await shoal.crawl(spider, store=str(store), **settings)


async def test_before_request_signs_every_sending(site: Site, tmp_path: Path) -> None:
    spider = with_row(make(site, "/moved", "/again"))
    attempts: list[tuple[str, int]] = []

    @spider.before_request
    async def sign(request: OutgoingRequest) -> None:
        await asyncio.sleep(0)
        attempts.append((request.url.removeprefix(site.url), request.attempt))
        request.headers["x-signature"] = hashlib.sha256(request.url.encode()).hexdigest()
        request.headers["X-Signature"] = "the last one wins"
        request.url += "&sig=secret" if "?" in request.url else "?sig=secret"

    @spider.after_response
    def again(page: Page) -> None:
        if page.url.endswith("/again") and page.task.attempt < 3:
            raise Retry("not yet", after=0)

    results = await run(spider, tmp_path / "s.db")
    assert sorted(attempts) == [("/again", 1), ("/again", 2), ("/again", 3), ("/moved", 1), ("/there?x=1", 1)]
    assert all(asked.query["sig"] == "secret" for asked in site.asked)
    assert {tuple(asked.headers.getall("X-Signature")) for asked in site.asked} == {("the last one wins",)}
    # What is for the server alone reaches no row and no store.
    assert sorted(row["url"] for row in results) == [site.url + "/again", site.url + "/there?x=1"]
    assert b"sig=secret" not in (tmp_path / "s.db").read_bytes()


async def test_a_request_may_be_dropped_and_asked_for_later(site: Site, tmp_path: Path) -> None:
    spider = with_row(make(site, "/no", "/later", "/never"))

    @spider.before_request
    def choose(request: OutgoingRequest) -> None:
        if request.url.endswith("/no"):
            raise Drop("not today")
        if request.url.endswith("/never") or (request.url.endswith("/later") and request.attempt == 1):
            raise Retry("no token yet", after=0.01)

    results = await run(spider, tmp_path / "s.db")
    assert [asked.path for asked in site.asked] == ["/later"]
    assert [row["title"] for row in results] == ["/later"]
    assert results.view.job.counts == {"pages dropped: not today": 1}
    [letter] = await letters(tmp_path / "s.db")
    assert (letter.kind, letter.task.history[-1].detail) == ("retry_asked", "no token yet")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda request: setattr(request, "url", "http://other.example/"),
            "it changed the origin to that of",
        ),
        (lambda request: setattr(request, "url", "nonsense"), "not a URL"),
        (
            lambda request: setattr(request, "url", request.url.replace("//", "//a:b@")),
            "header Authorization",
        ),
        (lambda request: request.meta.update(x=1), "AttributeError"),
        (lambda request: setattr(request, "body", "text"), "set body to a str; give bytes"),
        (lambda request: request.headers.update({"X-Number": 1}), "header 'X-Number' to a int"),
        (lambda request: setattr(request, "pool", "gold"), "no pool 'gold'"),
        (lambda request: setattr(request, "attempt", 1), "AttributeError"),
        (lambda request: {"url": "x"}, "it returned a dict; change the request itself"),
    ],
)
async def test_a_request_that_cannot_be_sent_names_the_hook(
    site: Site, tmp_path: Path, change: Callable[[OutgoingRequest], object], said: str
) -> None:
    spider = with_row(make(site, "/"))
    spider.add_hook("before_request", change)
    await run(spider, tmp_path / "s.db")
    [letter] = await letters(tmp_path / "s.db")
    assert letter.kind == "hook"
    assert said in letter.task.history[-1].detail
    assert site.asked == []


async def test_robots_is_asked_about_a_changed_url(site: Site, tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        site.asked.append(request)
        return web.Response(text="User-agent: *\nDisallow: /private" if request.path == "/robots.txt" else "")

    site.answer = answer  # type: ignore[method-assign]
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    spider = with_row(make(site, "/open", robots=True))

    @spider.before_request
    def elsewhere(request: OutgoingRequest) -> None:
        request.url = site.url + "/private"

    try:
        await run(spider, tmp_path / "s.db")
    finally:
        await runner.cleanup()
    assert [asked.path for asked in site.asked] == ["/robots.txt"]
    assert [letter.kind for letter in await letters(tmp_path / "s.db")] == ["robots"]


async def test_after_response_rewrites_drops_and_asks_again(site: Site, tmp_path: Path) -> None:
    spider = with_row(make(site, "/a", "/b", "/c"))

    @spider.after_response
    async def rewrite(page: Page) -> Page | None:
        await asyncio.sleep(0)
        if page.url.endswith("/b"):
            raise Drop("b is not wanted")
        if page.url.endswith("/c"):
            return None
        return page.replace(body=page.html.replace("/a", "ä"))

    results = await run(spider, tmp_path / "s.db")
    assert sorted(row["title"] for row in results) == ["/c", "ä"]
    assert results.view.job.counts == {"pages dropped: b is not wanted": 1}


async def test_items_are_cleaned_split_enriched_and_dropped(site: Site, tmp_path: Path) -> None:
    spider = make(site, "/shop")
    order: list[str] = []

    @spider.handler
    def shop(page: Page) -> Iterator[object]:
        yield {"sku": " 1 ", "price": "3"}
        yield {"sku": "2", "price": ""}
        yield {"sku": "3", "sizes": ["s", "m"]}
        yield page.follow("/other", other)

    @spider.handler
    def other(page: Page) -> Iterator[object]:
        yield {"other": 1}

    @spider.on_item(order=10)
    async def enrich(item: dict[str, Any], page: Page) -> dict[str, Any]:
        order.append("enrich")
        await asyncio.sleep(0)
        return {**item, "currency": "EUR"}

    @spider.on_item(handler=shop)
    def clean(item: dict[str, Any], page: Page) -> None:
        order.append("clean")
        item["sku"] = item["sku"].strip()
        if item.get("price") == "":
            raise Drop("no price")

    @spider.on_item(handler=["shop"])
    def split(item: dict[str, Any], page: Page) -> Iterator[dict[str, Any]]:
        order.append("split")
        for size in item.pop("sizes", [None]):
            yield {**item, "size": size} if size else item

    results = await run(spider, tmp_path / "s.db")
    assert list(results) == [
        {"sku": "1", "price": "3", "currency": "EUR"},
        {"sku": "3", "size": "s", "currency": "EUR"},
        {"sku": "3", "size": "m", "currency": "EUR"},
        {"other": 1, "currency": "EUR"},
    ]
    assert order[:3] == ["clean", "split", "enrich"]
    assert results.view.job.counts == {"dropped: no price": 1}


def raises(*_: object) -> None:
    raise ValueError("no good")


def leaves(*_: object) -> None:
    sys.exit("no good")


async def raises_later(*_: object) -> None:
    await asyncio.sleep(0)
    raise ValueError("no good")


async def hangs(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("kind", ["before_request", "after_response", "on_item"])
@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (raises, "ValueError: no good"),
        (raises_later, "ValueError: no good"),
        (leaves, "SystemExit: no good"),
        (hangs, "did not finish in its time (setting handler_timeout)"),
        (lambda *_: "text", "it returned a str"),
        (lambda *_: Request("http://shop.test/"), "it returned a Request"),
    ],
)
async def test_what_goes_wrong_in_a_hook_is_a_dead_letter_that_names_it(
    site: Site, tmp_path: Path, kind: Any, hook: Callable[..., Any], said: str
) -> None:
    spider = with_row(make(site, "/", handler_timeout=0.2 if hook is hangs else 60))
    spider.add_hook(kind, hook)
    results = await run(spider, tmp_path / "s.db")
    assert len(results) == 0
    [letter] = await letters(tmp_path / "s.db")
    detail = letter.task.history[-1].detail
    assert letter.kind == "hook"
    assert detail.startswith(f"{kind} hook {hook.__name__} (")
    assert "test_hooks.py:" in detail
    assert said in detail
    assert len(site.asked) == (0 if kind == "before_request" else 1)
    assert letter.snapshot is not None
    assert ("no good" in letter.snapshot.traceback) == ("no good" in said)


async def test_a_request_of_an_item_hook_is_no_row(site: Site, tmp_path: Path) -> None:
    spider = make(site, "/")

    @spider.handler
    def one(page: Page) -> object:
        return {"a": 1}

    @spider.on_item
    def more(item: object, page: Page) -> object:
        return [item, Request("/more")]

    assert len(await run(spider, tmp_path / "s.db")) == 0
    [letter] = await letters(tmp_path / "s.db")
    assert "among its items is a Request" in letter.task.history[-1].detail


async def test_a_hook_that_blocks_is_told_after_it(site: Site, tmp_path: Path) -> None:
    spider = make(site, "/", handler_timeout=0.05)

    @spider.handler
    def several(page: Page) -> list[object]:
        return [{"a": n} for n in range(8)]  # a few times it is forgiven, if the machine is that late

    @spider.on_item
    def slow(item: object, page: Page) -> None:
        time.sleep(0.1)

    await run(spider, tmp_path / "s.db")
    [letter] = await letters(tmp_path / "s.db")
    assert letter.kind == "hook"
    assert "longer than handler_timeout" in letter.task.history[-1].detail


async def test_a_hook_that_never_returns_is_interrupted(site: Site, tmp_path: Path) -> None:
    spider = with_row(make(site, "/a", "/b", handler_timeout=0.4, handler_warn=0.1))

    @spider.on_item
    def endless(item: dict[str, Any], page: Page) -> None:
        while page.url.endswith("/a"):
            pass

    results = await run(spider, tmp_path / "s.db")
    assert [row["title"] for row in results] == ["/b"]
    [letter] = await letters(tmp_path / "s.db")
    assert letter.kind == "hook"
    assert "on_item hook endless (" in letter.task.history[-1].detail
    assert "did not finish in its time" in letter.task.history[-1].detail


class Fetching:
    """A plugin, for `shoal fetch`."""

    told: list[str] = []  # noqa: RUF012

    def on_process_start(self) -> None:
        self.told.append("start")

    def on_process_end(self) -> None:
        self.told.append("end")

    def before_request(self, request: OutgoingRequest) -> None:
        request.headers["X-Key"] = "k"
        if "/no" in request.url:
            raise Drop("not wanted")

    def after_response(self, page: Page) -> Page:
        if "/later" in page.url:
            raise Retry("not yet")
        return page.replace(body="<title>changed</title>")


@pytest.mark.parametrize(
    ("path", "kind"), [("/page", "ok"), ("/moved", "ok"), ("/no", "dropped"), ("/later", "retry_asked")]
)
async def test_shoal_fetch_runs_the_hooks_of_plugins(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    module = ModuleType("fetching_plugin")
    module.Fetching = Fetching  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    Fetching.told.clear()
    report = await look(site.url + path, Settings(robots=False, plugins=["fetching_plugin:Fetching"]))
    assert report.kind == kind
    assert all(asked.headers["X-Key"] == "k" for asked in site.asked)
    assert len(site.asked) == {"/moved": 2, "/no": 0}.get(path, 1)
    assert report.title == ("changed" if kind == "ok" else "")
    assert Fetching.told == ["start", "end"]


async def test_a_hook_may_fetch_and_what_fails_there_is_told_as_a_fetch(site: Site, tmp_path: Path) -> None:
    spider = with_row(make(site, "/a", "/b"))

    @spider.on_item
    async def enrich(item: dict[str, Any], page: Page) -> dict[str, Any]:
        more = await page.fetch("/more" if page.url.endswith("/a") else "http://127.0.0.1:1/", max_attempts=1)
        return {**item, "more": more.text("h1")}

    results = await run(spider, tmp_path / "s.db", max_attempts=1)
    assert [row["more"] for row in results] == ["/more"]
    [letter] = await letters(tmp_path / "s.db")
    assert letter.kind == "forbidden_address", "the guard holds there, too"
