"""HTTP/1.1 for the server side, as little as a test server needs: GET, HEAD and POST, keep-alive, no pipelining.

Plain protocol callbacks and one write for most answers keep it cheap, so that benchmarks measure the client.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from typing import cast

from shoal.testing.web.habits import Host
from shoal.testing.web.profile import NO_ANSWER, Hit
from shoal.testing.web.site import Answer

_MAX_HEAD = 65_536
_BODY_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_BROWSER = re.compile(rb"\r\nsec-fetch-mode:", re.IGNORECASE)  # only browsers tell what a request is for


class HostServer:
    """What the connections to one host share."""

    def __init__(self, name: str, habit: Host, record: Callable[[Hit], None]) -> None:
        self.name = name
        self.record = record
        self.in_flight = 0
        self.connections: set[Connection] = set()
        self.behave(habit)

    def behave(self, habit: Host) -> None:
        self.habit = habit
        self.closes_at_once = habit.profile.kind == "closing"


class Connection(asyncio.Protocol):
    """One client. A request is read, decided by the host's habit, and carried out before the next is looked at."""

    def __init__(self, server: HostServer) -> None:
        self.server = server
        self.lost = asyncio.Event()
        self._buffer = b""
        self._current: _Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.client: str = transport.get_extra_info("peername", ("",))[0]
        self.server.connections.add(self)
        if self.server.closes_at_once:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        if self._current is not None:
            self._current.finish(complete=False)
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._current is None:
            self._next_request()

    def pause_writing(self) -> None:
        if self._current is not None:
            self._current.paused = True

    def resume_writing(self) -> None:
        if self._current is not None and self._current.paused:
            self._current.paused = False
            self._current.send_block()

    def hurry(self) -> None:
        if self._current is not None:
            self._current.hurry()

    def exchange_ended(self, *, keep_alive: bool) -> None:
        self._current = None
        if not keep_alive:
            self.transport.close()
        elif self._buffer:
            self._next_request()

    def _next_request(self) -> None:
        end = self._buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            if len(self._buffer) > _MAX_HEAD:
                self.transport.abort()
            return
        head = self._buffer[:end]
        length = _BODY_LENGTH.search(head)
        if length is not None:
            end += int(length[1])
            if len(self._buffer) < end:
                return
        self._buffer = self._buffer[end:]
        method, _, rest = head.partition(b" ")
        path, _, rest = rest.partition(b" ")
        keep_alive = rest.startswith(b"HTTP/1.1\r\n") and _CLOSE.search(head) is None
        self._current = _Exchange(
            self,
            path.decode("latin-1"),
            only_head=method == b"HEAD",
            keep_alive=keep_alive,
            in_browser=_BROWSER.search(head) is not None,
        )
        self._current.start()


class _Exchange:
    """One request and its answer; ends exactly once, and is then recorded."""

    __slots__ = (
        "_answer",
        "_concurrent",
        "_connection",
        "_in_browser",
        "_keep_alive",
        "_next_step",
        "_only_head",
        "_path",
        "_server",
        "_started",
        "_stream",
        "paused",
    )

    def __init__(
        self, connection: Connection, path: str, *, only_head: bool, keep_alive: bool, in_browser: bool
    ) -> None:
        self._connection = connection
        self._server = connection.server
        self._path = path
        self._only_head = only_head
        self._keep_alive = keep_alive
        self._in_browser = in_browser
        self._next_step: asyncio.Handle | None = None
        self._stream: Iterator[bytes] | None = None
        self.paused = False

    def start(self) -> None:
        self._started = time.monotonic()
        self._server.in_flight += 1
        self._concurrent = self._server.in_flight
        self._answer = answer = self._server.habit.answer(self._path, self._started, self._connection.client)
        if answer.status == NO_ANSWER:
            return
        if answer.delay:
            self._next_step = asyncio.get_running_loop().call_later(answer.delay, self._send)
        else:
            self._send()

    def hurry(self) -> None:
        """Answers now, if it was to answer later."""
        if self._next_step is not None and self._stream is None:
            self._cancel_next_step()
            self._send()

    def _send(self) -> None:
        answer, transport = self._answer, self._connection.transport
        if self._only_head:
            transport.write(answer.head())
        else:
            transport.write(answer.head() + answer.body)
            if answer.stream is not None:
                self._stream = answer.stream
                self.send_block()
                return
        self.finish(complete=True)

    def send_block(self) -> None:
        """One block a turn of the loop: a client that reads fast must not keep all others waiting."""
        self._cancel_next_step()  # else a pause and a resume within one turn would leave two of these running
        if self._stream is None or self.paused:
            return
        block = next(self._stream, None)
        if block is None:
            self.finish(complete=True)
            return
        self._connection.transport.write(_framed(block, self._answer))
        loop, pause = asyncio.get_running_loop(), self._answer.pause
        self._next_step = (
            loop.call_later(pause, self.send_block) if pause else loop.call_soon(self.send_block)
        )

    def finish(self, *, complete: bool) -> None:
        self._cancel_next_step()
        self._stream = None
        server = self._server
        server.in_flight -= 1
        status = self._answer.status if complete else NO_ANSWER
        hit = Hit(
            server.name,
            self._path,
            status,
            self._started,
            time.monotonic(),
            self._concurrent,
            self._in_browser,
        )
        server.record(hit)
        self._connection.exchange_ended(keep_alive=complete and self._keep_alive and not self._answer.closes)

    def _cancel_next_step(self) -> None:
        if self._next_step is not None:
            self._next_step.cancel()


def _framed(block: bytes, answer: Answer) -> bytes:
    if answer.length is not None:
        return block
    return b"%x\r\n%b\r\n" % (len(block), block)
