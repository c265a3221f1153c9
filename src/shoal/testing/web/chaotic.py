"""The chaotic web: in the caller's event loop, or in a process of its own for crawlers that are killed or measured."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Self

import msgspec
from msgspec.structs import replace

import shoal
from shoal.testing.web.habits import HABITS
from shoal.testing.web.loopback import bind
from shoal.testing.web.profile import Hit, HostProfile, WebSpec
from shoal.testing.web.server_connection import Connection, HostServer
from shoal.testing.web.site import Site, site_of

_BACKLOG = 1_024


class WebView:
    """What a test can ask, wherever the web runs: its addresses, what there is to find, and who came when. Hosts are
    called by their names."""

    def __init__(self, spec: WebSpec) -> None:
        self.spec = spec
        self.addresses: dict[str, str] = {}  # by name: "127.0.1.1:40123"

    def hits(self) -> list[Hit]:
        """Every request that has ended, in the order they ended."""
        raise NotImplementedError

    @property
    def start_urls(self) -> list[str]:
        """The first page of every host."""
        return [self.url(name) for name in self.spec.hosts]

    def url(self, host: str, path: str = "/p/0") -> str:
        return f"http://{self.addresses[host]}{path}"

    def pages_of(self, host: str) -> set[str]:
        """The pages a complete and polite crawl must find here, no matter what else it meets."""
        profile = self.spec.hosts[host]
        if not profile.reachable:
            return set()
        return {self.url(host, path) for path in self.site_of(host).paths()}

    def shells_of(self, host: str) -> set[str]:
        """Those of its pages that are empty until their scripts have run."""
        site = self.site_of(host)
        return {self.url(host, site.path(i)) for i in range(site.pages) if site.is_shell(i)}

    def site_of(self, host: str) -> Site:
        return site_of(self.spec.hosts[host], self.spec.seed + list(self.spec.hosts).index(host))

    def hits_of(self, host: str) -> list[Hit]:
        """The host's hits in the order they arrived."""
        return sorted((hit for hit in self.hits() if hit.host == host), key=lambda hit: hit.started)

    def gaps(self, host: str) -> list[float]:
        """The seconds between one arrival and the next."""
        starts = [hit.started for hit in self.hits_of(host)]
        return [later - earlier for earlier, later in pairwise(starts)]

    def peak_concurrency(self, host: str) -> int:
        """The most requests that were under way at once; 0 if none came."""
        return max((hit.concurrent for hit in self.hits() if hit.host == host), default=0)


class ChaoticWeb(WebView):
    """Serves `hosts` while its `async with` block runs:

        async with ChaoticWeb([HostProfile("fast"), HostProfile("flapping", pages=50)], seed=7) as web:
            await crawl(web.start_urls)
        assert web.peak_concurrency("flapping-1") <= 2

    `record` is called with every hit; by default they are kept, and `hits()` returns them.
    """

    def __init__(
        self,
        hosts: Sequence[HostProfile] | Mapping[str, HostProfile],
        seed: int = 0,
        record: Callable[[Hit], None] | None = None,
    ) -> None:
        super().__init__(WebSpec.of(hosts, seed))
        self._hits: list[Hit] = []
        self._record = record or self._hits.append
        self._hosts: list[HostServer] = []
        self._listeners: list[asyncio.Server] = []
        self._reserved: list[socket.socket] = []  # ports of the hosts that are down

    def hits(self) -> list[Hit]:
        """Every request so far, as the servers saw it."""
        return list(self._hits)

    def under_way(self) -> dict[str, int]:
        """How many requests each host is answering now."""
        return {host.name: host.in_flight for host in self._hosts}

    def become(self, name: str, profile: HostProfile) -> None:
        """From now on the host is like this. (Where it listens stays as it is, so it cannot go down or come up.)"""
        host = self._host(name)
        host.behave(HABITS[profile.kind](profile, host.habit.seed, host.habit.neighbours))

    def hurry(self, name: str) -> None:
        """From now on the host answers at once, also what it has already been asked."""
        host = self._host(name)
        self.become(name, replace(host.habit.profile, kind="fast"))
        for connection in list(host.connections):
            connection.hurry()

    def _host(self, name: str) -> HostServer:
        return next(host for host in self._hosts if host.name == name)

    async def __aenter__(self) -> Self:
        sockets = bind(len(self.spec.hosts))
        for name, sock in zip(self.spec.hosts, sockets, strict=True):
            address, port = sock.getsockname()
            self.addresses[name] = f"{address}:{port}"
        bases = [f"http://{address}" for address in self.addresses.values()]
        for number, (name, sock) in enumerate(zip(self.spec.hosts, sockets, strict=True)):
            following = [bases[(number + step) % len(bases)] for step in (1, 2)]
            await self._serve(name, sock, self.spec.seed + number, following)
        return self

    async def _serve(self, name: str, sock: socket.socket, seed: int, neighbours: Sequence[str]) -> None:
        profile = self.spec.hosts[name]
        if profile.kind == "down":
            self._reserved.append(sock)  # bound but not listening: connections are refused
            return
        host = HostServer(name, HABITS[profile.kind](profile, seed, neighbours), self._record)
        loop = asyncio.get_running_loop()
        self._listeners.append(
            await loop.create_server(lambda: Connection(host), sock=sock, backlog=_BACKLOG)
        )
        self._hosts.append(host)

    async def __aexit__(self, *_: object) -> None:
        for sock in self._reserved:
            sock.close()
        for listener in self._listeners:
            listener.close()
        connections = [connection for host in self._hosts for connection in host.connections]
        for connection in connections:
            connection.transport.abort()
        for connection in connections:
            await connection.lost.wait()


