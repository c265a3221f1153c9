"""Gateways: services that fetch pages. Whose fault is whose, what the page looks like, and that the key is nowhere."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import shoal
from integration.raw_server import always, page, serve
from shoal import FetchFailed, Page, Spider
from shoal.clock import SystemClock
from shoal.config import load
from shoal.errors import SettingsError
from shoal.fetch.guard import Guard
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.pools import find_pools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import FetchRequest
from shoal.fetch.transports import Transports
from shoal.model import Failure, Response
from shoal.policy.load import Traffic
from shoal.policy.outcomes import kind_of
from shoal.spider.rendering import Rendering
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.gateway_server import GatewayServer
from shoal.testing.proxy_server import ProxyServer

KEY = "gateway-key"
TOLD = {"status_header": "X-Status", "url_header": "X-Url"}


@asynccontextmanager
async def routes(pool: dict[str, Any], **settings: Any) -> AsyncIterator[Routes]:
    given = load(None, {"proxies": {"api": pool}, "pool": "api", **settings}, {}, {})
    clock = SystemClock()
    made = Routes(
        Transports(given, Guard(["127.0.0.0/8"]), clock),
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


def bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def files_in(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


# -- pages


async def test_a_crawl_through_a_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    async with ChaoticWeb({"shop": HostProfile("fast", pages=4)}) as web, GatewayServer() as gateway:
        spider = Spider("shop", start=web.start_urls, rate=0, pool="api")

        @spider.handler
        def found(page: Page):  # type: ignore[no-untyped-def]
            yield {"url": page.url, "via": page.response.via}
            yield from page.follow_all("a")

        pool = {"gateway": gateway.template.replace(KEY, "${API_KEY}"), **TOLD}
        results = await shoal.crawl(
            spider,
            store=str(tmp_path / "shoal.db"),
            output=str(tmp_path / "rows.jsonl"),
            proxies={"api": pool},
        )
        assert results.view.job.counters.done == 4
        hosts = {url.split("/")[2] for url in gateway.fetched}
    assert hosts == {url.split("/")[2] for url in web.start_urls}
    written = bytes_in(tmp_path)
    assert f"api/{gateway.address}".encode() in written
    assert KEY.encode() not in written
    assert KEY not in caplog.text


async def test_status_and_url_are_the_pages() -> None:
    async with (
        serve(always(page(b"no such page", "404 Not Found"))) as server,
        GatewayServer() as gateway,
        routes({"gateway": gateway.template, **TOLD}) as ways,
    ):
        outcome = await ways.fetch(FetchRequest(server.url("/a?b=1&c=%2F")))
    assert isinstance(outcome, Response)
    assert (outcome.status, outcome.body) == (404, b"no such page")
    assert outcome.url == server.url("/a?b=1&c=%2F")
    assert server.paths == ["/a?b=1&c=%2F"], "the URL arrives byte for byte"


async def test_a_redirect_that_the_gateway_follows() -> None:
    async def answer(head: bytes, writer: Any) -> None:
        moved = page(b"", "302 Found", Location="/there") if b"GET /here" in head else page(b"there")
        writer.write(moved)
        await writer.drain()

    async with (
        serve(answer) as server,
        GatewayServer() as gateway,
        routes({"gateway": gateway.template, **TOLD}) as ways,
    ):
        outcome = await ways.fetch(FetchRequest(server.url("/here")))
    assert isinstance(outcome, Response)
    assert (outcome.url, outcome.body) == (server.url("/there"), b"there")


async def test_a_key_in_a_header_and_headers_for_the_page() -> None:
    async with serve(always(page())) as server, GatewayServer() as gateway:
        template = f"http://{gateway.address}/?url={{url}}&country={{country}}&render={{render}}"
        pool = {
            "gateway": template,
            "headers": {"X-Key": KEY},
            "header_prefix": "X-Pass-",
            "country": "us",
            **TOLD,
        }
        async with routes(pool) as ways:
            headers = {"Accept-Language": "de", "Referer": "http://a.example/"}
            request = FetchRequest(server.url("/"), "POST", headers, b"a=1", country="de")
            assert isinstance(await ways.fetch(request), Response)
            rendered = FetchRequest(server.url("/"), rendering=Rendering(""))
            assert isinstance(await ways.fetch(rendered), Response)
    assert [(one["country"], one["render"]) for one in gateway.asked] == [("de", "false"), ("us", "true")]
    assert b"Accept-Language: de" in server.hits[0]
    assert b"Referer: http://a.example/" in server.hits[0]
    assert b"POST" in server.hits[0]


async def test_a_key_with_any_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "a+b/c=&d #%41"
    monkeypatch.setenv("API_KEY", key)
    async with serve(always(page())) as server, GatewayServer(key) as gateway:
        template = f"http://{gateway.address}/?key=${{API_KEY}}&url={{url}}"
        async with routes({"gateway": template, **TOLD}) as ways:
            request = FetchRequest(server.url("/"), headers={"Range": "bytes=5-", "Referer": server.url("/")})
            assert isinstance(await ways.fetch(request), Response)
    assert gateway.asked[0]["key"] == key


async def test_a_file_through_a_gateway(tmp_path: Path) -> None:
    async with serve(always(page(b"%PDF" * 5_000))) as server, GatewayServer() as gateway:
        spider = Spider("files", start=server.url("/"), robots=False, rate=0, pool="api")

        @spider.handler
        async def found(page: Page):  # type: ignore[no-untyped-def]
            file = await page.download("/a.pdf")
            yield {"size": file.size}

        pool = {"gateway": gateway.template, **TOLD}
        results = await shoal.crawl(spider, proxies={"api": pool}, files=str(tmp_path / "files"))
    assert [row["size"] for row in results] == [20_000]
    assert len(gateway.fetched) == 2


async def test_an_error_page_is_no_file(tmp_path: Path) -> None:
    async def answer(head: bytes, writer: Any) -> None:
        writer.write(page(b"gone", "404 Not Found") if b"a.pdf" in head else page())
        await writer.drain()

    async with serve(answer) as server, GatewayServer() as gateway:
        spider = Spider("files", start=server.url("/"), robots=False, rate=0, pool="api")

        @spider.handler
        async def found(page: Page):  # type: ignore[no-untyped-def]
            try:
                await page.download("/a.pdf")
            except FetchFailed as error:
                yield {"kind": error.kind}

        pool = {"gateway": gateway.template, **TOLD}
        results = await shoal.crawl(spider, proxies={"api": pool}, files=str(tmp_path / "files"))
    assert [row["kind"] for row in results] == ["http_404"]
    assert b"gone" not in files_in(tmp_path)


async def test_what_a_gateway_cannot_do_is_told() -> None:
    async with GatewayServer() as gateway, routes({"gateway": gateway.template, **TOLD}) as ways:
        headers = await ways.fetch(FetchRequest("http://a.example/", headers={"Authorization": "secret"}))
        rendered = await ways.fetch(FetchRequest("http://a.example/", rendering=Rendering("")))
        private = await ways.fetch(FetchRequest("http://10.1.2.3/"))
    assert [kind_of(one) for one in (headers, rendered, private)] == [
        *["invalid_request"] * 2,
        "forbidden_address",
    ]
    assert "header_prefix" in str(headers)
    assert "secret" not in str(headers)
    assert "{render}" in str(rendered)
    assert not gateway.asked


# -- its own errors


@pytest.mark.parametrize("told", [TOLD, {}], ids=["with a status header", "without"])
@pytest.mark.parametrize(
    ("change", "kind", "then"),
    [
        ({"key": "another"}, "gateway_auth", "proxy_wait"),
        ({"credits": 0}, "gateway_quota", "proxy_wait"),
        ({"at_once": 0}, "gateway_limit", "proxy_wait"),
        ({"habit": "broken"}, "gateway_error", "gateway_error"),
        ({"habit": "silent"}, "gateway_error", "gateway_error"),
    ],
)
async def test_its_errors_are_told_from_the_pages(
    told: dict[str, str], change: dict[str, Any], kind: str, then: str
) -> None:
    async with serve(always(page())) as server, GatewayServer() as gateway:
        gateway.tells_status = bool(told)
        for name, value in change.items():
            setattr(gateway, name, value)
        async with routes({"gateway": gateway.template, **told}) as ways:
            patience = 0.2 if "silent" in change.values() else 20
            request = FetchRequest(server.url("/"), total_timeout=patience)
            first, second = await ways.fetch(request), await ways.fetch(request)
    assert (kind_of(first), kind_of(second)) == (kind, then)
    assert not server.hits
    assert KEY not in f"{first}{second}"
    assert gateway.address in str(first)


async def test_a_gateway_that_is_not_there() -> None:
    async with GatewayServer() as gateway:
        template = gateway.template
    async with routes({"gateway": template}) as ways:
        kinds = [kind_of(await ways.fetch(FetchRequest("http://a.example/"))) for _ in range(3)]
    assert kinds == ["gateway_down", "gateway_down", "proxy_wait"]


async def test_another_pool_takes_over_when_the_credits_are_used_up() -> None:
    async with serve(always(page())) as server, GatewayServer(credits=1) as gateway, ProxyServer() as proxy:
        settings = {"proxies": {"api": {"gateway": gateway.template, **TOLD}, "dc": [proxy.url]}}
        async with routes({}, **settings, fallback=["api", "dc"]) as ways:
            vias = [(await ways.fetch(FetchRequest(server.url("/")))).via for _ in range(3)]
    assert vias == [f"api/{gateway.address}", *[f"dc/{proxy.address}"] * 2]
    assert len(gateway.asked) == 2, "it was left alone"


async def test_what_a_status_means_can_be_set() -> None:
    answer = always(page(b"login", "401 Unauthorized"))
    async with serve(answer) as server, GatewayServer() as gateway:
        gateway.tells_status = False
        async with routes({"gateway": gateway.template, "errors": {"401": "site"}}) as ways:
            assert kind_of(await ways.fetch(FetchRequest(server.url("/")))) == "http_401"
        async with routes({"gateway": gateway.template, "errors": {"401": "quota"}}) as ways:
            assert kind_of(await ways.fetch(FetchRequest(server.url("/")))) == "gateway_quota"


async def test_a_key_that_is_sent_back_is_masked() -> None:
    async with (
        serve(always(page(b"error ", "500 Oops"))) as server,
        GatewayServer(habit="leaky") as gateway,
        routes({"gateway": gateway.template, **TOLD}) as ways,
    ):
        outcome = await ways.fetch(FetchRequest(server.url("/")))
    assert isinstance(outcome, Response)
    assert outcome.status == 500
    assert KEY not in str(dict(outcome.headers))
    assert KEY.encode() not in outcome.body


async def test_a_redirect_of_its_own_is_not_followed() -> None:
    async def answer(head: bytes, writer: Any) -> None:
        writer.write(page(b"", "301 Moved", Location=f"{here}/v2/?key={KEY}"))
        await writer.drain()

    async with serve(answer) as server:
        here = server.url("").rstrip("/")
        async with routes({"gateway": f"{here}/?key={KEY}&url={{url}}"}) as ways:
            outcome = await ways.fetch(FetchRequest("http://a.example/"))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "gateway_error"


# -- settings


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ({"gateway": "http://api.example/?key=SECRET-KEY"}, r"has no \{url\}"),
        ({"gateway": "ftp://api.example/?key=SECRET-KEY&url={url}"}, "write its address as"),
        ({"gateway": "http://u:SECRET-KEY@api.example/?url={url}"}, "in the query or in headers"),
        ({"gateway": "http://api.example/?key=${NOT_THERE}&url={url}"}, "no variable NOT_THERE"),
        ({"gateway": "http://api.example/?url={url}&c={country}"}, "add country"),
        ({"gateway": "http://api.example/?url={url}", "urls": ["http://h:1"]}, "not both"),
        ({"gateway": "http://api.example/?url={url}", "errors": {"403": "ban"}}, "errors must be"),
    ],
)
def test_a_bad_gateway_is_one_line(pool: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says) as error:
        find_pools(load(None, {"proxies": {"api": pool}}, {}, {}), [], {})
    assert "SECRET-KEY" not in str(error.value)
