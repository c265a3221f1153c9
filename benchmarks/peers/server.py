"""The site: every answer is made before the first request, so that a request costs little more than its system calls.

python -m benchmarks.peers.server SHAPE_AS_JSON [CERTIFICATE KEY]

Prints one line, the hosts' addresses as JSON. Then each line read is answered with what was asked for since the last
one (`Asked`). Ends when its standard input closes, so it cannot outlive who started it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import sys
import time
from typing import cast

import msgspec
import uvloop

from benchmarks.peers.asked import Asked
from benchmarks.peers.shapes import Shape
from shoal.testing.web.loopback import bind

_BACKLOG = 1_024
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"


class Host:
    """The pages of a host as they are sent, and how often each was asked for."""

    def __init__(self, shape: Shape, number: int) -> None:
        site = shape.site(number)
        self.answers = {site.path(page).encode(): _answer(site.html(page)) for page in range(site.pages)}
        self.asked: dict[bytes, int] = {}
        self.connections = 0

    def answer(self, path: bytes) -> bytes:
        self.asked[path] = self.asked.get(path, 0) + 1
        return self.answers.get(path, _NOT_FOUND)


def _answer(html: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(html)}\r\n\r\n"
    return head.encode() + html


class Connection(asyncio.Protocol):
    """GET without a body, one after the other, kept open."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._host.connections += 1

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head, data = data[:end], data[end + 4 :]
            self._transport.write(self._host.answer(head.split(b" ", 2)[1]))
            if b"onnection: close" in head:
                self._transport.close()
                return
        self._rest = data


class Server:
    def __init__(self, shape: Shape, tls: ssl.SSLContext | None) -> None:
        self._hosts = [Host(shape, number) for number in range(shape.hosts)]
        self._tls = tls
        self._cpu = 0.0

    async def listen(self) -> list[str]:
        loop = asyncio.get_running_loop()
        addresses = []
        for host, sock in zip(self._hosts, bind(len(self._hosts)), strict=True):
            address, port = sock.getsockname()
            addresses.append(f"{address}:{port}")
            await loop.create_server(
                lambda host=host: Connection(host),
                sock=sock,
                backlog=_BACKLOG,
                ssl=self._tls,
            )
        return addresses

    def take(self) -> Asked:
        """What was asked since the last time."""
        cpu = time.process_time()
        asked = Asked(cpu=cpu - self._cpu, connections=sum(host.connections for host in self._hosts))
        for host in self._hosts:
            asked = asked.with_host(host.asked, host.answers)
            host.asked, host.connections = {}, 0
        self._cpu = cpu
        return asked


def _tls(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


async def serve(shape: Shape, tls: ssl.SSLContext | None) -> None:
    server = Server(shape, tls)
    gc.freeze()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    _say(msgspec.json.encode(await server.listen()))
    server.take()
    while await lines.readline():
        _say(msgspec.json.encode(server.take()))


def _say(line: bytes) -> None:
    os.write(1, line + b"\n")


if __name__ == "__main__":
    uvloop.run(
        serve(
            msgspec.json.decode(sys.argv[1], type=Shape),
            _tls(sys.argv[2], sys.argv[3]) if len(sys.argv) > 2 else None,
        )
    )
