"""Connections to hosts for the browser's gate and for HTTP/2: to addresses that the guard allows, or through a proxy.

Failures are described as in plain HTTP fetching, so a page in a browser fails like any other.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType

from shoal.fetch.failures import (
    ConnectError,
    ConnectTimeoutError,
    ProxyAnswerError,
    ResolveError,
    Stage,
    explain,
    explain_proxy,
)
from shoal.fetch.guard import Guard
from shoal.fetch.http_messages import MAX_LINE, MessageError, read_head, status_of
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.proxy.socks import open_tunnel
from shoal.fetch.resolver import Resolver
from shoal.model import Failure

_STAGGER = 0.25  # seconds before the next address of a host is tried as well


class HostConnector:
    """Connects to hosts. The guard learns what every name resolves to, and checks every address before it is used.
    Without a guard, any address may be connected to."""

    def __init__(self, guard: Guard | None, resolver: Resolver) -> None:
        self._guard = guard
        self._resolver = resolver
        self._turn = 0

    async def open_socket(self, host: str, port: int) -> socket.socket:
        """A socket that is connected to the host."""
        try:
            found = await self.addresses(host, port)
        except OSError as error:
            raise ResolveError(host, error) from None
        try:
            return await aiohappyeyeballs.start_connection(
                found,
                happy_eyeballs_delay=_STAGGER,
                socket_factory=None if self._guard is None else self._guard.socket_factory,
            )
        except OSError as error:
            raise ConnectError(host, error) from None

    async def connect_to(self, host: str, port: int) -> Streams:
        return await streams(await self.open_socket(host, port))

    async def addresses(self, host: str, port: int) -> list[AddrInfoType]:
        addresses = await self._resolver.resolve(host)
        if self._guard is not None:
            self._guard.note(host, port, addresses)
        return [_info(address, port) for address in self._in_turn(addresses)]

    def _in_turn(self, addresses: tuple[str, ...]) -> tuple[str, ...]:
        """IPv6 first; within a family another address first each time, so that a site's servers share the load."""
        if len(addresses) == 1:
            return addresses
        self._turn += 1
        six = [address for address in addresses if ":" in address]
        four = [address for address in addresses if ":" not in address]
        return (*_rotated(six, self._turn), *_rotated(four, self._turn))


def _rotated(addresses: list[str], turn: int) -> list[str]:
    first = turn % len(addresses) if addresses else 0
    return addresses[first:] + addresses[:first]


def _info(address: str, port: int) -> AddrInfoType:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


async def sockets_closed() -> None:
    """Waits until the loop has closed what was aborted: it does that in its next rounds."""
    for _ in range(3):
        await asyncio.sleep(0)


