"""SOCKS5 (RFC 1928, 1929): opens a socket to the proxy and asks for a tunnel. The proxy resolves the host's name.

Written here because no package closes the socket of a cancelled connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import aiohappyeyeballs

from shoal.fetch.proxy.proxy import Proxy

_VERSION, _PASSWORD, _CONNECT, _NAME = 5, 2, 1, 3
_REFUSED_BY_RULE = 2
_REPLIES = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}


class SocksError(OSError):
    """The proxy does not follow the protocol."""


class SocksAuthError(SocksError):
    """The proxy wants another user or password."""


class SocksReplyError(SocksError):
    """The proxy did not open the tunnel."""

    def __init__(self, code: int) -> None:
        super().__init__(_REPLIES.get(code, f"reply {code}"))
        self.by_rule = code == _REFUSED_BY_RULE


async def open_tunnel(proxy: Proxy, host: str, port: int, on_proxy: Callable[[], None]) -> socket.socket:
    """A socket to the host. `on_proxy` is called when the proxy has accepted the connection and the login."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=0.25, loop=loop)
    try:
        await _introduce(loop, sock, proxy)
        on_proxy()
        await _ask_for(loop, sock, host, port)
    except BaseException:
        sock.close()
        raise
    return sock


async def _introduce(loop: asyncio.AbstractEventLoop, sock: socket.socket, proxy: Proxy) -> None:
    login = proxy.login()
    methods = bytes((0, _PASSWORD)) if login is not None else bytes((0,))
    await loop.sock_sendall(sock, bytes((_VERSION, len(methods))) + methods)
    version, method = await _read(loop, sock, 2)
    if version != _VERSION:
        raise SocksError("this is no SOCKS5 proxy")
    if method == 0:
        return
    if method != _PASSWORD or login is None:
        raise SocksAuthError("it wants a user and a password")
    user, password = login
    if not (0 < len(user) < 256 and len(password) < 256):
        raise SocksAuthError("its user or password is too long for SOCKS5")
    await loop.sock_sendall(sock, bytes((1, len(user))) + user + bytes((len(password),)) + password)
    _, refused = await _read(loop, sock, 2)
    if refused:
        raise SocksAuthError("it does not accept the user or password")


async def _ask_for(loop: asyncio.AbstractEventLoop, sock: socket.socket, host: str, port: int) -> None:
    await loop.sock_sendall(sock, bytes((_VERSION, _CONNECT, 0)) + _address(host) + port.to_bytes(2, "big"))
    version, code, _, kind = await _read(loop, sock, 4)
    if version != _VERSION:
        raise SocksError("this is no SOCKS5 proxy")
    if code:
        raise SocksReplyError(code)
    length = {1: 4, 4: 16}.get(kind) or (await _read(loop, sock, 1))[0]
    await _read(loop, sock, length + 2)


def _address(host: str) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode("idna" if not host.isascii() else "ascii")
        if len(name) > 255:
            raise SocksReplyError(8) from None
        return bytes((_NAME, len(name))) + name
    return bytes((1 if address.version == 4 else 4,)) + address.packed


async def _read(loop: asyncio.AbstractEventLoop, sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part: Any = await loop.sock_recv(sock, size - len(data))
        if not part:
            raise SocksError("the proxy closed the connection")
        data += part
    return data
