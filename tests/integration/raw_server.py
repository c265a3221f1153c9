"""A server on loopback that says exactly the bytes a test wants, however wrong they are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    host: str
    port: int = 0
    scheme: str = "http"
    hits: list[bytes] = field(default_factory=list)  # request heads, as received
    connections: int = 0

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def url(self, path: str = "/") -> str:
        return self.origin + path

    @property
    def paths(self) -> list[str]:
        return [head.split(b" ")[1].decode() for head in self.hits]


def page(body: bytes = b"hello", status: str = "200 OK", **headers: str) -> bytes:
    """A whole, correct answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(data: bytes, *, close: bool = False) -> Answer:
    """Answers every request with the same bytes."""

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if close:
            writer.close()

    return answer


def by_path(answers: dict[str, bytes], missing: bytes | None = None) -> Answer:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1].decode()
        writer.write(answers.get(path, missing or page(b"", "404 Not Found")))
        await writer.drain()

    return answer


@asynccontextmanager
async def serve(
    answer: Answer, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Reads request heads (and no bodies) and lets `answer` write; keeps connections open until it closes them."""
    state = RawServer(host, scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        state.connections += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                state.hits.append(head)
                await answer(head, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            tasks.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            writer.transport.abort()  # what the client would not read is never sent

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
