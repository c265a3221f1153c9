"""The gate: the proxy on loopback through which Chromium reaches the network.

A browser follows whatever a page says, so the guard must check every address it connects to. The browser resolves no
names: it asks a door of the gate for a host, and the gate resolves, checks and connects. Every browser context has its
own door, whose connections all go directly or all through one proxy. A door wants a password, so that no other program
on the machine can use it.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from secrets import token_urlsafe

from shoal.fetch.browser.gate_connection import ClientConnection, Target
from shoal.fetch.dialer import Dialer, HostConnector
from shoal.fetch.guard import Guard
from shoal.fetch.http_messages import MAX_LINE
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.resolver import Resolver
from shoal.model import Failure
from shoal.settings import Settings

_CONNECTIONS = 256  # of one context; Chromium opens 32 at once, and as many for web sockets
_MAX_FAILURES = 1_000
_IDLE = 120.0


class Gate:
    """The doors of one job in one process. Doors are opened in a running loop, and closed in it."""

    def __init__(self, guard: Guard, settings: Settings, resolver: Resolver | None = None) -> None:
        self._guard = guard
        self._settings = settings
        self._resolver = resolver
        self._own_resolver: Resolver | None = None
        self._hosts: HostConnector | None = None
        self._doors: set[Door] = set()

    def __repr__(self) -> str:
        return f"<Gate: {len(self._doors)} doors>"

    async def open(self, proxy: Proxy | None, *, connections: int = _CONNECTIONS) -> Door:
        """A door for so many connections at once, which all go through `proxy` if there is one."""
        if self._hosts is None:
            if self._resolver is None:
                self._resolver = self._own_resolver = Resolver(self._settings)
            self._hosts = HostConnector(self._guard, self._resolver)
        settings = self._settings
        dialer = Dialer(self._hosts, self._guard, proxy, settings.connect_timeout)
        door = Door(dialer, connections, max(_IDLE, settings.total_timeout), self._doors.discard)
        await door._listen()
        self._doors.add(door)
        return door

    async def close(self) -> None:
        for door in tuple(self._doors):
            await door.close()
        self._hosts = None
        if self._own_resolver is not None:
            await self._own_resolver.close()
            self._resolver = self._own_resolver = None


class Door:
    """The port where the connections of one client arrive."""

    def __init__(
        self, dialer: Dialer, connections: int, idle: float, on_close: Callable[[Door], None]
    ) -> None:
        self.username = "shoal"
        self.password = token_urlsafe(24)
        self.wire_bytes = 0  # received for clients so far
        self._port = 0
        self._token = b64encode(f"{self.username}:{self.password}".encode())
        self._dialer = dialer
        self._connections = connections
        self._idle = idle
        self._on_close = on_close
        self._failures: dict[Target, Failure] = {}
        self._connections_open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<Door {self.url}: {len(self._connections_open)} connections, {self.wire_bytes} bytes>"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def last_failure(self, host: str, port: int) -> Failure | None:
        """Why the last connection to the target failed; None if it did not."""
        return self._failures.get(_folded(Target(host, port)))

    def note(self, target: Target, failure: Failure | None) -> None:
        target = _folded(target)
        self._failures.pop(target, None)
        if failure is not None:
            if len(self._failures) >= _MAX_FAILURES:
                del self._failures[next(iter(self._failures))]
            self._failures[target] = failure

    async def close(self) -> None:
        """Closes every connection. May be called more than once."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for connection in self._connections_open:
            connection.cancel()
        await asyncio.gather(*self._connections_open, return_exceptions=True)
        self._on_close(self)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._arrived, "127.0.0.1", 0, limit=MAX_LINE)
        self._port = self._server.sockets[0].getsockname()[1]

    def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or len(self._connections_open) >= self._connections:
            writer.transport.abort()
            return
        connection = ClientConnection((reader, writer), self._dialer, self, self._token, self._idle)
        task = asyncio.get_running_loop().create_task(connection.run())
        self._connections_open.add(task)
        task.add_done_callback(self._connections_open.discard)


def _folded(target: Target) -> Target:
    return Target(target.host.strip("[]").rstrip(".").lower(), target.port)