class Dialer:
    """Opens connections, all through one proxy or all without."""

    def __init__(
        self, hosts: HostConnector, guard: Guard, proxy: Proxy | None, connect_timeout: float
    ) -> None:
        self._hosts = hosts
        self._guard = guard
        self._proxy = proxy
        self._timeout = connect_timeout
        # Plain requests go to an HTTP proxy as they are; many of them tunnel to TLS ports only.
        self.forwards = proxy is not None and proxy.scheme != "socks5"

    @property
    def login(self) -> bytes | None:
        """The Proxy-Authorization of a request that the proxy forwards."""
        header = self._proxy.header() if self._proxy is not None else None
        return None if header is None else header.encode()

    async def open(self, host: str, port: int, *, tunnel: bool) -> Streams | Failure:
        """A connection to the host. Without `tunnel`, it may be one to a proxy that forwards requests."""
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
            error: Exception = ConnectTimeoutError()
        except Exception as exc:
            error = exc
        return self._failure(error, stage[0], loop.time() - started)

    async def _open_by(self, proxy: Proxy, host: str, port: int, tunnel: bool, stage: list[Stage]) -> Streams:
        def reached() -> None:
            stage[0] = "tunnelling"

        if proxy.scheme == "socks5":
            return await streams(await open_tunnel(proxy, host, port, reached))
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=_STAGGER)
        ends = await streams(sock, tls_with=proxy.host if proxy.scheme == "https" else None)
        if tunnel:
            reached()
            await ask_for_tunnel(ends, proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return ends

    def _failure(self, error: Exception, stage: Stage, elapsed: float) -> Failure:
        proxy = self._proxy
        kind, detail = explain(error) if proxy is None else explain_proxy(error, proxy.name, stage)
        return Failure(kind=kind, detail=detail, elapsed=elapsed)

    def login_refused(self) -> Failure:
        """The failure for a proxy that answers 407 to a request that it should forward."""
        assert self._proxy is not None
        return self._failure(ProxyAnswerError(407), "connected", 0.0)


async def ask_for_tunnel(ends: Streams, proxy: Proxy, target: str) -> None:
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
            raise ProxyAnswerError(status)
    except MessageError as error:
        writer.transport.abort()
        raise OSError(f"its answer is not HTTP: {error}") from None
    except BaseException:
        writer.transport.abort()
        raise


async def streams(sock: socket.socket, tls_with: str | None = None) -> Streams:
    try:
        return await asyncio.open_connection(
            sock=sock,
            limit=MAX_LINE,
            ssl=default_tls() if tls_with else None,
            server_hostname=tls_with,
        )
    except BaseException:
        sock.close()
        raise


def default_tls() -> ssl.SSLContext:
    """Trusts what the system trusts, or what SSL_CERT_FILE and SSL_CERT_DIR name."""
    return _tls(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(4)
def _tls(file: str | None, directory: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


# -- tunnels
#
# Protocols rather than streams: with a task and a buffer for each direction, busy tunnels would cost a third more CPU.


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def relay(
    near: Streams, far: Streams, on_sent: Callable[[int], None], on_received: Callable[[int], None]
) -> None:
    """Passes data between two connections until the near one ends. The caller closes the far one; the streams cannot be
    used afterwards. `on_sent` and `on_received` get the size of every piece, as seen from the near side."""
    near_side, far_side = (
        cast("asyncio.Transport", near[1].transport),
        cast("asyncio.Transport", far[1].transport),
    )
    if near_side.is_closing() or far_side.is_closing():
        return
    ended = asyncio.Event()
    outward = _Listener(near_side, far_side, on_sent, ended.set)
    inward = _Listener(far_side, near_side, on_received, near_side.close)
    outward.partner, inward.partner = inward, outward
    await outward.take_over(near[0])
    await inward.take_over(far[0])
    await ended.wait()


class _Listener(asyncio.Protocol):
    """Passes everything from one connection to the other, no faster than the other accepts it."""

    partner: _Listener

    def __init__(
        self,
        own: asyncio.Transport,
        other: asyncio.Transport,
        on_data: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._own = own
        self._other = other
        self._on_data = on_data
        self._on_lost = on_lost
        self._heard_all = False

    async def take_over(self, reader: asyncio.StreamReader) -> None:
        """Replaces the stream as the protocol, and passes on what the stream has buffered."""
        over = reader.at_eof()
        self._own.set_protocol(self)
        reader.feed_eof()
        if rest := await reader.read():
            self.data_received(rest)
        if over:
            self.eof_received()

    def data_received(self, data: bytes) -> None:
        self._on_data(len(data))
        self._other.write(data)

    def eof_received(self) -> bool:
        """One side may end before the other."""
        self._heard_all = True
        if self.partner._heard_all or not self._other.can_write_eof():
            self._other.close()
            self._own.close()
        else:
            self._other.write_eof()
        return self._own.can_write_eof()  # half open, which TLS cannot be

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()

    def pause_writing(self) -> None:
        if not self._other.is_closing():
            self._other.pause_reading()

    def resume_writing(self) -> None:
        if not self._other.is_closing():
            self._other.resume_reading()
