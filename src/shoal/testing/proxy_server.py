"""Real proxies on loopback, with habits: HTTP (forwarding and CONNECT) and SOCKS5, with or without a password.

    async with ProxyServer("http", user="u", password="p") as proxy, ProxyServer("socks5") as other:
        ... Settings(proxies={"pool": [proxy.url, other.url]}, pool="pool")

A host that bans a proxy is played by the proxy: it answers 403 in the host's place.

    habit         what it does
    ────────────  ──────────────────────────────────────────────────────────────────────────
    silent        accepts connections, and never answers
    closing       accepts connections, and closes them
    gateway       answers 502 to everything, by itself
    unavailable   answers 503 to everything, by itself, with a page of its own
    truncating    passes the beginning of every answer on, and closes
    resetting     passes the beginning of every answer on, and resets the connection
    dripping      passes answers on a byte at a time
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import quote, urlsplit

Habit = Literal["good", "silent", "closing", "gateway", "unavailable", "truncating", "resetting", "dripping"]

_FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nbanned"
_UNAUTHORIZED = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
)
_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\n\r\n<h1>Out of order</h1>"
_OWN_WORDS = {"gateway": _GATEWAY, "unavailable": _UNAVAILABLE}
_BEGINNING = 64  # bytes of an answer's body, or of a tunnel's last part, that a bad proxy passes on
_DRIP = 0.05  # seconds between two bytes
_TLS_DATA = 23  # the type of a record that is no handshake
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets


class ProxyServer:
    """One proxy while its `async with` block runs. `habit`, `delay`, `banned_by` and `password` may be changed."""

    def __init__(
        self,
        kind: Literal["http", "socks5"] = "http",
        *,
        user: str = "",
        password: str = "",
        habit: Habit = "good",
        delay: float = 0.0,
        banned_by: Iterable[str] = (),
        leaves_by: str = "",
    ) -> None:
        self.kind = kind
        self.user = user
        self.password = password
        self.habit: Habit = habit
        self.delay = delay  # seconds before a request is passed on
        self.banned_by = set(banned_by)  # host:port
        self.leaves_by = leaves_by  # the address that hosts see, such as 127.0.9.1
        self.unreachable: set[str] = set()  # host:port that it cannot connect to
        self.connections = 0
        self.passed: list[str] = []  # host:port of what was passed on
        self.failed: list[str] = []  # … of what it could not reach
        self.heads: list[bytes] = []  # of requests that were forwarded
        self.port = 0
        self._given = (user, password)
        self._running: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<ProxyServer {self.kind} {self.address}: {self.habit}>"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """With the user and password it was made with."""
        user, password = self._given
        login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
        return f"{self.kind}://{login}{self.address}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; once more at the same port after `stop`."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """From now on connections are refused, and those that are open are cut."""
        if self._server is None:
            return
        self._server.close()
        for task in tuple(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._server = None

    # -- one connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self.connections += 1
        try:
            if self.habit == "silent":
                await reader.read()
            elif self.habit != "closing":
                await (self._speak_http if self.kind == "http" else self._speak_socks)(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ExceptionGroup):
            pass  # somebody went away
        finally:
            self._running.discard(task)
            writer.transport.abort()

    async def _speak_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].split(b" ")
            await asyncio.sleep(self.delay)
            if not self._knows(head):
                writer.write(_UNAUTHORIZED)
            elif self.habit in _OWN_WORDS:
                writer.write(_OWN_WORDS[self.habit])
            elif method == b"CONNECT":
                await self._connect_http(target.decode(), reader, writer)
                return
            else:
                await self._forward(head, target.decode(), reader, writer)
            await writer.drain()

    def _knows(self, head: bytes) -> bool:
        if not self.user:
            return True
        token = base64.b64encode(f"{self.user}:{self.password}".encode())
        return b"\r\nproxy-authorization: basic " + token.lower() in head.lower()

    async def _connect_http(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if target in self.banned_by:
            writer.write(_FORBIDDEN)
            return
        try:
            far = await self._open(target)
        except OSError:
            writer.write(_GATEWAY)
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._join((reader, writer), far)

    async def _forward(
        self, head: bytes, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One request, on a connection of its own that ends with the answer."""
        self.heads.append(head)
        parts = urlsplit(target)
        if parts.netloc in self.banned_by:
            writer.write(_FORBIDDEN)
            return
        try:
            far_reader, far_writer = await self._open(parts.netloc)
        except OSError:
            writer.write(_GATEWAY)
            return
        try:
            path = target.partition(parts.netloc)[2] or "/"
            lines = head.split(b"\r\n")
            lines[0] = lines[0].replace(target.encode(), path.encode())
            kept = [line for line in lines[:-2] if not line.lower().startswith((b"proxy-", b"connection:"))]
            far_writer.write(b"\r\n".join([*kept, b"Connection: close", b"", b""]))
            await self._answer(far_reader, writer)
        finally:
            far_writer.transport.abort()

    async def _speak_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        wanted = 2 if self.user else 0
        writer.write(bytes((5, wanted if wanted in methods else 255)))
        if wanted not in methods or (wanted and not await self._knows_socks(reader, writer)):
            return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        target = f"{host}:{int.from_bytes(await reader.readexactly(2), 'big')}"
        await asyncio.sleep(self.delay)
        code = 2 if target in self.banned_by else 1 if self.habit == "gateway" else 0
        if not code:
            try:
                far = await self._open(target)
            except OSError:
                code = 5
        writer.write(bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0)))
        if not code:
            await self._join((reader, writer), far)

    async def _knows_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        _, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        password = await reader.readexactly((await reader.readexactly(1))[0])
        known = (user.decode(), password.decode()) == (self.user, self.password)
        writer.write(bytes((1, 0 if known else 1)))
        return known

    async def _open(self, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = target.rpartition(":")
        if target in self.unreachable:
            self.failed.append(target)
            raise ConnectionRefusedError
        exit_address = (self.leaves_by, 0) if self.leaves_by else None
        ends = await asyncio.open_connection(host.strip("[]") or target, int(port), local_addr=exit_address)
        self.passed.append(target)
        return ends

    # -- passing on

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One answer, by its length; without, as long as there comes something."""
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
        rest = int(length[1]) if length is not None else None
        while rest != 0 and (data := await reader.read(65_536 if rest is None else rest)):
            await self._hand_over(data, writer)
            rest = None if rest is None else rest - len(data)
        if length is None:
            writer.close()

    async def _join(self, near: Ends, far: Ends) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(near[0], far[1]))
                both.create_task(self._bring_back(far[0], near[1]))
        finally:
            far[1].transport.abort()

    async def _bring_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What comes through a tunnel. Bad habits begin after the handshake of TLS, if there is one."""
        with suppress(OSError):
            while data := await reader.read(65_536):
                if data[0] == _TLS_DATA or data.startswith(b"HTTP/"):
                    await self._hand_over(data, writer)
                else:
                    writer.write(data)
                    await writer.drain()
            writer.close()

    async def _hand_over(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self.habit == "dripping":
            for n in range(len(data)):
                writer.write(data[n : n + 1])
                await asyncio.sleep(_DRIP)
        elif self.habit in ("truncating", "resetting"):
            writer.write(data[: min(_BEGINNING, len(data) // 2)])
            await writer.drain()
            if self.habit == "resetting":
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.close()
            raise ConnectionAbortedError
        else:
            writer.write(data)
            await writer.drain()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()
