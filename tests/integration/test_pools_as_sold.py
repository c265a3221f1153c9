"""Pools as they are sold: strategies, countries, user names that say which exit to take. Real proxies."""

from __future__ import annotations

import base64
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import shoal
from integration.raw_server import always, page, serve
from shoal import Page, Spider
from shoal.clock import SystemClock
from shoal.config import load
from shoal.errors import SettingsError
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.pools import find_pools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import FetchRequest
from shoal.model import Response
from shoal.policy.load import Traffic
from shoal.policy.outcomes import kind_of
from shoal.testing.proxy_server import ProxyServer

PASSWORD = "hunter2-secret"


@asynccontextmanager
async def routes(**settings: Any) -> AsyncIterator[Routes]:
    given, clock = load(None, settings, {}, {}), SystemClock()
    made = Routes(
        HttpTransport(given, Guard(["127.0.0.0/8"]), clock),
        given,
        LocalPools(),
        traffic=Traffic(),
        clock=clock,
        rng=random.Random(0),
        now=clock.time,
    )
    try:
        yield made
    finally:
        await made.close()


def users(proxy: ProxyServer) -> list[str]:
    """The users that a proxy was asked by."""
    found = []
    for head in proxy.heads:
        [login] = re.findall(rb"(?i)proxy-authorization: basic (\S+)", head)
        found.append(base64.b64decode(login).decode().partition(":")[0])
    return found


async def vias(ways: Routes, url: str, times: int, **request: Any) -> list[str]:
    found = []
    for _ in range(times):
        outcome = await ways.fetch(FetchRequest(url, **request))
        assert isinstance(outcome, Response), outcome
        found.append(outcome.via.partition("/")[2])
    return found


# -- strategies


@pytest.mark.parametrize("strategy", ["round_robin", "random", "least_used", "sticky", "scored"])
async def test_strategies(strategy: str) -> None:
    async with serve(always(page())) as server, ProxyServer() as one, ProxyServer() as two:
        pool = {"urls": [one.url, two.url], "strategy": strategy}
        async with routes(proxies={"dc": pool}, pool="dc") as ways:
            found = Counter(await vias(ways, server.url("/"), 8))
    if strategy == "sticky":
        assert len(found) == 1
    elif strategy in ("round_robin", "least_used"):
        assert found == {one.address: 4, two.address: 4}
    else:
        assert set(found) == {one.address, two.address}


async def test_a_sticky_pool_moves_when_its_proxy_fails() -> None:
    async with serve(always(page())) as server, ProxyServer() as one, ProxyServer() as two:
        pool = {"urls": [one.url, two.url], "strategy": "sticky"}
        async with routes(proxies={"dc": pool}, pool="dc") as ways:
            [first] = set(await vias(ways, server.url("/"), 2))
            gone, other = (one, two) if first == one.address else (two, one)
            await gone.stop()
            assert set(await vias(ways, server.url("/"), 3)) == {other.address}


# -- countries


async def test_a_request_asks_for_a_country() -> None:
    async with serve(always(page())) as server, ProxyServer() as de, ProxyServer() as fr:
        pool = {"countries": {"DE": [de.url], "fr": [fr.url]}}
        async with routes(proxies={"dc": pool}, pool="dc") as ways:
            assert set(await vias(ways, server.url("/"), 4, country="de")) == {de.address}
            assert set(await vias(ways, server.url("/"), 4, country="FR")) == {fr.address}
            lacking = await ways.fetch(FetchRequest(server.url("/"), country="us"))
            other = await ways.fetch(FetchRequest(server.url("/"), country="us", pool="direct"))
    assert kind_of(lacking) == kind_of(other) == "invalid_request"
    assert "no proxy of dc is known to be in 'us'" in str(lacking)


