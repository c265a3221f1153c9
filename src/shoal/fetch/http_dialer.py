"""Opens HTTP/1.1 connections: directly, by a gateway, or through a proxy.

    direct, gateway     a socket to the host, then TLS for https
    SOCKS5              a socket that the proxy leads to the host, then TLS for https
    HTTP proxy, http    a socket to the proxy, which forwards requests
    HTTP proxy, https   a tunnel through the proxy (CONNECT), and TLS in it

The user chose the proxies, so the guard checks their targets instead (`Guard.check_unresolved`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, cast

from shoal.clock import Clock
from shoal.fetch.dialer import HostConnector, ask_for_tunnel, default_tls, streams
from shoal.fetch.failures import ConnectError, Stage, TlsError
from shoal.fetch.guard import Guard
from shoal.fetch.http_connection import HttpConnection
from shoal.fetch.http_request import Origin
from shoal.fetch.proxy.gateway import Gateway
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.proxy.socks import open_tunnel
from shoal.fetch.resolver import Resolver
from shoal.settings import Settings

T = TypeVar("T")


class HttpDialer:
    def __init__(self, settings: Settings, guard: Guard, resolver: Resolver, clock: Clock) -> None:
        self._hosts = HostConnector(guard, resolver)
        self._unguarded = HostConnector(None, resolver)
        self._make = partial(HttpConnection, settings.min_rate, clock.monotonic)

    async def open(
        self, origin: Origin, proxy: Proxy | None, on_stage: Callable[[Stage], None]
    ) -> HttpConnection:
        """A connection for requests to the origin. `on_stage` is told how far one through a proxy is."""
        if proxy is None:
            return await self._over(await self._hosts.open_socket(origin.host, origin.port), origin)
        if isinstance(proxy, Gateway):
            return await self._over(await self._unguarded.open_socket(origin.host, origin.port), origin)
        on_stage("dialling")
        reached = partial(on_stage, "tunnelling")
        if proxy.scheme == "socks5":
            return await self._over(await open_tunnel(proxy, origin.host, origin.port, reached), origin)
        sock = await self._unguarded.open_socket(proxy.host, proxy.port)
        if origin.scheme == "https":
            return await self._tunnel(sock, proxy, origin, reached)
        to_proxy = Origin(proxy.name, proxy.scheme, proxy.host, proxy.port, "")
        return await self._over(sock, to_proxy)

    async def _over(self, sock: socket.socket, origin: Origin) -> HttpConnection:
        """The connection over a socket."""
        loop = asyncio.get_running_loop()
        is_tls = origin.scheme == "https"
        try:
            _, connection = await _explained(
                origin,
                loop.create_connection(
                    self._make,
                    sock=sock,
                    ssl=default_tls() if is_tls else None,
                    server_hostname=_server_name(origin) if is_tls else None,
                ),
            )
        except BaseException:
            sock.close()
            raise
        return connection

    async def _tunnel(
        self, sock: socket.socket, proxy: Proxy, origin: Origin, reached: Callable[[], None]
    ) -> HttpConnection:
        """The connection to a host over TLS, through an HTTP proxy."""
        ends = await streams(sock, tls_with=proxy.host if proxy.scheme == "https" else None)
        reached()
        await ask_for_tunnel(ends, proxy, f"{_bracketed(origin.host)}:{origin.port}")
        beneath = cast("asyncio.Transport", ends[1].transport)
        connection = self._make()
        connection.beneath = ends
        starting = asyncio.get_running_loop().start_tls(
            beneath, connection, default_tls(), server_hostname=_server_name(origin)
        )
        try:
            transport = await _explained(origin, starting)
            if transport is None:
                raise ConnectionResetError("the connection was closed")
        except BaseException:
            beneath.abort()
            raise
        connection.connection_made(transport)
        return connection


async def _explained(origin: Origin, making: Awaitable[T]) -> T:
    """Errors of TLS and of the connection name the host."""
    try:
        return await making
    except ssl.SSLError as error:
        raise TlsError(origin.host, error) from None
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
        raise ConnectError(origin.host, error) from None


def _server_name(origin: Origin) -> str:
    return origin.host.rstrip(".")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
