"""Real proxies and real sockets: what goes through them, whose fault a failure is, and what is never shown."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from integration.raw_server import always, page, serve
from integration.tls_front import tls_front
from shoal.clock import SystemClock
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings
from shoal.testing.proxy_server import ProxyServer

PASSWORD = "hunter2:/@ß"
CERTS = Path(__file__).parent / "certs"
KINDS: list[Literal["http", "socks5"]] = ["http", "socks5"]
LOOPBACK = ["127.0.0.0/8", "::1/128"]


def proxy_of(url: str) -> Proxy:
    return load_pools(Settings(proxies={"pool": [url]}), {})["pool"][0]


@asynccontextmanager
async def transport(allow: list[str] | None = None, **settings: float) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(
        Settings(**settings),  # type: ignore[arg-type]
        Guard(LOOPBACK if allow is None else allow),
        SystemClock(),
    )
    try:
        yield made
    finally:
        await made.close()


async def fetch(url: str, proxy: ProxyServer, allow: list[str] | None = None, **settings: float) -> Outcome:
    async with asyncio.timeout(30), transport(allow, **settings) as http:
        return await http.fetch(FetchRequest(url, proxy=proxy_of(proxy.url)))


def failed(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own certificates are trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))


# -- passing


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_comes_through(kind: Literal["http", "socks5"]) -> None:
    async with (
        serve(always(page(b"hello"))) as server,
        ProxyServer(kind, user="u", password=PASSWORD) as proxy,
    ):
        outcome = await fetch(server.url("/x?y=%2F"), proxy)
    assert isinstance(outcome, Response)
    assert outcome.body == b"hello"
    assert server.paths == ["/x?y=%2F"]
    assert proxy.passed == [f"127.0.0.1:{server.port}"]
    assert b"roxy-" not in server.hits[0], "what is for the proxy stays there"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("trusting")
async def test_tls_is_with_the_host(kind: Literal["http", "socks5"]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
    async with (
        serve(always(page()), tls=context) as server,
        ProxyServer(kind, user="u", password="p") as proxy,
    ):
        outcome = await fetch(server.url("/"), proxy)
    assert isinstance(outcome, Response), outcome
    assert proxy.passed == [f"127.0.0.1:{server.port}"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bad_certificate_is_the_hosts(kind: Literal["http", "socks5"]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
    async with serve(always(page()), tls=context) as server, ProxyServer(kind) as proxy:
        assert failed(await fetch(server.url("/"), proxy)).kind == "tls"


@pytest.mark.parametrize("kind", KINDS)
async def test_connections_are_kept(kind: Literal["http", "socks5"]) -> None:
    async with serve(always(page())) as server, ProxyServer(kind) as proxy, transport() as http:
        for _ in range(3):
            outcome = await http.fetch(FetchRequest(server.url("/"), proxy=proxy_of(proxy.url)))
            assert isinstance(outcome, Response)
    assert proxy.connections == 1


async def test_names_are_for_the_proxy_to_resolve() -> None:
    async with ProxyServer("socks5") as proxy:
        await fetch("http://no-such-host.invalid/", proxy)
    async with ProxyServer("http") as other:
        await fetch("http://no-such-host.invalid:81/", other)
        assert b"GET http://no-such-host.invalid:81/ " in other.heads[0]


# -- whose fault


@pytest.mark.parametrize("kind", KINDS)
async def test_a_proxy_that_is_not_there(kind: Literal["http", "socks5"]) -> None:
    proxy = ProxyServer(kind, user="u", password=PASSWORD)
    async with proxy:
        pass
    failure = failed(await fetch("http://127.0.0.1:9/", proxy))
    assert failure.kind == "proxy_connect"
    assert f"pool/127.0.0.1:{proxy.port}" in failure.detail


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_wrong_password(kind: Literal["http", "socks5"], scheme: str) -> None:
    async with ProxyServer(kind, user="u", password=PASSWORD) as proxy:
        proxy.password = "changed"
        failure = failed(await fetch(f"{scheme}://127.0.0.1:9/", proxy))
    assert failure.kind == "proxy_auth"
    assert "hunter2" not in repr(failure)


async def test_a_proxy_that_never_answers_over_socks() -> None:
    async with ProxyServer("socks5", habit="silent") as proxy:
        assert failed(await fetch("http://127.0.0.1:9/", proxy, connect_timeout=0.2)).kind == "proxy_timeout"


@pytest.mark.parametrize(("kind", "scheme"), [("http", "https"), ("socks5", "http"), ("socks5", "https")])
async def test_a_host_that_the_proxy_cannot_reach(kind: Literal["http", "socks5"], scheme: str) -> None:
    async with ProxyServer(kind) as proxy:
        assert failed(await fetch(f"{scheme}://127.0.0.1:9/", proxy)).kind == "proxy_gateway"
    async with ProxyServer(kind, banned_by=["127.0.0.1:9"]) as proxy:
        assert failed(await fetch(f"{scheme}://127.0.0.1:9/", proxy)).kind == "proxy_refused"


async def test_a_tunnel_that_does_not_come_about() -> None:
    async with ProxyServer("http", delay=5) as proxy:
        assert failed(await fetch("https://127.0.0.1:9/", proxy, connect_timeout=0.2)).kind == "proxy_gateway"


async def test_silence_behind_a_proxy_is_told_as_it_is() -> None:
    async with ProxyServer("http", delay=5) as proxy:
        assert failed(await fetch("http://127.0.0.1:9/", proxy, read_timeout=0.2)).kind == "read_timeout"


# -- the guard


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "localhost", "a.localhost"],
)
async def test_private_targets_are_refused_though_the_proxy_is_private(
    kind: Literal["http", "socks5"], host: str
) -> None:
    async with ProxyServer(kind) as proxy:
        failure = failed(await fetch(f"http://{host}:81/", proxy, allow=[]))
    assert failure.kind == "forbidden_address"
    assert proxy.connections == 0


async def test_the_proxys_own_address_is_no_target() -> None:
    async with ProxyServer("http") as proxy, transport([]) as http:
        await http.fetch(FetchRequest("http://example.invalid/", proxy=proxy_of(proxy.url)))
        direct = await http.fetch(FetchRequest(f"http://{proxy.address}/"))
    assert failed(direct).kind == "forbidden_address"


# -- cancelling


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_cancelled_fetch_leaves_no_connection(kind: Literal["http", "socks5"], scheme: str) -> None:
    async with ProxyServer(kind, habit="silent") as proxy, transport() as http:
        fetching = asyncio.create_task(
            http.fetch(FetchRequest(f"{scheme}://127.0.0.1:9/", proxy=proxy_of(proxy.url)))
        )
        async with asyncio.timeout(30):
            while not proxy._running:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            fetching.cancel()
            while proxy._running:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert fetching.cancelled()


# -- a proxy that is spoken to by TLS


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.usefixtures("trusting")
async def test_a_proxy_behind_tls(scheme: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
    tls = context if scheme == "https" else None
    async with (
        serve(always(page()), tls=tls) as server,
        ProxyServer(user="u", password=PASSWORD) as proxy,
        tls_front(proxy.port) as port,
        transport() as http,
    ):
        url = proxy.url.replace("http://", "https://").replace(str(proxy.port), str(port))
        outcome = await http.fetch(FetchRequest(server.url("/"), proxy=proxy_of(url)))
    assert isinstance(outcome, Response), outcome
    assert proxy.passed == [f"127.0.0.1:{server.port}"]


async def test_a_proxy_whose_certificate_is_not_trusted() -> None:
    async with ProxyServer() as proxy, tls_front(proxy.port) as port, transport() as http:
        outcome = await http.fetch(
            FetchRequest("http://127.0.0.1:9/", proxy=proxy_of(f"https://127.0.0.1:{port}"))
        )
    assert failed(outcome).kind == "proxy_connect"


@pytest.mark.parametrize("kind", KINDS)
async def test_the_test_proxy_can_leave_by_an_address_of_its_own(kind: Literal["http", "socks5"]) -> None:
    """Hosts that ban by address tell such proxies apart."""
    seen: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, ProxyServer(kind, leaves_by="127.0.0.9") as proxy:
        outcome = await fetch(f"http://127.0.0.1:{port}/", proxy)
    assert isinstance(outcome, Response), outcome
    assert seen == ["127.0.0.9"]
