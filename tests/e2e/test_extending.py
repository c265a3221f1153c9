"""docs/extending.md: its snippets, put to work against a real server."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import shoal
import shoal.extend
from shoal import Page, Spider
from shoal.errors import SettingsError, SinkError, UsageError
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.testing import ChaoticWeb, HostProfile

DOC = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")


@pytest.fixture(scope="module")
def snippets() -> Iterator[ModuleType]:
    module = ModuleType("extending_snippets")
    sys.modules[module.__name__] = module
    for code in re.findall(r"```python\n(.+?)```", DOC, re.DOTALL):
        exec(compile(code, "extending.md", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


@pytest.fixture
async def web() -> AsyncIterator[ChaoticWeb]:
    async with ChaoticWeb({"site": HostProfile(pages=6, links=3)}) as web:
        yield web


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(start: Any, **settings: Any) -> Spider:
    spider = Spider("s", start, **{"rate": 0, "retry_base": 0.01, "trust_start": True} | settings)

    @spider.handler(key="url")
    def row(page: Page) -> Iterator[object]:
        yield {"url": page.url}
        yield from page.follow_all("a")

    return spider


def test_every_name_is_there() -> None:
    for name in shoal.extend.__all__:
        assert getattr(shoal.extend, name) is not None
    imported = re.findall(r"from shoal\.extend import (.+)", DOC)
    assert {name for line in imported for name in line.split(", ")} <= set(shoal.extend.__all__)


async def test_a_policy_is_taken(web: ChaoticWeb, snippets: ModuleType) -> None:
    policies = ["rate", "extending_snippets:Courteous"]
    results = await shoal.crawl(make(web.url("site"), policies=policies))
    assert len(results) == len(web.pages_of("site"))
    busy = snippets.Courteous(None).observe(
        snippets.Busy(), shoal.extend.Observation(started=1.0, ended=2.0, kind="http_503")
    )
    assert snippets.Courteous(None).limits(busy, 3.0).blocked_until == 62.0


async def test_a_check_says_what_is_not_the_page(web: ChaoticWeb, snippets: ModuleType) -> None:
    snippets.is_everything = lambda response: "login_wall"
    spider = make(web.url("site"), challenge_check="extending_snippets:is_everything", challenge_delay=0.01)
    results = await shoal.crawl(spider)
    assert len(results) == 0
    assert snippets.is_queue(shoal.extend.Response("u", 200, {}, b"<p>You are in the queue")) == "rate_wall"


async def test_a_source_is_read(web: ChaoticWeb, snippets: ModuleType) -> None:
    with sqlite3.connect("products.db") as database:
        database.execute("create table watched (sku text, url text)")
        urls = sorted(web.pages_of("site"))
        database.executemany("insert into watched values (?, ?)", enumerate(urls))
    database.close()
    spider = make(snippets.watched, depth=0)
    results = await shoal.crawl(spider)
    assert sorted(row["url"] for row in results) == urls


async def test_a_sink_gets_every_row_once(web: ChaoticWeb, snippets: ModuleType) -> None:
    for _ in range(2):  # written again, nothing changes
        results = await shoal.crawl(make(web.url("site")), output=snippets.Products())
        assert len(results) == 0
    database = sqlite3.connect("rows.db")
    rows = [msgspec.json.decode(data) for [data] in database.execute("select data from row")]
    database.close()
    assert sorted(row["url"] for row in rows) == sorted(web.pages_of("site"))


@pytest.mark.parametrize("verb", ["open", "write", "close"])
async def test_a_sink_that_fails_stops_the_crawl_and_nothing_is_lost(
    web: ChaoticWeb, snippets: ModuleType, verb: str
) -> None:
    async def fails(*_: object) -> None:
        raise ValueError("no good")

    broken = type("Broken", (snippets.Products,), {verb: fails})
    with pytest.raises(SinkError, match=rf"sink Broken: {verb} failed \(.+:\d+\): ValueError: no good"):
        await shoal.crawl(make(web.url("site")), output=broken(), store="s.db")
    await shoal.crawl(make(web.url("site")), output=snippets.Products(), store="s.db")
    if verb != "close":
        database = sqlite3.connect("rows.db")
        assert database.execute("select count(*) from row").fetchone() == (len(web.pages_of("site")),)
        database.close()


async def test_what_is_no_sink(web: ChaoticWeb, snippets: ModuleType) -> None:
    with pytest.raises(UsageError, match="output: dict is not a sink: it needs journal"):
        await shoal.crawl(make(web.url("site")), output={})  # type: ignore[arg-type]

    async def forgets(*_: object) -> None:
        return None

    silent = type("Silent", (snippets.Products,), {"write": forgets})
    with pytest.raises(SinkError, match="sink Silent: write returned something else than the batch"):
        await shoal.crawl(make(web.url("site")), output=silent())


async def test_a_transport_stands_around_the_built_in_one(web: ChaoticWeb, snippets: ModuleType) -> None:
    made: list[Any] = []

    class Watched(snippets.Cache):  # type: ignore[misc, name-defined]
        async def close(self) -> None:
            made.append(set(self.known))

    snippets.Watched = Watched
    results = await shoal.crawl(make(web.url("site"), transport="extending_snippets:Watched"))
    assert len(results) == len(web.pages_of("site"))
    [known] = made
    assert web.pages_of("site") <= known


async def test_what_goes_wrong_in_a_transport_names_it(web: ChaoticWeb, snippets: ModuleType) -> None:
    class Broken(snippets.Cache):  # type: ignore[misc, name-defined]
        async def fetch(self, request: Any) -> Any:
            if request.url.endswith("robots.txt"):
                return await self.built_in.fetch(request)
            if request.url.endswith("/1"):
                return None
            raise ValueError("no good")

    snippets.Broken = Broken
    urls = [web.url("site", "/p/1"), web.url("site", "/p/2")]
    spider = make(urls, transport="extending_snippets:Broken", max_attempts=2)
    await shoal.crawl(spider, store="s.db")
    async with open_frontier("s.db") as frontier:
        letters = await frontier.dead(DeadFilter())
    details = sorted(letter.task.history[-1].detail for letter in letters)
    assert [letter.kind for letter in letters] == ["transport", "transport"]
    assert "ValueError: no good" in details[0]
    assert "test_extending.py:" in details[0]
    assert details[1].endswith("it returned a NoneType; return a Response or a Failure")


@pytest.mark.parametrize(
    ("transport", "said"),
    [
        ("nowhere:Class", "transport: 'nowhere:Class' cannot be imported"),
        ("extending_snippets", "is not an address; write module:Class"),
        ("extending_snippets:Busy", "it is called with the settings and the built-in transport"),
        ("extending_snippets:is_queue", "it is called with the settings"),
    ],
)
async def test_a_transport_that_is_none(snippets: ModuleType, transport: str, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        await shoal.crawl(make("https://site.example/", transport=transport))
