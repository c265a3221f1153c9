"""The HTTP endpoint of a process: /metrics, /healthz and /readyz, and nothing else.

Whoever asks is cut off if they are slow, say too much, or are too many. A connection serves one request.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct

from shoal.engine.tally import TallyReport
from shoal.engine.vitals import StatusSource, Vitals
from shoal.errors import ShoalError, UsageError
from shoal.frontier.protocol import Frontier

if TYPE_CHECKING:
    from shoal.inspect.overview import Overview


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
    """Serves at the address while its block runs; yields the URL, with the port that was chosen."""
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


_STORE_PATIENCE = 3.0  # seconds for the store to answer
_FRESH = 1.0  # seconds for which a look at the store may be shown again


class Probes:
    """What a process answers when it is asked over HTTP how it is: /metrics, /healthz and /readyz.

    Healthy means that a restart would not help: the event loop turns, and the engine either moves or waits for the
    store. Ready means that there is work it could do: the store answers, and nobody has told it to stop.
    """

    def __init__(self) -> None:
        self._frontier: Frontier | None = None
        self._process: StatusSource | None = None
        self._whole_store = False
        self._looking = asyncio.Lock()
        self._overview: Overview | None = None
        self._until = 0.0

    def watch(self, frontier: Frontier, process: StatusSource, *, whole_store: bool) -> None:
        """Sets what to report on. `whole_store`: jobs and queues too. In a fleet every worker would report the same,
        and read it from the store each time."""
        self._frontier, self._process, self._whole_store = frontier, process, whole_store

    async def metrics(self) -> Answer:
        from shoal.telemetry.metrics import CONTENT_TYPE, render_process, render_store

        if self._process is None:
            return Answer(render_process(TallyReport(), Vitals()), content_type=CONTENT_TYPE)
        own = render_process(self._process.report(), self._process.vitals())
        overview = await self._look() if self._whole_store else None
        up = overview is not None or (not self._whole_store and await self._store_answers())
        return Answer(own + render_store(overview, up=up), content_type=CONTENT_TYPE)

    async def healthz(self) -> Answer:
        trouble = self._process.hangs() if self._process is not None else ""
        if trouble and await self._store_answers():
            return _no(trouble)
        return Answer(b"ok\n")

    async def readyz(self) -> Answer:
        if self._process is None:
            return _no("starting")
        if self._process.stopping():
            return _no("stopping")
        return Answer(b"ok\n") if await self._store_answers() else _no("the store does not answer")

    async def _store_answers(self) -> bool:
        assert self._frontier is not None
        try:
            async with asyncio.timeout(_STORE_PATIENCE):
                await self._frontier.now()
        except (ShoalError, TimeoutError):
            return False
        return True

    async def _look(self) -> Overview | None:
        """None: the store does not answer."""
        from shoal.inspect.overview import look

        assert self._frontier is not None
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(_STORE_PATIENCE), self._looking:
                if now() >= self._until:
                    self._overview = await look(self._frontier)
                    self._until = now() + _FRESH
        except (ShoalError, TimeoutError):
            return None
        return self._overview


def _no(why: str) -> Answer:
    return Answer(f"{why}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


@asynccontextmanager
async def probes_at(address: str) -> AsyncIterator[Probes]:
    """Serves at the address while its block runs, and prints the URL. Without an address, it serves nothing."""
    probes = Probes()
    if not address:
        yield probes
        return
    from shoal.telemetry.metrics import check_installed

    check_installed()
    routes = {"/metrics": probes.metrics, "/healthz": probes.healthz, "/readyz": probes.readyz}
    async with listening(address, routes) as url:
        sys.stderr.write(f"metrics are at {url}/metrics\n")
        yield probes
