"""An HTTP/2 server with TLS on loopback, whose answers a test writes frame by frame if it wants to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from hyperframe.frame import GoAwayFrame

CERTS = Path(__file__).parent / "certs"


class Stream:
    """One request, and the means to answer it."""

    def __init__(self, connection: _Connection, number: int, headers: list[tuple[str, str]]) -> None:
        self._connection = connection
        self.number = number
        self.headers = headers
        self.body = b""
        self.complete = asyncio.Event()
        self.reset_by_client = asyncio.Event()
        self.window_open = asyncio.Event()

    def __getitem__(self, name: str) -> str:
        """All values of a header, as one."""
        return "; ".join(value for other, value in self.headers if other == name)

    @property
    def path(self) -> str:
        return self[":path"]

    async def answer(self, body: bytes = b"hello", status: int = 200, **headers: str) -> None:
        """A whole, correct answer."""
        await self.head(
            status, [(name.replace("_", "-"), value) for name, value in headers.items()], end=not body
        )
        if body:
            await self.send(body, end=True)

    async def head(
        self, status: int = 200, headers: list[tuple[str, str]] | None = None, *, end: bool = False
    ) -> None:
        lines = [(":status", str(status)), *((name.lower(), value) for name, value in headers or ())]
        self._connection.h2.send_headers(self.number, lines, end_stream=end)
        await self._connection.flush()

    async def send(self, data: bytes, *, end: bool = False) -> None:
        h2 = self._connection.h2
        while data:
            size = min(h2.local_flow_control_window(self.number), h2.max_outbound_frame_size, len(data))
            if not size:
                self.window_open.clear()
                await self.window_open.wait()
                continue
            h2.send_data(self.number, data[:size], end_stream=end and size == len(data))
            data = data[size:]
            await self._connection.flush()

    async def reset(self, code: int = 2) -> None:
        self._connection.h2.reset_stream(self.number, code)
        await self._connection.flush()

    async def go_away(self, last: int) -> None:
        """Says that no request after the one of that number will be answered. By hand: h2 would say no more then."""
        frame = GoAwayFrame(last_stream_id=last)
        self._connection.writer.write(frame.serialize())
        await self._connection.writer.drain()

    def drop(self) -> None:
        self._connection.writer.transport.abort()


Answer = Callable[[Stream], Awaitable[None]]


@dataclass
class Http2Server:
    host: str
    port: int = 0
    streams: list[Stream] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/") -> str:
        return f"https://{self.host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [stream.path for stream in self.streams]


class _Connection:
    def __init__(self, state: Http2Server, answer: Answer, writer: asyncio.StreamWriter) -> None:
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.writer = writer
        self._state = state
        self._answer = answer
        self._streams: dict[int, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        self.h2.initiate_connection()
        try:
            await self.flush()
            while data := await reader.read(65_536):
                for event in self.h2.receive_data(data):
                    self._happened(event)
                await self.flush()
        except (OSError, h2.exceptions.ProtocolError):
            pass
        finally:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _happened(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                stream = Stream(self, event.stream_id, [(str(k), str(v)) for k, v in event.headers])
                self._streams[event.stream_id] = stream
                self._state.streams.append(stream)
                task = asyncio.create_task(self._run(stream))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case h2.events.DataReceived():
                self._streams[event.stream_id].body += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self._streams[event.stream_id].complete.set()
            case h2.events.StreamReset():
                self._streams[event.stream_id].reset_by_client.set()
            case h2.events.WindowUpdated():
                for stream in self._streams.values():
                    stream.window_open.set()

    async def _run(self, stream: Stream) -> None:
        try:
            await self._answer(stream)
        except (OSError, h2.exceptions.ProtocolError):
            pass  # the client went away


@asynccontextmanager
async def serve_http2(
    answer: Answer, *, host: str = "127.0.0.1", certificate: str = "loopback"
) -> AsyncIterator[Http2Server]:
    state = Http2Server(host)
    running: set[asyncio.Task[None]] = set()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / f"{certificate}.pem", CERTS / f"{certificate}.key")
    context.set_alpn_protocols(["h2"])

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        state.connections += 1
        try:
            await _Connection(state, answer, writer).serve(reader)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            running.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(connected, host, 0, ssl=context)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
