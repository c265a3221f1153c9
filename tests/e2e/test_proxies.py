"""Crawls through real proxies, some of them bad: what is obtained, who is asked how often, and what leaks (nothing)."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import shoal
from integration.raw_server import page as answer_of
from integration.raw_server import serve
from shoal import Page, Request, Spider
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.hosts.proxy_pools import StoredPools
from shoal.inspect.single_page import look as look_at
from shoal.model import DeadLetter
from shoal.policy.proxy_state import PoolState
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.proxy_server import ProxyServer
from shoal.testing.servers import ValkeyServer

PASSWORD = "s3cret-hunter2"
HOSTS, PAGES = 6, 40
QUICK: dict[str, Any] = {"rate": 0, "per_host": 4, "retry_base": 0.02}


@pytest.fixture
async def proxies() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def spider_of(start: list[str | Request], **settings: object) -> Spider:
    spider = Spider("proxied", start, **{**QUICK, **settings})

    @spider.handler
    def page(page: Page) -> Iterator[object]:
        yield {"url": page.url}

    return spider


def pages(web: ChaoticWeb, count: int = PAGES) -> list[str | Request]:
    """Of all hosts in turn."""
    return [web.url(host, f"/p/{n}") for n in range(count) for host in web.spec.hosts]


async def crawl(spider: Spider, store: Path) -> shoal.Results:
    async with asyncio.timeout(60):
        return await shoal.crawl(spider, store=str(store), output=str(store.with_suffix(".jsonl")))


async def look(store: Path) -> tuple[dict[str, PoolState], list[DeadLetter]]:
    async with open_frontier(str(store)) as frontier:
        return await StoredPools(frontier).read_all(), list(await frontier.dead(DeadFilter()))


async def test_a_pool_learns_whom_to_ask(
    tmp_path: Path, proxies: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    """Two good proxies, one banned by half of the hosts, one dead, one slow."""
    caplog.set_level(logging.DEBUG)
    login: dict[str, Any] = {"user": "me", "password": PASSWORD}
    good = await proxies.enter_async_context(ProxyServer("http", **login))
    other = await proxies.enter_async_context(ProxyServer("socks5", **login))
    banned = await proxies.enter_async_context(ProxyServer("http", **login))
    slow = await proxies.enter_async_context(ProxyServer("http", delay=0.4, **login))
    dead = ProxyServer("http", **login)
    async with dead:
        pass
    wrong = await proxies.enter_async_context(ProxyServer("socks5", **login))
    wrong.password = "another"
    urls = [proxy.url for proxy in (good, other, banned, slow, dead, wrong)]
    async with ChaoticWeb({f"h{n}": HostProfile("fast", pages=PAGES, links=1) for n in range(HOSTS)}) as web:
        banned.banned_by = {web.addresses[f"h{n}"] for n in range(HOSTS // 2)}
        start = [*pages(web), web.url("h0", "/missing")]
        spider = spider_of(start, proxies={"dc": urls}, pool="dc", pool_cooldown=0.5, concurrency=8)
        results = await crawl(spider, tmp_path / "a.db")
        hits = len(web.hits())
    counters = results.view.job.counters
    assert counters.done >= 0.99 * HOSTS * PAGES
    assert hits <= 1.1 * HOSTS * PAGES, "few pages are asked for more than once"
    pools, letters = await look(tmp_path / "a.db")
    states = {name.partition("/")[2]: state for name, state in pools["dc"].proxies.items()}
    total = sum(state.requests for state in states.values())
    assert states[dead.address].requests < 0.05 * total, "probed rarely"
    assert states[dead.address].hold.reason == "proxy_connect"
    assert states[wrong.address].requests < 0.05 * total
    assert states[wrong.address].hold.reason == "proxy_auth"
    assert states[slow.address].requests < 0.15 * total
    assert banned.connections < 0.4 * total
    assert [letter.kind for letter in letters if letter.task.url.endswith("/missing")] == ["http_404"]
    assert {letter.task.history[-1].via.partition("/")[0] for letter in letters} == {"dc"}
    # -- the password is nowhere
    for file in list(tmp_path.iterdir()):  # noqa: ASYNC240
        assert PASSWORD.encode() not in file.read_bytes(), file
    assert PASSWORD not in caplog.text
    assert PASSWORD not in repr((results, letters, pools, spider))
    assert "me:" not in caplog.text


async def test_when_all_proxies_fail_the_pages_wait(
    tmp_path: Path, proxies: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    only = await proxies.enter_async_context(ProxyServer("http"))
    async with ChaoticWeb({"h": HostProfile("fast", pages=30, links=1)}) as web:
        await only.stop()
        spider = spider_of(
            pages(web, 30), proxies={"dc": [only.url]}, pool="dc", pool_cooldown=0.3, max_attempts=2
        )
        running = asyncio.create_task(crawl(spider, tmp_path / "a.db"))
        async with asyncio.timeout(20):
            while "; pages wait" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.7)
        assert not web.hits()
        await only.start()
        results = await running
    assert (results.view.job.counters.done, results.view.job.counters.dead) == (30, 0)
    assert caplog.text.count("; pages wait") == 1, "told once"
    assert "pool dc works again" in caplog.text


async def test_the_next_pool_is_taken_where_the_first_is_refused(
    tmp_path: Path, proxies: AsyncExitStack
) -> None:
    cheap = await proxies.enter_async_context(ProxyServer("http"))
    dear = await proxies.enter_async_context(ProxyServer("socks5"))
    async with ChaoticWeb({name: HostProfile("fast", pages=40, links=1) for name in "ab"}) as web:
        cheap.banned_by = {web.addresses["a"]}
        spider = spider_of(
            pages(web, 40),
            proxies={"cheap": [cheap.url], "dear": [dear.url]},
            fallback=["cheap", "dear"],
            per_host=1,
        )
        results = await crawl(spider, tmp_path / "a.db")
    assert results.view.job.counters.done == 80
    assert set(dear.passed) == {web.addresses["a"]}, "only where it is needed"
    assert len(cheap.heads) <= 40 + 15, "and the cheap one is known to be refused there after a few pages"


async def test_a_forbidden_page_is_not_taken_for_a_ban(tmp_path: Path, proxies: AsyncExitStack) -> None:
    """What every proxy is refused is refused to everybody."""
    servers = [await proxies.enter_async_context(ProxyServer("http")) for _ in range(3)]
    async with ChaoticWeb({"a": HostProfile("fast", pages=40, links=1)}) as web:
        for server in servers:
            server.banned_by = {web.addresses["a"]}
        spider = spider_of(pages(web, 10), proxies={"dc": [server.url for server in servers]}, pool="dc")
        spider.settings["robots"] = False
        results = await crawl(spider, tmp_path / "a.db")
    pools, letters = await look(tmp_path / "a.db")
    assert {letter.kind for letter in letters} == {"http_403"}
    assert results.view.job.counters.dead == 10
    assert sum(len(server.heads) for server in servers) == 20, "each by two proxies, and no more"
    assert not any(
        pair.hold.strikes for proxy in pools["dc"].proxies.values() for pair in proxy.hosts.values()
    )


async def test_pools_of_handlers_and_requests(tmp_path: Path, proxies: AsyncExitStack) -> None:
    one = await proxies.enter_async_context(ProxyServer("http"))
    two = await proxies.enter_async_context(ProxyServer("http"))
    async with ChaoticWeb({"a": HostProfile("fast", pages=10, links=1)}) as web:
        spider = Spider(
            "pools", web.url("a", "/p/0"), robots=False, proxies={"one": [one.url], "two": [two.url]}, **QUICK
        )

        @spider.handler
        def first(page: Page) -> Iterator[Request]:
            yield page.follow("/p/1", second)
            yield page.follow("/p/2", second, pool="two")

        @spider.handler(pool="one")
        def second(page: Page) -> Iterator[object]:
            yield {"url": page.url, "via": page.response.via}

        results = await shoal.crawl(spider, store=str(tmp_path / "a.db"))
    rows = {str(row["url"])[-4:]: row["via"] for row in results}
    assert rows == {"/p/1": f"one/{one.address}", "/p/2": f"two/{two.address}"}
    assert (len(one.heads), len(two.heads), len(web.hits())) == (1, 1, 3)


# -- sessions


def cookie_of(head: bytes) -> str:
    found = re.search(rb"\r\nCookie: (.*?)\r\n", head)
    return found[1].decode() if found else ""


async def test_jars_are_never_mixed(tmp_path: Path) -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        who = head.split(b" ")[1].rpartition(b"=")[2].decode()
        login = {"Set_Cookie": f"id={who}; Path=/"} if b"/login" in head else {}
        writer.write(answer_of(cookie_of(head).encode(), **login))

    async with serve(answer) as server:
        users = ["alice", "bob", "carol"]
        start = [Request(server.url(f"/login?u={who}"), session=who) for who in users]
        spider = Spider("sessions", [*start, server.url("/login?u=none")], robots=False, **QUICK)

        @spider.handler
        def login(page: Page) -> Iterator[Request]:
            session = page.task.session
            for n in range(5):
                yield page.follow(f"/page/{n}?of={session}", account, session=session)

        @spider.handler
        def account(page: Page) -> Iterator[object]:
            yield {"of": page.url.rpartition("=")[2], "cookie": page.body.decode()}

        results = await shoal.crawl(spider, store=str(tmp_path / "a.db"))
    seen = Counter((row["of"], row["cookie"]) for row in results)
    assert seen == {(who, f"id={who}"): 5 for who in users} | {("None", "id=none"): 5}


async def test_a_session_that_is_banned_begins_anew(tmp_path: Path, proxies: AsyncExitStack) -> None:
    servers = [await proxies.enter_async_context(ProxyServer("http")) for _ in range(3)]

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer_of(b"x" * 100, Set_Cookie="id=1; Path=/"))

    async with serve(answer) as server:
        urls = [proxy.url for proxy in servers]
        start = Request(server.url("/0"), session="me")
        spider = Spider("banned", [start], robots=False, proxies={"dc": urls}, pool="dc", **QUICK)
        ways: list[str] = []

        @spider.handler
        def page(page: Page) -> Iterator[Request]:
            ways.append(page.response.via)
            if len(ways) == 5:
                used = next(proxy for proxy in servers if ways[-1].endswith(proxy.address))
                used.banned_by = {f"127.0.0.1:{server.port}"}
            if len(ways) < 10:
                yield page.follow(f"/{len(ways)}", session="me")

        results = await crawl(spider, tmp_path / "a.db")
    assert results.view.job.counters.done == 10
    first, second = dict.fromkeys(ways)
    assert ways == [first] * 5 + [second] * 5, "a session stays with its proxy"
    cookies = [cookie_of(head) for head in server.hits]
    assert cookies == ["", "id=1", "id=1", "id=1", "id=1", "", "id=1", "id=1", "id=1", "id=1"]


# -- what a person sees


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
        ended = subprocess.run(
            [sys.executable, "-c", "from shoal.cli import main; main()", *argv],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return ended.returncode, ended.stdout + ended.stderr

    return call


async def test_the_table_and_the_trial(
    tmp_path: Path, proxies: AsyncExitStack, cli: Callable[..., tuple[int, str]]
) -> None:
    good = await proxies.enter_async_context(ProxyServer("http", user="me", password=PASSWORD))
    other = await proxies.enter_async_context(ProxyServer("socks5", user="me", password=PASSWORD))
    wrong = await proxies.enter_async_context(ProxyServer("http", user="me", password=PASSWORD))
    wrong.password = "another"
    async with ChaoticWeb({"a": HostProfile("fast", pages=20, links=1)}) as web:
        pools = {"dc": [good.url, wrong.url], "home": [other.url]}
        lines = [f"{name} = {urls}" for name, urls in pools.items()]
        (tmp_path / "shoal.toml").write_text("\n".join(["[proxies]", *lines]))
        spider = spider_of(pages(web, 20), proxies=pools, pool="dc", pool_costs={"dc": 0.5})
        await crawl(spider, tmp_path / "a.db")
        code, table = await asyncio.to_thread(cli, "proxies", "--store", "a.db")
        tried, trial = await asyncio.to_thread(cli, "proxies", "test", "--url", web.url("a", "/p/1"))
        alone, _ = await asyncio.to_thread(cli, "proxies", "test", "home", "--url", web.url("a", "/p/1"))
    assert (code, tried, alone) == (0, 1, 0), trial
    assert re.search(rf"dc +{good.address} .* 100% .* 0\.5 +ok", table), table
    assert re.search(rf"dc +{wrong.address} .* down: proxy_auth, \d+ s left", table), table
    assert re.search(rf"dc +{good.address} +http .* ok", trial), trial
    assert re.search(rf"home +{other.address} +socks5 .* ok", trial), trial
    assert re.search(rf"dc +{wrong.address} +http .* proxy_auth", trial), trial
    assert PASSWORD not in table + trial
    missing, told = await asyncio.to_thread(cli, "proxies", "test", "nowhere", "--url", "http://a.example/")
    assert (missing, told) == (2, "shoal: no pool 'nowhere' in the setting proxies; there is: dc, home\n")


async def test_what_is_no_proxy_is_refused_at_the_start(
    tmp_path: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    (tmp_path / "shoal.toml").write_text(f'[proxies]\ndc = ["http://me:{PASSWORD}@10.0.0.1:3128/path"]\n')
    (tmp_path / "s.py").write_text(
        "from shoal import Spider\nspider = Spider('s', 'http://127.0.0.1:9/')\nspider.handler(lambda page: [])\n"
    )
    told = "shoal: proxies: pool 'dc', entry 1: is not a proxy's address: it has a path or a query, as a page has; "
    told += "write http://user:password@host:port, with https or socks5 as it may be\n"
    commands = [["crawl", "s.py"], ["worker", "s.py"], ["up", "s.py"], ["fetch", "http://127.0.0.1:9/"]]
    answers = await asyncio.gather(*(asyncio.to_thread(cli, *words) for words in commands))
    assert answers == [(2, told)] * len(commands)
    assert not (tmp_path / "s.jsonl").exists(), "nothing was begun"


async def test_why_tells_that_a_page_waits_for_a_proxy(
    tmp_path: Path, proxies: AsyncExitStack, cli: Callable[..., tuple[int, str]]
) -> None:
    dead = ProxyServer("http", user="me", password=PASSWORD)
    async with dead:
        pass
    spider = spider_of(["http://127.0.0.1:9/"], proxies={"dc": [dead.url]}, pool="dc", robots=False)
    crawling = asyncio.create_task(crawl(spider, tmp_path / "a.db"))
    told = ""
    async with asyncio.timeout(30):
        while "quarantine" not in told:
            await asyncio.sleep(0.2)
            _, told = await asyncio.to_thread(cli, "why", "http://127.0.0.1:9/", "--store", "a.db")
    crawling.cancel()
    await asyncio.gather(crawling, return_exceptions=True)
    assert re.search(r"waiting for \d+ s: pool dc: every proxy is in quarantine \(1 proxy_connect; ", told), (
        told
    )
    assert PASSWORD not in told


async def test_fetch_goes_the_way_of_a_crawl(proxies: AsyncExitStack) -> None:
    proxy = await proxies.enter_async_context(ProxyServer("http", user="me", password=PASSWORD))
    async with ChaoticWeb({"h": HostProfile("fast", pages=2)}) as web:
        settings = Settings(proxies={"dc": [proxy.url]}, pool="dc")
        sight = await look_at(web.url("h"), settings)
    assert sight.kind == "ok"
    assert sight.outcome.via == f"dc/{proxy.address}"
    assert len(proxy.heads) == 2, "robots.txt too"
    assert PASSWORD not in repr(sight)


async def test_a_fleet_shares_what_it_knows_of_proxies(valkey: ValkeyServer, proxies: AsyncExitStack) -> None:
    good = await proxies.enter_async_context(ProxyServer("http", user="me", password=PASSWORD))
    wrong = await proxies.enter_async_context(ProxyServer("http", user="me", password=PASSWORD))
    wrong.password = "another"
    async with ChaoticWeb({name: HostProfile("fast", pages=40, links=1) for name in "ab"}) as web:
        spider = spider_of(pages(web, 40), proxies={"dc": [good.url, wrong.url]}, pool="dc")
        async with asyncio.timeout(60):
            results = await shoal.crawl(spider, store=valkey.url)
            asked = wrong.connections
            again = await shoal.crawl(spider, store=valkey.url, job="again")
    assert len(results) == len(again) == 80
    assert wrong.connections - asked <= 1, "the next crawl knows it already; at most a probe"
    async with open_frontier(valkey.url) as frontier:
        known = (await StoredPools(frontier).read_all())["dc"].proxies
    assert known[f"dc/{wrong.address}"].hold.reason == "proxy_auth"
    valkey.command("CONFIG", "SET", "rdbcompression", "no")  # or a search would see little
    stored = b"".join(
        value if isinstance(value, bytes) else str(value).encode()
        for key in valkey.command("KEYS", "*")
        for value in [valkey.command("DUMP", key)]
    )
    assert PASSWORD.encode() not in stored
