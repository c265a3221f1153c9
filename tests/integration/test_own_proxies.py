"""`proxy=`: one proxy for one request, beside pools. Real proxies, real sockets, a real SQLite file."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

import shoal
from integration.raw_server import always, page, serve
from shoal import Page, Request, Spider
from shoal.clock import SystemClock
from shoal.errors import SettingsError, SpiderError
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.proxy.own_proxies import OwnRoute
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.pools import find_pools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, FetchOptions, Response
from shoal.policy.load import Traffic
from shoal.policy.outcomes import kind_of
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.proxy_server import ProxyServer

PASSWORD = "hunter2-secret"
KINDS: list[Literal["http", "socks5"]] = ["http", "socks5"]


def web(pages: int = 3) -> ChaoticWeb:
    return ChaoticWeb({"shop": HostProfile("fast", pages=pages)})


def spider_for(start: Request | str) -> Spider:
    spider = Spider("own", start=[start])

    @spider.handler
    def found(page: Page):  # type: ignore[no-untyped-def]
        yield {"url": page.url, "via": page.response.via}

    return spider


def bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


# -- it goes through


@pytest.mark.parametrize("kind", KINDS)
async def test_one_request_goes_through_the_proxy_it_names(kind: Literal["http", "socks5"]) -> None:
    async with web() as site, ProxyServer(kind, user="u", password=PASSWORD) as proxy:
        spider = Spider("own", start=site.start_urls)

        @spider.handler
        def front(page: Page):  # type: ignore[no-untyped-def]
            yield {"url": page.url, "via": page.response.via}
            yield from page.follow_all("a", rest, proxy=proxy.url)

        @spider.handler
        def rest(page: Page):  # type: ignore[no-untyped-def]
            yield {"url": page.url, "via": page.response.via}

        rows = list(await shoal.crawl(spider, rate=0))
    [first, *others] = rows
    assert first["via"] == ""
    assert others, "pages were followed"
    assert all(row["via"].startswith(f"{proxy.address}#") for row in others), "its address, and not its user"
    assert len(proxy.passed) >= 1
    assert PASSWORD not in str(rows)


async def test_robots_txt_takes_the_same_way() -> None:
    async with web() as site, ProxyServer() as proxy:
        await shoal.crawl(spider_for(Request(site.start_urls[0], proxy=proxy.url)), rate=0)
    asked = [head.split(b" ")[1].decode() for head in proxy.heads]
    assert [url.endswith("/robots.txt") for url in asked] == [True, False]


async def test_a_variable_of_the_environment_is_put_in_when_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, odd = tmp_path / "shoal.db", f"{PASSWORD}@:/?#[ü] %${{HOME}}"
    async with web() as site, ProxyServer(user="u", password=odd) as proxy:
        monkeypatch.setenv("HOME_PROXY_PASSWORD", odd)
        address = f"http://u:${{HOME_PROXY_PASSWORD}}@{proxy.address}"
        caplog.set_level(logging.DEBUG)
        results = await shoal.crawl(
            spider_for(Request(site.start_urls[0], proxy=address)), store=str(store), rate=0
        )
        assert len(list(results)) == 1
    written = bytes_in(tmp_path)
    assert b"HOME_PROXY_PASSWORD" in written, "the task was stored"
    assert PASSWORD.encode() not in written
    assert PASSWORD not in caplog.text


async def test_the_setting_is_for_all_requests_that_name_no_pool() -> None:
    async with web(pages=2) as site, ProxyServer() as proxy, ProxyServer() as other:
        spider = Spider("own", start=site.start_urls, proxy=proxy.url, proxies={"other": [other.url]})

        @spider.handler
        def front(page: Page):  # type: ignore[no-untyped-def]
            yield {"way": page.meta.get("way"), "via": page.response.via}
            yield page.follow(page.url, again, pool="other", dedupe=False, meta={"way": "pool"})
            for name in ("other", f"other/{other.address}", "direct"):
                yield page.follow(page.url, again, proxy=name, dedupe=False, meta={"way": name})

        @spider.handler
        def again(page: Page):  # type: ignore[no-untyped-def]
            yield {"way": page.meta["way"], "via": page.response.via}

        results = await shoal.crawl(spider, rate=0)
    through = f"other/{other.address}"
    assert {row["way"]: row["via"] for row in results} == {
        None: proxy.address,
        "pool": through,
        "other": through,
        through: through,
        "direct": "",
    }


# -- failures are the proxy's


@asynccontextmanager
async def routes(settings: Settings, *, trusts_tasks: bool = True) -> AsyncIterator[Routes]:
    clock = SystemClock()
    made = Routes(
        HttpTransport(settings, Guard(["127.0.0.0/8"]), clock),
        settings,
        LocalPools(),
        traffic=Traffic(),
        clock=clock,
        rng=random.Random(0),
        now=clock.time,
        trusts_tasks=trusts_tasks,
    )
    try:
        yield made
    finally:
        await made.close()


async def test_what_fails_through_it_is_told_as_the_proxys() -> None:
    async with (
        serve(always(page(b"hello"))) as server,
        ProxyServer(user="u", password="right") as proxy,
        routes(Settings()) as ways,
    ):
        request = FetchRequest(server.url("/"), asked_proxy=f"http://u:{PASSWORD}@{proxy.address}")
        outcomes = [await ways.fetch(request) for _ in range(2)]
        right = await ways.fetch(FetchRequest(server.url("/"), asked_proxy=proxy.url))
    assert [getattr(outcome, "kind", "") for outcome in outcomes] == ["proxy_auth", "proxy_wait"]
    assert proxy.address in str(outcomes)
    assert PASSWORD not in str(outcomes)
    assert isinstance(right, Response), "the same user with another password is another proxy"
    assert len(server.hits) == 1


async def test_no_other_proxy_takes_its_place() -> None:
    async with (
        serve(always(page())) as server,
        ProxyServer() as good,
        ProxyServer() as gone,
        routes(Settings(proxies={"pool": [good.url, gone.url]}, pool="pool")) as ways,
    ):
        await gone.stop()
        request = FetchRequest(server.url("/"), asked_proxy=f"pool/{gone.address}")
        outcomes = [await ways.fetch(request) for _ in range(3)]
    assert [getattr(outcome, "kind", "") for outcome in outcomes] == [*["proxy_connect"] * 2, "proxy_wait"]
    assert not good.connections


async def test_a_private_target_is_refused_as_ever() -> None:
    async with ProxyServer() as proxy, routes(Settings()) as ways:
        outcome = await ways.fetch(FetchRequest("http://10.1.2.3/", asked_proxy=proxy.url))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "forbidden_address"
    assert not proxy.connections


async def test_thousands_of_users_of_one_address_are_told_apart_and_forgotten() -> None:
    async with serve(always(page())) as server, ProxyServer("socks5") as proxy, routes(Settings()) as ways:
        vias = set()
        for number in range(1_200):
            asked = f"socks5://user-{number}:{PASSWORD}@{proxy.address}"
            if number % 100 == 0:
                outcome = await ways.fetch(FetchRequest(server.url("/"), asked_proxy=asked))
                assert isinstance(outcome, Response)
                vias.add(outcome.via)
            else:
                assert isinstance(ways._chooser._named.find(asked), OwnRoute)
        assert len(vias) == 12
        assert len(ways._pools) == len(ways._proxies) == 1_000


# -- a session goes where its request says


async def test_a_session_moves_with_its_cookies() -> None:
    async with (
        serve(always(page(Set_Cookie="seen=1"))) as server,
        ProxyServer() as one,
        ProxyServer() as two,
        routes(Settings()) as ways,
    ):
        vias = []
        for asked in (one.url, None, two.url, None):
            request = FetchRequest(server.url("/"), session="alice", asked_proxy=asked)
            vias.append((await ways.fetch(request)).via)
    assert vias == [one.address, one.address, two.address, two.address]
    assert [b"seen=1" in head for head in server.hits] == [False, True, True, True]


# -- what cannot be a proxy


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("ftp://user:SECRET@proxy:1", "its scheme is not http, https or socks5"),
        ("http://user:SECRET@", "host"),
        ("http://user:SECRET@proxy:99999", "port"),
        ("http://user:SECRET@proxy:1/path", "it has a path or a query"),
        ("user:SECRET@proxy:1", "neither a name"),
        ("", "neither a name"),
        ("http://${SHOAL_REDIS_PASSWORD}@proxy:1", "does not have PROXY in its name"),
        ("http://${MY PROXY}@proxy:1", "no variable can have"),
    ],
)
def test_a_bad_address_is_told_where_it_is_given(given: str, says: str) -> None:
    with pytest.raises(SpiderError, match=says) as error:
        Request("http://shop.example/", proxy=given)
    assert "SECRET@" not in str(error.value)
    assert "Request: its proxy" in str(error.value)


def test_a_bad_setting_is_told_at_the_start() -> None:
    for given, says in {
        "http://u:SECRET@proxy:0": "proxy: is not a proxy's address",
        "http://u:${NOT_THERE}@proxy:1": "proxy: the environment has no variable NOT_THERE",
        "home": "proxy: there is no 'home' in the setting proxies",
        "many": "proxy: 'many' has several proxies",
    }.items():
        with pytest.raises(SettingsError, match=says) as error:
            find_pools(Settings(proxy=given, proxies={"many": ["a:1", "b:1"]}), [], {})
        assert "SECRET" not in str(error.value)


async def test_a_worker_that_does_not_trust_the_store_takes_names_and_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        serve(always(page())) as server,
        ProxyServer() as proxy,
        routes(Settings(proxies={"home": [proxy.url]}), trusts_tasks=False) as ways,
    ):
        monkeypatch.setenv("MY_PROXY", proxy.url)
        asked = [
            "http://127.0.0.1:9",
            "http://${MY_PROXY}@127.0.0.1:9",
            "${MY_PROXY}",
            "${NO_PROXY_}",
            "home",
        ]
        found = [await ways.fetch(FetchRequest(server.url("/"), asked_proxy=text)) for text in asked]
    kinds = [kind_of(outcome) for outcome in found]
    assert kinds == ["untrusted", "untrusted", "ok", "invalid_request", "ok"]
    assert "no variable NO_PROXY_" in str(found[3])


def test_a_password_is_not_in_the_repr_of_a_task() -> None:
    assert PASSWORD not in repr(FetchOptions(proxy=f"http://u:{PASSWORD}@proxy:1"))
