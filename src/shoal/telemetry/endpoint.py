"""A small HTTP server inside a process that has better things to do: GET on a few fixed paths, and nothing else.

Whoever asks is cut off if they are slow, say too much, or are too many. A connection serves one request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from msgspec import Struct

from shoal.errors import UsageError

log = logging.getLogger("shoal")

LOOPBACK = "127.0.0.1"
MOST_AT_ONCE = 32
_HEAD_LIMIT = 8192  # bytes of a request
_PATIENCE = 10.0  # seconds for a request, its answer, and its reading


class Answer(Struct, frozen=True):
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Route = Callable[[], Awaitable[Answer]]


def parse_address(text: str) -> tuple[str, int]:
    """ "9464" or "0.0.0.0:9464" or "[::]:9464": the port, on this machine only unless an address is named."""
    host, _, port = text.strip().rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"--metrics {text!r}: write a port such as 9464, or an address and a port such as 0.0.0.0:9464"
        )
    return host.strip("[]") or LOOPBACK, int(port)


@asynccontextmanager
async def listening(address: str, routes: Mapping[str, Route]) -> AsyncIterator[str]:
    """Answers at the address until left; gives the URL, with the port if any was free to choose."""
    host, port = parse_address(address)
    desk = _Desk(routes)
    try:
        server = await asyncio.start_server(desk.serve, host, port, limit=_HEAD_LIMIT)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"--metrics {address}: cannot listen there ({reason}): name another port, or 0 for a free one"
        ) from None
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await desk.leave()


class _Desk:
    """Serves one request after the other, and not too many at a time."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._serving: set[asyncio.Task[None]] = set()

    async def leave(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._serving) < MOST_AT_ONCE:
                self._serving.add(task)
                async with asyncio.timeout(_PATIENCE):
                    writer.write(await self._answer(reader))
                    await writer.drain()
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            writer.transport.abort()  # they are gone, or shall be, whatever is still to be sent
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _encode(Answer(b"only GET\n", HTTPStatus.METHOD_NOT_ALLOWED))
        route = self._routes.get(path)
        if route is None:
            known = " ".join(self._routes)
            return _encode(Answer(f"not here; try {known}\n".encode(), HTTPStatus.NOT_FOUND))
        try:
            answer = await route()
        except Exception:
            log.exception("a bug in Shoal, met on %s", path)
            answer = Answer(b"a bug, see the log\n", HTTPStatus.INTERNAL_SERVER_ERROR)
        return _encode(answer, with_body=method == "GET")


def _encode(answer: Answer, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")
