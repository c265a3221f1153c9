"""A hostile HTTP/2 server: correct up to the request, and then whatever frames an attack needs, without end."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamReset
from h2.exceptions import ProtocolError
from hpack import Encoder
from hyperframe.frame import Frame

CERTS = Path(__file__).parents[1] / "integration" / "certs"
BURST = 256 * 1024  # bytes that a flood writes at once


class Victim:
    """One request of the crawl, and the means to answer it badly."""

    def __init__(self, server: H2Connection, writer: asyncio.StreamWriter, number: int, path: str) -> None:
        self._h2 = server
        self._writer = writer
        self.number = number
        self.path = path
        self.sent = 0  # bytes
        self.cancelled = asyncio.Event()

    async def raw(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the crawl has hung up")
        self._writer.write(self._h2.data_to_send() + data)
        self.sent += len(data)
        await self._writer.drain()
        await asyncio.sleep(0)  # a connection that takes everything would keep the loop from seeing its end

    def encoder(self) -> Encoder:
        """What compresses the headers of this connection."""
        return self._h2.encoder

    async def head(self, *headers: tuple[str, str], status: int = 200, end: bool = False) -> None:
        self._h2.send_headers(self.number, [(":status", str(status)), *headers], end_stream=end)
        await self.raw(b"")

    async def answer(self, body: bytes, status: int = 200) -> None:
        await self.head(("content-type", "text/html"), status=status)
        self._h2.send_data(self.number, body, end_stream=True)
        await self.raw(b"")

    async def flood(self, frame: Frame | bytes) -> None:
        """The same frame again and again, until the connection is cut."""
        once = frame if isinstance(frame, bytes) else frame.serialize()
        many = once * max(1, BURST // len(once))
        while True:
            await self.raw(many)


Attack = Callable[[Victim], Awaitable[None]]


class Http2Villain:
    """On 127.0.0.1, in a thread of its own. Paths without an attack are not found."""

    def __init__(self, attacks: Mapping[str, Attack]) -> None:
        self.attacks = dict(attacks)
        self.port = 0
        self.hits: list[str] = []  # paths
        self.victims: list[Victim] = []
        self._loop = asyncio.new_event_loop()
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="http2-villain", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20), "the villain did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    @property
    def urls(self) -> list[str]:
        return [self.url(path) for path in self.attacks]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
        context.set_alpn_protocols(["h2"])
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        h2.initiate_connection()
        attacks: set[asyncio.Task[None]] = set()
        victims: dict[int, Victim] = {}
        with suppress(OSError, ProtocolError, asyncio.CancelledError):
            writer.write(h2.data_to_send())
            while data := await reader.read(65_536):
                for event in h2.receive_data(data):
                    if isinstance(event, RequestReceived):
                        path = str(dict(event.headers)[":path"])
                        victim = victims[event.stream_id] = Victim(h2, writer, event.stream_id, path)
                        self.hits.append(path)
                        self.victims.append(victim)
                        attacks.add(asyncio.create_task(self._attack(victim)))
                    elif isinstance(event, StreamReset):
                        victims[event.stream_id].cancelled.set()
                writer.write(h2.data_to_send())
        for task in attacks:
            task.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
        writer.transport.abort()

    async def _attack(self, victim: Victim) -> None:
        attack = self.attacks.get(victim.path)
        with suppress(OSError, ProtocolError):
            await (victim.answer(b"none", 404) if attack is None else attack(victim))
