"""Every private attribute of aiohttp that Shoal uses, under names of our own. No other module touches one.

They may change with any minor release: pyproject.toml bounds the version, and a test checks each of `PRIVATE`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http.cookies import CookieError, Morsel
from socket import socket
from typing import Any

import aiohttp
from aiohttp import AddrInfoType, CookieJar, StreamReader
from aiohttp.abc import ResolveResult
from aiohttp.client_proto import ResponseHandler

from shoal.admit.identity import is_public_suffix
from shoal.fetch.proxy.socks import resolve_nothing

PRIVATE = {
    "ClientSession": ("_retry_connection",),
    "TCPConnector": (
        *("_conns", "_convert_hosts_to_addr_infos", "_create_connection", "_create_direct_connection"),
        *("_factory", "_loop", "_resolve_host", "_wrap_create_connection", "_wrap_existing_connection"),
    ),
    "ResponseHandler": ("_payload", "_reschedule_timeout", "_should_close"),
    "CookieJar": ("_build_morsel", "_expirations", "_is_domain_match"),
}


def never_repeat(client: aiohttp.ClientSession) -> None:
    """Otherwise aiohttp repeats a request whose fresh connection was dropped, which nobody counts."""
    client._retry_connection = False


class Connector(aiohttp.TCPConnector):
    """A connector with hooks for its steps."""

    def __init__(self, *, protocol: Callable[..., ResponseHandler], **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(protocol, loop=self._loop)

    async def dial(self, step: Callable[[], Awaitable[ResponseHandler]]) -> ResponseHandler:
        """Opens a connection by calling `step`."""
        return await step()

    def on_proxy(self) -> None:
        """Called when a proxy is connected, and the host behind it is not yet."""

    def close_idle(self, most: int) -> None:
        """Closes idle connections, host by host, until at most `most` are left."""
        while sum(map(len, self._conns.values())) > most:
            for protocol, _ in self._conns.pop(next(iter(self._conns))):
                protocol.close()

    async def _create_connection(self, *args: Any, **kwargs: Any) -> ResponseHandler:
        return await self.dial(partial(super()._create_connection, *args, **kwargs))

    async def _create_direct_connection(self, *args: Any, **kwargs: Any) -> Any:
        connection = await super()._create_direct_connection(*args, **kwargs)
        self.on_proxy()
        return connection


class SocketConnector(Connector):
    """A connector whose sockets `open_socket` opens."""

    async def open_socket(self, host: str, port: int) -> socket:
        """A socket that is connected to the host."""
        raise NotImplementedError

    async def _resolve_host(self, host: str, port: int, traces: Any = None) -> list[ResolveResult]:
        return await resolve_nothing(host, port)

    async def _wrap_create_connection(self, *args: Any, addr_infos: Any, **kwargs: Any) -> Any:
        sock = await self.open_socket(*addr_infos[0][4][:2])
        return await self._wrap_existing_connection(*args, sock=sock, **kwargs)


class ResolvingConnector(aiohttp.TCPConnector):
    """Resolves names as a connector does, and opens nothing."""

    async def addresses(self, host: str, port: int) -> list[AddrInfoType]:
        return self._convert_hosts_to_addr_infos(await self._resolve_host(host, port))


class Protocol(ResponseHandler):
    @property
    def body(self) -> StreamReader | None:
        """The body of the answer that is being read."""
        return self._payload

    def keep_no_longer(self) -> None:
        """The connection is closed after this answer."""
        self._should_close = True

    def put_off_timeout(self) -> None:
        """Restarts the read timeout: something has arrived."""
        self._reschedule_timeout()


class SiteJar(CookieJar):
    """A jar that refuses cookies for other domains and for public suffixes such as .com or .co.uk."""

    def __init__(self) -> None:
        super().__init__(unsafe=True, quote_cookie=False)  # unsafe: also from IP addresses

    def _build_morsel(self, cookie: Morsel[str]) -> Morsel[str]:
        """A cookie is sent back exactly as it was received, with its quotes, as browsers do."""
        morsel: Morsel[str] = Morsel()
        try:
            morsel.set(cookie.key, cookie.value, cookie.coded_value)
        except CookieError:  # an odd name, which aiohttp can write
            return super()._build_morsel(cookie)
        return morsel

    @staticmethod
    def _is_domain_match(domain: str, hostname: str) -> bool:
        if domain == hostname:
            return True
        return CookieJar._is_domain_match(domain, hostname) and not is_public_suffix(domain)


def deadlines_of(jar: CookieJar) -> Mapping[tuple[str, str, str], float]:
    """When the cookies of a jar expire (epoch seconds), by domain, path without its last slash, and name."""
    return jar._expirations
