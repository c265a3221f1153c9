"""One HTTP/1.1 connection, and those that are kept for the next request.

Whoever reads a body bounds it. What is not body is bounded here: heads without end, interim answers, tiny chunks, bytes
that arrive too slowly. One timer serves a connection for its whole life: it is set again only when it fires, so a quick
exchange sets none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import cast

from shoal.fetch.body_reader import Meter
from shoal.fetch.failures import BrokenAnswerError, FloodError, ReadTimeoutError
from shoal.fetch.http_answer import SWITCHING, AnswerReader, Head
from shoal.limits import ANSWER_HEADERS, BODY_OVERHEAD

KEEP_ALIVE = 15.0  # seconds that a connection may be idle
_PIECE = 64 * 1024  # bytes of a request that are written at once
_MOST_UNREAD = 256 * 1024  # bytes of a body; then the server has to wait


class HttpConnection(asyncio.Protocol):
    """One connection, with at most one exchange at a time."""

    def __init__(self, min_rate: float, clock: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._meter = Meter(min_rate, self._loop.time)
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None  # None: it is idle
        self._waiter: asyncio.Future[None] | None = None
        self._enough = 0  # bytes of a body that are worth waking up for
        self._unsent = memoryview(b"")  # of the request
        self._is_full = False  # the server has to take what is written first
        self._paused = False
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._idle_until = 0.0
        self._deadline = self._read_timeout = self._heard = 0.0
        self.beneath: object = None  # what carries it, if it is a tunnel
        self.received = 0  # bytes of the current exchange
        self.first_byte = 0.0  # when its head was complete
        self.on_end: Callable[[HttpConnection], object] | None = None  # called when an idle one is closed

    def __repr__(self) -> str:
        state = "closed" if self._transport is None else "idle" if self._reader is None else "busy"
        return f"<HttpConnection: {state}, {self.received} bytes received>"

    # -- one exchange

    def send(self, data: bytes, *, is_head: bool, enough: int, read_timeout: float, deadline: float) -> None:
        """Sends a request. `deadline` is in the loop's time. See `answer` for `enough`."""
        now = self._loop.time()
        self._reader = AnswerReader(is_head=is_head)
        self._meter.reset()
        self.received = 0
        self._enough = enough
        self._deadline, self._read_timeout, self._heard = deadline, read_timeout, now
        self._set_timer(min(deadline, now + read_timeout))
        if self._transport is None:
            self._reader.feed_eof()
        else:
            if len(data) > _PIECE:  # TLS would take half a megabyte, and say nothing while it sends that
                self._transport.set_write_buffer_limits(_PIECE)
            self._unsent = memoryview(data)
            self._send_more()

    def _send_more(self) -> None:
        """The next piece of the request, if the server takes more. Transports do not tell what they have not sent over
        TLS."""
        transport = self._transport
        if self._unsent and not self._is_full and transport is not None and not transport.is_closing():
            piece, self._unsent = self._unsent[:_PIECE], self._unsent[_PIECE:]
            transport.write(piece)
            if not self._is_full:
                self._send_more_soon()

    def _send_more_soon(self) -> None:
        """After the loop has read what there is: an early answer of a server that closes then is lost if a write fails
        before. (The loop reads after what was called soon, so it takes two turns.)"""
        if self._unsent:
            self._loop.call_soon(self._loop.call_soon, self._send_more)

    async def answer(self) -> Head:
        """Waits for the head of the answer, and for its body: for all of it, or for `enough` bytes."""
        reader = self._reader
        assert reader is not None
        while not self._is_ready(reader):
            await self._wait()
        self._enough = 1
        if reader.head is None:
            raise self._failed(reader)
        return reader.head

    async def read(self) -> bytes:
        """What has arrived of the body since the last call; b"" at its end."""
        reader = self._reader
        assert reader is not None
        while not reader.unread:
            if self._error is not None or reader.error is not None:
                raise self._failed(reader)
            if reader.ended:
                return b""
            self._resume()
            await self._wait()
        return reader.take()

    @property
    def status(self) -> int | None:
        """Of the answer, as soon as its head is there."""
        return None if self._reader is None or self._reader.head is None else self._reader.head.status

    def end(self) -> bool:
        """Ends the exchange. Whether the connection can be used for another one; if not, it is closed."""
        reader, self._reader = self._reader, None
        head = None if reader is None else reader.head
        if (
            reader is None
            or head is None
            or not reader.ended
            or reader.odd
            or not head.lasts
            or head.status == SWITCHING
            or self._error is not None
            or self._transport is None
            or self._transport.is_closing()
            or self._unsent  # an early answer: nobody may read the rest of the request
            or self._transport.get_write_buffer_size()
        ):
            self.abort()
            return False
        self._resume()
        self._idle_until = self._loop.time() + KEEP_ALIVE
        return True

    def is_usable(self) -> bool:
        """Whether an idle connection is still open, and was used lately. The timer may be later than that."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._loop.time() < self._idle_until

    def abort(self) -> None:
        """At once: over TLS, a polite close would wait up to half a minute for the server."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    def _is_ready(self, reader: AnswerReader) -> bool:
        if reader.ended or reader.error is not None or self._error is not None:
            return True
        return reader.head is not None and reader.unread >= self._enough

    def _failed(self, reader: AnswerReader) -> Exception:
        error = self._error or reader.error
        assert error is not None
        return error

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self.abort()
        self._wake()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._heard = self._loop.time()
            if self._transport is not None:
                self._transport.resume_reading()

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._heard = self._loop.time()  # a server that takes a long request is not silent
        self._send_more_soon()

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None or reader.ended:
            self.abort()  # no request, or the answer is complete: this is not part of it
            if reader is not None:
                reader.odd = True
            return
        self.received += len(data)
        self._heard = self._loop.time()
        had_head = reader.head is not None
        reader.feed(data)
        if not had_head and reader.head is not None:
            self.first_byte = self._clock()
        if reader.error is not None:
            self.abort()
        elif not reader.ended:
            self._check(reader, len(data))
        if self._is_ready(reader):
            self._wake()

    def _check(self, reader: AnswerReader, arrived: int) -> None:
        """Bounds an answer that is not complete yet."""
        if self._meter.is_too_slow(arrived):
            self._fail(self._meter.error())
        elif reader.head is None:
            if self.received > ANSWER_HEADERS:
                self._fail(BrokenAnswerError(f"no end of its headers within {ANSWER_HEADERS} bytes"))
        elif self.received > BODY_OVERHEAD + 1.5 * reader.size:
            self._fail(FloodError(f"{self.received} bytes for {reader.size} of a body"))
        elif reader.unread > _MOST_UNREAD and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reader is not None:
            if self._error is None:
                self._reader.feed_eof("" if exc is None else getattr(exc, "strerror", None) or str(exc))
            self._wake()
        elif self.on_end is not None:
            self.on_end(self)

    # -- time

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = None
        now = self._loop.time()
        reader = self._reader
        if reader is None:
            if now >= self._idle_until:
                self.abort()
            else:
                self._set_timer(self._idle_until)
            return
        if reader.ended or self._paused:
            self._heard = now  # the server waits for us
        silent_until = self._heard + self._read_timeout
        if reader.ended:  # its page may wait for memory, for longer than the server was given
            self._set_timer(silent_until)
        elif now >= self._deadline:
            self._fail(TimeoutError())
        elif now >= silent_until:
            self._fail(ReadTimeoutError())
        else:
            self._set_timer(min(self._deadline, silent_until))


