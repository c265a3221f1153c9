"""Connections from the gate to hosts: directly, to addresses that the guard has seen, or by a proxy.

What may go wrong is told in the words of plain HTTP fetching, so a page that a browser asks for fails like any other.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import lru_cache

import aiohappyeyeballs
import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy

from shoal.fetch.aiohttp_private import Lookup
from shoal.fetch.browser.http1 import MAX_LINE, MessageError, read_head, status_of
from shoal.fetch.browser.tunnel import Ends
from shoal.fetch.failures import Stage, explain, explain_proxy
from shoal.fetch.guard import Guard
from shoal.fetch.proxy.pools import Proxy
from shoal.fetch.resolver import Resolver
from shoal.fetch.socks import open_tunnel
from shoal.model import Failure

_STAGGER = 0.25  # seconds before the next address of a host is tried as well


class Hosts(Lookup):
    """Connects to hosts. Of aiohttp's connector only the resolving is used; the guard hears of every name that is
    resolved, and sees every address that is connected to."""

    def __init__(self, guard: Guard, resolver: Resolver) -> None:
        super().__init__(resolver=resolver.for_connector(guard), use_dns_cache=False)
        self._guard = guard

    async def connect_to(self, host: str, port: int) -> Ends:
        key = ConnectionKey(host, port, False, True, None, None, None)
        try:
            found = await self.addresses(host, port)
        except OSError as error:
            raise aiohttp.ClientConnectorDNSError(key, error) from None
        try:
            sock = await aiohappyeyeballs.start_connection(
                found,
                happy_eyeballs_delay=_STAGGER,
                socket_factory=self._guard.socket_factory,
            )
        except OSError as error:
            raise aiohttp.ClientConnectorError(key, error) from None
        return await _streams(sock)


class Dialler:
    """Opens the connections of one door."""

    def __init__(self, hosts: Hosts, guard: Guard, proxy: Proxy | None, connect_timeout: float) -> None:
        self._hosts = hosts
        self._guard = guard
        self._proxy = proxy
        self._timeout = connect_timeout
        # Plain requests go to an HTTP proxy as they are; many of them tunnel to TLS ports only.
        self.forwards = proxy is not None and proxy.scheme != "socks5"

    @property
    def login(self) -> bytes | None:
        """What the proxy wants to be told with a request that it forwards."""
        header = self._proxy.header() if self._proxy is not None else None
        return None if header is None else header.encode()

    async def open(self, host: str, port: int, *, tunnel: bool) -> Ends | Failure:
        """A connection to the host; without `tunnel` it may be one to a proxy that forwards requests."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        stage: list[Stage] = ["dialling"]
        try:
            async with asyncio.timeout(self._timeout):
                if self._proxy is None:
                    return await self._hosts.connect_to(host, port)
                self._guard.check_unresolved(host, port)
                return await self._open_by(self._proxy, host, port, tunnel, stage)
        except TimeoutError:
            error: Exception = aiohttp.ConnectionTimeoutError()
        except Exception as exc:
            error = exc
        return self._failure(error, stage[0], loop.time() - started)

    async def _open_by(self, proxy: Proxy, host: str, port: int, tunnel: bool, stage: list[Stage]) -> Ends:
        def reached() -> None:
            stage[0] = "tunnelling"

        if proxy.scheme == "socks5":
            return await _streams(await open_tunnel(proxy, host, port, reached))
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=_STAGGER)
        ends = await _streams(sock, tls_with=proxy.host if proxy.scheme == "https" else None)
        if tunnel:
            reached()
            await _ask_for_tunnel(ends, proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return ends

    def _failure(self, error: Exception, stage: Stage, elapsed: float) -> Failure:
        proxy = self._proxy
        kind, detail = explain(error) if proxy is None else explain_proxy(error, proxy.name, stage)
        return Failure(kind=kind, detail=detail, elapsed=elapsed)

    def login_refused(self) -> Failure:
        """For a proxy that answers 407 to a request that it should forward."""
        assert self._proxy is not None
        return self._failure(_ProxyAnswer(407, self._proxy), "connected", 0.0)


class _ProxyAnswer(aiohttp.ClientHttpProxyError):
    def __init__(self, status: int, proxy: Proxy) -> None:
        empty: CIMultiDict[str] = CIMultiDict()
        request = aiohttp.RequestInfo(proxy.url, "CONNECT", CIMultiDictProxy(empty), proxy.url)
        super().__init__(request, (), status=status)


async def _ask_for_tunnel(ends: Ends, proxy: Proxy, target: str) -> None:
    reader, writer = ends
    try:
        login = proxy.header()
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [] if login is None else [f"Proxy-Authorization: {login}"]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await read_head(reader)
        if head is None:
            raise ConnectionResetError("the proxy closed the connection")
        if not 200 <= (status := status_of(head)) < 300:
            raise _ProxyAnswer(status, proxy)
    except MessageError as error:
        writer.transport.abort()
        raise OSError(f"its answer is not HTTP: {error}") from None
    except BaseException:
        writer.transport.abort()
        raise


async def _streams(sock: socket.socket, tls_with: str | None = None) -> Ends:
    try:
        return await asyncio.open_connection(
            sock=sock,
            limit=MAX_LINE,
            ssl=_tls() if tls_with else None,
            server_hostname=tls_with,
        )
    except BaseException:
        sock.close()
        raise


@lru_cache(1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
