"""One HTTP/2 connection: many exchanges over one socket, within bounds.

h2 interprets the frames. This module owns the socket, assigns frames to exchanges, and bounds what a server may send:
HTTP/2 allows endless frames that carry nothing, and each of them costs work or memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from ssl import SSLContext
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from shoal.fetch.dialer import Streams
from shoal.fetch.failures import BrokenAnswerError, FloodError, LostError, NotTakenError, ReadTimeoutError
from shoal.limits import (
    ANSWER_HEADERS,
    EMPTY_FRAMES,
    FRAME_BYTES,
    FRAME_COST,
    FRAME_SHARE,
    HEADER_LINES,
    INTERIM_ANSWERS,
    SETTINGS_FRAME,
)

_WINDOW = 256 * 1024  # bytes of a body that may be unread
_SHARED_WINDOW = 4 * 1024 * 1024  # … of all bodies of a connection
_HEADER_TABLE = 4096  # bytes of our own headers that are kept for compression, whatever the server offers
_KEEP_ALIVE = 15.0  # seconds that a connection may be idle
_MOST_EXCHANGES = 10_000  # then a fresh connection is opened

Header = tuple[bytes, bytes]


class Exchange:
    """A request that was sent, and how much of its answer has arrived."""

    def __init__(self, connection: Http2Connection, number: int, *, sent: bool) -> None:
        self._connection = connection
        self._number = number
        self._arrived = asyncio.Event()
        self._body = bytearray()
        self._unread = 0  # bytes not acknowledged yet
        self._error: Exception | None = None
        self._interim = 0
        self._sent = sent  # the whole request
        self._ended = False  # the answer is complete
        self.status: int | None = None
        self.headers: list[Header] = []

    async def send(self, body: bytes, timeout: float) -> None:
        """Sends the body of the request, unless it is answered without being read."""
        rest = memoryview(body)
        while rest and not self._ended:
            size = await self._connection.send(self._number, rest)
            rest = rest[size:]
            if not size:
                await self._wait(timeout)
        self._sent = not rest

    async def head(self, timeout: float) -> None:
        """Waits for the status and the headers."""
        while self.status is None:
            await self._wait(timeout)

    async def read(self, timeout: float) -> bytes:
        """What has arrived of the body; b"" at its end."""
        while not self._body and not self._ended:
            await self._wait(timeout)
        data = bytes(self._body)
        self._body.clear()
        self._connection.acknowledge(self._number, self._unread)
        self._unread = 0
        return data

    async def _wait(self, timeout: float) -> None:
        """Waits until something arrives for this exchange. Raises its failure once everything before it is read."""
        if self._error is not None:
            raise self._error
        self._arrived.clear()
        try:
            async with asyncio.timeout(timeout) as limit:
                await self._arrived.wait()
        except TimeoutError:
            if limit.expired():
                raise ReadTimeoutError from None
            raise

    def close(self) -> None:
        """Streams the exchange, however far it has come."""
        self._connection.forget(self._number, self._unread, complete=self._ended and self._sent)

    # -- called by the connection

    def fail(self, error: Exception) -> None:
        if not self._ended and self._error is None:
            self._error = error
        self._arrived.set()

    def happened(self, event: Event) -> None:
        """May raise an error that ends the whole connection."""
        match event:
            case DataReceived():
                self._body += event.data
                self._unread += event.flow_controlled_length
            case ResponseReceived():
                self._take_headers(event.headers)
            case InformationalResponseReceived():
                _check_lines(event.headers)
                self._interim += 1
                if self._interim > INTERIM_ANSWERS:
                    raise FloodError(f"more than {INTERIM_ANSWERS} interim answers (1xx)")
            case StreamEnded():
                self._ended = True
            case StreamReset():
                self.fail(LostError(_name(event.error_code)))
        self._arrived.set()

    def _take_headers(self, headers: list[Header]) -> None:
        _check_lines(headers)
        status = headers[0][1]
        if len(status) != 3 or not status.isdigit():
            raise BrokenAnswerError("a status that is not a number of three digits")
        self.status = int(status)
        self.headers = [(bytes(name), bytes(value)) for name, value in headers[1:]]


class Http2Connection(asyncio.Protocol):
    """Must be opened in a running loop. `on_end` is called once, when no more exchanges can be begun."""

    def __init__(self, on_end: Callable[[Http2Connection], None]) -> None:
        self._on_end: Callable[[Http2Connection], None] | None = on_end
        self._h2 = _state_machine()
        self._frames = Frames()
        self._exchanges: dict[int, Exchange] = {}
        self._begun = 0
        self._idling: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._beneath: Streams | None = None  # streams close their socket when nobody refers to them
        self._writable = asyncio.Event()
        self._writable.set()

    def __repr__(self) -> str:
        state = "open" if self._on_end is not None else "ending"
        return f"<Http2Connection {state}: {len(self._exchanges)} of {self._begun} exchanges under way>"

    async def open(self, ends: Streams, context: SSLContext, host: str) -> bool:
        """Starts TLS. Whether the server accepts HTTP/2; if not, the connection is closed."""
        loop = asyncio.get_running_loop()
        beneath = cast("asyncio.Transport", ends[1].transport)
        try:
            transport = await loop.start_tls(beneath, self, context, server_hostname=host)
            if transport is None:
                raise ConnectionResetError("the connection was closed")
        except BaseException:
            beneath.abort()
            raise
        self._transport, self._beneath = transport, ends
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            self.abort()
            return False
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_SHARED_WINDOW - 65_535)
        self._flush()
        return True

    # -- for the pool

    @property
    def busy(self) -> bool:
        return bool(self._exchanges)

    @property
    def has_room(self) -> bool:
        """Whether another exchange can be begun now."""
        most = self._h2.remote_settings.max_concurrent_streams
        return self._on_end is not None and self._begun < _MOST_EXCHANGES and len(self._exchanges) < most

    @property
    def ended(self) -> bool:
        return self._transport is None

    @property
    def fresh(self) -> bool:
        """Whether it has not been used yet."""
        return not self._begun

    def abort(self) -> None:
        self._end(LostError())

    # -- exchanges

    def begin(self, headers: list[Header], *, ends: bool) -> Exchange:
        """Sends the head of a request, which may be all of it. The caller closes the exchange."""
        number = self._h2.get_next_available_stream_id()
        self._h2.send_headers(number, headers, end_stream=ends)
        if self._idling is not None:
            self._idling.cancel()
        self._begun += 1
        self._frames.renew()
        exchange = self._exchanges[number] = Exchange(self, number, sent=ends)
        self._flush()
        return exchange

    async def send(self, number: int, data: memoryview) -> int:
        """Sends as much of a body as the server accepts now. Returns how much."""
        await self._writable.wait()
        if self._transport is None:
            return 0
        most = min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
        size = max(0, min(most, len(data)))
        if size:
            self._h2.send_data(number, bytes(data[:size]), end_stream=size == len(data))
            self._flush()
        return size

    def acknowledge(self, number: int, size: int) -> None:
        """Tells the server that `size` bytes were read, and as many may follow."""
        if size and self._transport is not None:
            self._h2.acknowledge_received_data(size, number)
            self._flush()

    def forget(self, number: int, unread: int, *, complete: bool) -> None:
        if self._exchanges.pop(number, None) is None or self._transport is None:
            return
        try:
            if unread:
                self._h2.acknowledge_received_data(unread, number)
            if not complete:
                self._retire()  # the server may go on sending, and another exchange would be blamed
                self._frames.renew()
                self._h2.reset_stream(number, ErrorCodes.CANCEL)
        except ProtocolError:
            pass  # the server has ended it as well
        self._flush()
        if not self._exchanges:
            if self._on_end is None:
                self.abort()
            else:
                self._idling = asyncio.get_running_loop().call_later(_KEEP_ALIVE, self.abort)

    # -- the socket

    def data_received(self, data: bytes) -> None:
        try:
            for kind, frame in self._frames.cut(data):
                if kind == GOAWAY:
                    self._going_away(frame[HEAD:])
                    continue
                for event in self._h2.receive_data(frame):
                    self._happened(event)
        except ProtocolError as error:
            self._end(BrokenAnswerError(_in_words(error)))
        except (BrokenAnswerError, FloodError) as error:
            self._end(error)
        else:
            self._flush()

    def eof_received(self) -> None:
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort()

    def pause_writing(self) -> None:
        """The server does not read, so neither do we: what it sends may need answers."""
        self._writable.clear()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        if self._transport is not None:
            self._transport.resume_reading()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    # -- what arrives

    def _happened(self, event: Event) -> None:
        match event:
            case RemoteSettingsChanged():
                # Each header that is sent is searched in the whole table: a server must not enlarge it.
                encoder = self._h2.encoder
                encoder.header_table_size = min(encoder.header_table_size, _HEADER_TABLE)
                self._tell_all(event)
            case WindowUpdated(stream_id=0):
                self._tell_all(event)
            case _:
                number = getattr(event, "stream_id", None)
                exchange = self._exchanges.get(number) if number is not None else None
                if exchange is not None:
                    exchange.happened(event)
                if isinstance(event, DataReceived):
                    if exchange is not None:
                        self._frames.took(len(event.data))
                    else:
                        self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def _tell_all(self, event: Event) -> None:
        for exchange in self._exchanges.values():
            exchange.happened(event)

    def _going_away(self, payload: bytes) -> None:
        """GOAWAY: no more requests. Those that the server has not processed may be sent again. h2 itself would accept
        no frame after this one, though the answers to the other requests are still to come."""
        last, code = int.from_bytes(payload[:4], "big") & 0x7FFF_FFFF, int.from_bytes(payload[4:8], "big")
        self._retire()
        for number, exchange in self._exchanges.items():
            if number > last:
                exchange.fail(NotTakenError(_name(code)))
        if not self._exchanges:
            self.abort()

    def _retire(self) -> None:
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self)

    def _end(self, error: Exception) -> None:
        self._retire()
        for exchange in self._exchanges.values():
            exchange.fail(error)
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
            self._transport = self._beneath = None
        if self._idling is not None:
            self._idling.cancel()


def _state_machine() -> H2Connection:
    h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    h2.local_settings = Settings(
        client=True,
        initial_values={
            SettingCodes.ENABLE_PUSH: 0,
            SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
            SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES,
            SettingCodes.MAX_HEADER_LIST_SIZE: ANSWER_HEADERS,
        },
    )
    # Some servers break off at a setting that they do not know.
    del h2.local_settings[SettingCodes.ENABLE_CONNECT_PROTOCOL]
    h2.decoder.max_header_list_size = ANSWER_HEADERS
    return h2


def _check_lines(headers: list[Header]) -> None:
    if len(headers) > HEADER_LINES + 1:  # and the status
        raise BrokenAnswerError(f"more than {HEADER_LINES} header lines")


def _name(code: int | ErrorCodes | None) -> str:
    """The name of an error code."""
    try:
        return ErrorCodes(code or 0).name.replace("_", " ").lower()
    except ValueError:
        return f"error {code}"


def _in_words(error: ProtocolError) -> str:
    text = str(error)
    return f"a frame for stream {text}, which is not open" if text.isdigit() else text


# -- frames: where each ends, and how many may carry nothing


HEAD = 9  # bytes before the payload of a frame
HEADERS, SETTINGS, GOAWAY, CONTINUATION = 1, 4, 7, 9  # types of frames


class Frames:
    """Splits the data into frames, and counts those that carry nothing.

    A frame costs one, and more if it is long. Body data pays that back, and one more for each 64 bytes. So any body in
    frames of usual size passes, and frames that are empty, unrequested or tiny soon are too many.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._headers = 0  # bytes of the current header block
        self._left: float = EMPTY_FRAMES

    def renew(self) -> None:
        """A request was sent, or cancelled with data on its way: the count starts again."""
        self._left = EMPTY_FRAMES

    def took(self, size: int) -> None:
        """Body data of this size was accepted."""
        self._left = min(EMPTY_FRAMES, self._left + size / FRAME_COST + size / FRAME_SHARE)

    def cut(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The complete frames: type and bytes."""
        self._buffer += data
        start, have = 0, len(self._buffer)
        try:
            while have - start >= HEAD:
                size = int.from_bytes(self._buffer[start : start + 3], "big")
                kind = self._buffer[start + 3]
                end = start + HEAD + size
                if size > FRAME_BYTES:
                    raise BrokenAnswerError(f"a frame of {size} bytes")
                if end > have:
                    return
                self._count(kind, size)
                yield kind, bytes(self._buffer[start:end])
                start = end
        finally:
            del self._buffer[:start]

    def _count(self, kind: int, size: int) -> None:
        if kind in (HEADERS, CONTINUATION):
            self._headers = size + (self._headers if kind == CONTINUATION else 0)
            if self._headers > ANSWER_HEADERS:
                raise BrokenAnswerError(f"headers of more than {ANSWER_HEADERS} bytes")
        if kind == SETTINGS and size > SETTINGS_FRAME:
            raise FloodError(f"a SETTINGS frame of {size} bytes")
        self._left -= 1 + size / FRAME_COST
        if self._left < 0:
            raise FloodError(f"more than {EMPTY_FRAMES:,} HTTP/2 frames that carry nothing")