class ConnectionPool:
    """Idle connections, by whom they lead to. At most `most` are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: dict[Hashable, list[HttpConnection]] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"<ConnectionPool: {self._count} idle connections to {len(self._idle)} hosts>"

    def take(self, key: Hashable) -> HttpConnection | None:
        """The one that was used last, if there is any."""
        while idle := self._idle.get(key):
            connection = idle.pop()
            self._count -= 1
            if not idle:
                del self._idle[key]
            if connection.is_usable():
                return connection
            connection.abort()
        return None

    def put(self, key: Hashable, connection: HttpConnection) -> None:
        if connection.on_end is None:  # a connection leads to the same for its whole life
            connection.on_end = partial(self._remove, key)
        self._idle.setdefault(key, []).append(connection)
        self._count += 1

    def make_room(self) -> None:
        """Closes idle connections, host by host, if there are too many. Each holds a file descriptor."""
        while self._count > self._most:
            self._close_all(next(iter(self._idle)))

    def close(self) -> None:
        for key in tuple(self._idle):
            self._close_all(key)

    def _close_all(self, key: Hashable) -> None:
        connections = self._idle.pop(key)
        self._count -= len(connections)
        for connection in connections:
            connection.abort()

    def _remove(self, key: Hashable, connection: HttpConnection) -> None:
        connections = self._idle.get(key, [])
        if connection in connections:
            connections.remove(connection)
            self._count -= 1
            if not connections:
                del self._idle[key]
