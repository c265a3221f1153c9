"""A lower floor: a protocol around a parser of HTTP, without a client library, without tasks and without timeouts.

python bare_httptools.py START_FILE OUTPUT CONCURRENCY follow|list
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

import ada_url
import httptools
import msgspec
import uvloop
from reading import read

HEAD = "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: bare\r\nAccept: */*\r\n\r\n"


class Connection(asyncio.Protocol):
    """Kept open; one request after the other."""

    def __init__(self, crawl: Crawl, origin: str) -> None:
        self._crawl = crawl
        self.origin = origin
        self._host = origin.partition("://")[2]
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._url, self._depth = "", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crawl.lost(exc)

    def ask(self, url: str, depth: int) -> None:
        self._url, self._depth = url, depth
        self.transport.write(HEAD.format(url[len(self.origin) :], self._host).encode())

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    # what the parser calls

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        self._body = []
        self._crawl.answered(self, self._url, self._parser.get_status_code(), body, self._depth)


class Crawl:
    def __init__(self, starts: Sequence[str], output: IO[bytes], concurrency: int, follow: bool) -> None:
        self._seen = set(starts)
        self._queue = deque((url, 0) for url in starts)
        self._output = output
        self._free = concurrency
        self._under_way = 0
        self._follow = follow
        self._idle: dict[str, list[Connection]] = {}
        self._encode = msgspec.json.Encoder().encode
        self._tls = ssl.create_default_context() if starts[0].startswith("https:") else None
        self._dials: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begin_more()
        await self._end
        for connections in self._idle.values():
            for connection in connections:
                connection.transport.abort()

    def _begin_more(self) -> None:
        while self._queue and self._free:
            url, depth = self._queue.popleft()
            self._free -= 1
            self._under_way += 1
            origin = url[: url.index("/", 8)]
            idle = self._idle.get(origin)
            if idle:
                idle.pop().ask(url, depth)
            else:
                dial = asyncio.ensure_future(self._dial(origin, url, depth))
                self._dials.add(dial)
                dial.add_done_callback(self._dialled)

    async def _dial(self, origin: str, url: str, depth: int) -> None:
        host, _, port = origin.partition("://")[2].partition(":")
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(self, origin), host, int(port), ssl=self._tls
        )
        connection.ask(url, depth)

    def _dialled(self, dial: asyncio.Task[None]) -> None:
        self._dials.discard(dial)
        if not dial.cancelled() and (error := dial.exception()) is not None:
            self.lost(error)

    def answered(self, connection: Connection, url: str, status: int, body: bytes, depth: int) -> None:
        if self._follow:
            row, hrefs = read(url, status, body, depth)
            self._output.write(self._encode(row) + b"\n")
            for href in hrefs:
                link = ada_url.join_url(url, href)
                if link not in self._seen:
                    self._seen.add(link)
                    self._queue.append((link, depth + 1))
        else:
            self._output.write(self._encode({"url": url, "status": status}) + b"\n")
        self._idle.setdefault(connection.origin, []).append(connection)
        self._free += 1
        self._under_way -= 1
        self._begin_more()
        if not self._under_way and not self._end.done():
            self._end.set_result(None)

    def lost(self, error: BaseException | None) -> None:
        """Whatever goes wrong ends it: this is a floor, not a crawler."""
        if not self._end.done():
            self._end.set_exception(error or ConnectionError("the server closed a connection"))


if __name__ == "__main__":
    with open(sys.argv[2], "wb") as file:
        starts = Path(sys.argv[1]).read_text().split()
        uvloop.run(Crawl(starts, file, int(sys.argv[3]), sys.argv[4] == "follow").run())
