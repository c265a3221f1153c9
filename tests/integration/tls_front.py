"""TLS in front of a server that speaks none: everything is passed on as it comes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

CERTS = Path(__file__).parent / "certs"


@asynccontextmanager
async def tls_front(port: int, certificate: str = "loopback") -> AsyncIterator[int]:
    """Serves TLS on a free port, in front of `port`; yields the free port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / f"{certificate}.pem", CERTS / f"{certificate}.key")
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, back_writer))
                group.create_task(_pass_on(back_reader, writer))
        finally:
            for end in (writer, back_writer):
                end.transport.abort()
            running.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