async def test_a_handler_asks_for_a_country() -> None:
    async with (
        serve(always(page(b"<a href=/de>", Content_Type="text/html"))) as server,
        ProxyServer() as proxy,
    ):
        address = f"http://user-{{country}}:{PASSWORD}@{proxy.address}"
        spider = Spider(
            "countries",
            start=server.url("/"),
            robots=False,
            rate=0,
            pool="res",
            proxies={"res": {"urls": [address], "country": "us"}},
        )

        @spider.handler
        def start(page: Page):  # type: ignore[no-untyped-def]
            yield from page.follow_all("a", german)

        @spider.handler(country="de")
        def german(page: Page):  # type: ignore[no-untyped-def]
            yield page.follow("/fr", german, country="fr", meta={"last": True})
            yield {"via": page.response.via}

        rows = list(await shoal.crawl(spider, max_pages=3))
    assert users(proxy) == ["user-us", "user-de", "user-fr"]
    assert {row["via"] for row in rows} == {f"res/{proxy.address}"}, "one proxy, whatever its user"


# -- sessions in the user's name


async def test_a_session_keeps_its_exit_and_other_requests_take_fresh_ones() -> None:
    async with serve(always(page())) as server, ProxyServer() as proxy:
        address = f"http://user-sess-{{session}}:${{PASSWORD}}@{proxy.address}"
        settings = {"proxies": {"res": [address]}, "pool": "res"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PASSWORD", PASSWORD)
            async with routes(**settings) as ways:
                await vias(ways, server.url("/"), 3, session="alice")
                await vias(ways, server.url("/"), 2, session="bob")
                await vias(ways, server.url("/"), 3)
            async with routes(**settings) as another_process:
                await vias(another_process, server.url("/"), 1, session="alice")
    seen = users(proxy)
    alice, bob, fresh = seen[:3], seen[3:5], seen[5:8]
    assert len({*alice, seen[8]}) == 1, "also in another process"
    assert len(set(bob)) == 1
    assert len({*alice, *bob, *fresh}) == 5
    assert all(re.fullmatch(r"user-sess-[0-9a-f]{10}", user) for user in seen)


async def test_a_sticky_pool_keeps_an_exit_for_a_host() -> None:
    async with (
        serve(always(page())) as server,
        ProxyServer("socks5", user="u-{session}", password="p") as proxy,
    ):
        proxy.user = ""  # anybody
        pool = {"urls": [proxy.url.replace("%7B", "{").replace("%7D", "}")], "strategy": "sticky"}
        async with routes(proxies={"res": pool}, pool="res") as ways:
            await vias(ways, server.url("/"), 2)
    assert proxy.connections == 2, "nobody else may have the connection of a user"


# -- what cannot be


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ({"urls": []}, "pool 'p' is empty"),
        ({"urls": ["http://u-{country}:SECRET@h:1"]}, r"has \{country\} in an address: add country"),
        ({"urls": ["http://u:${NOT_THERE}@h:1"]}, "entry 1: the environment has no variable NOT_THERE"),
        ({"urls": ["ftp://u:SECRET@h:1"]}, "entry 1: is not a proxy's address"),
        ({"url": ["http://u:SECRET@h:1"]}, "did you mean 'urls'"),
        ({"urls": "http://u:SECRET@h:1"}, "urls must be a list of strings"),
        ({"strategy": "best", "urls": ["http://u:SECRET@h:1"]}, "strategy must be least_used or random"),
        ({"cost": -1}, "cost must be a number, at least 0"),
        (7, "must be a list of addresses, or a table"),
    ],
)
def test_a_bad_pool_is_one_line(pool: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as error:
        find_pools(load(None, {"proxies": {"p": pool}}, {}, {}), [], {})
    assert "SECRET" not in str(error.value)


def test_the_secrets_of_a_pool_are_not_in_its_repr() -> None:
    settings = load(None, {"proxies": {"p": {"urls": [f"http://u:{PASSWORD}@h:1"]}}}, {}, {})
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in repr(settings.proxies)