_END_TIMEOUT = 10.0


class WebProcess(WebView):
    """Serves `hosts` while its `with` block runs, writing each hit as a line of JSON to `log`.

    The server ends when its standard input closes, so it cannot outlive the process that started it.
    """

    def __init__(
        self,
        hosts: Sequence[HostProfile] | Mapping[str, HostProfile],
        seed: int = 0,
        log: Path | None = None,
    ) -> None:
        super().__init__(WebSpec.of(hosts, seed))
        self._own_directory: tempfile.TemporaryDirectory[str] | None = None
        if log is None:
            self._own_directory = tempfile.TemporaryDirectory(prefix="shoal-web-")
            log = Path(self._own_directory.name) / "hits.jsonl"
        self.log = log

    def hits(self) -> list[Hit]:
        if self._server.poll() is None:
            self._ask(b"flush")
        decode = msgspec.json.Decoder(Hit).decode
        return [decode(line) for line in self.log.read_bytes().splitlines()]

    @property
    def pid(self) -> int:
        return self._server.pid

    def cpu_seconds(self) -> float:
        """The processor time the server has taken so far."""
        return float(self._ask(b"cpu"))

    def under_way(self, host: str) -> int:
        """How many requests a host is answering now."""
        return msgspec.json.decode(self._ask(b"busy"), type=dict[str, int])[host]

    def hurry(self, host: str) -> None:
        """From now on a host answers at once, also what it has already been asked."""
        self._ask(f"hurry {host}".encode())

    def __enter__(self) -> Self:
        # A session of its own: Ctrl-C is meant for the crawler, which may still have pages to finish.
        self._server = subprocess.Popen(
            [sys.executable, "-m", "shoal.testing.web", "--spec", "-", "--log", str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
        self.addresses = msgspec.json.decode(self._ask(msgspec.json.encode(self.spec)), type=dict[str, str])
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stdin.close()
            self._server.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        finally:
            self._stdout.close()
            if self._own_directory is not None:
                self._own_directory.cleanup()

    def _ask(self, line: bytes) -> bytes:
        try:
            self._stdin.write(line + b"\n")
            self._stdin.flush()
            answer = self._stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise RuntimeError("the web server process has ended; its standard error says why")
        return answer

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._server.stdin is not None
        return self._server.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._server.stdout is not None
        return self._server.stdout


def _environment() -> dict[str, str]:
    """Lets the child import the same shoal, also when it is not installed."""
    source = str(Path(shoal.__file__).parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, path]) if path else source}
