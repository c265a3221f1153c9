"""One lookup of a name: by c-ares, which needs no thread, or by the system's resolver in threads.

Where aiodns is not installed, everything is left to the system.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Literal, Protocol

from msgspec import Struct

from shoal.errors import SettingsError

_THREADS = 8
_SYSTEM_TTL = 60.0  # the system does not say
_SERVER = re.compile(r"(?:(?P<v4>[\d.]+)|\[(?P<v6>[\da-fA-F:.]+)\])(?::(?P<port>\d{1,5}))?")


class Found(Struct, frozen=True):
    addresses: tuple[str, ...]
    ttl: float  # seconds


Why = Literal["no_such_name", "failed", "unanswered", "busy"]


class UnresolvedError(OSError):
    """A name without an address: it does not exist, its servers failed or did not answer, or its domain is busy."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(socket.EAI_NONAME if why == "no_such_name" else socket.EAI_AGAIN, message)
        self.why = why
        self.message = message


class Lookup(Protocol):
    async def ask(self, name: str) -> Found:
        """Raises UnresolvedError. Has no timeout: the caller has one."""
        ...

    async def close(self) -> None: ...


def make_lookup(servers: Sequence[str], timeout: float) -> Lookup:
    """Imports aiodns when the first name is looked up: whoever crawls addresses needs none."""
    try:
        from shoal.fetch.ares_lookup import AresLookup
    except ModuleNotFoundError:
        return SystemLookup()
    return AresLookup(servers, timeout)


def check_servers(servers: Sequence[str]) -> None:
    if servers:
        try:
            import aiodns  # noqa: F401
        except ModuleNotFoundError:
            raise SettingsError("dns_servers: needs the package aiodns: pip install aiodns") from None
    for server in servers:
        found = _SERVER.fullmatch(server)
        try:
            ip_address((found["v6"] or found["v4"]) if found else server)
            port = int(found["port"] or 53) if found else 53
        except ValueError:
            port = 0
        if not 0 < port < 65536:
            raise SettingsError(
                f"dns_servers: {server!r} is no address of a name server; "
                "write it like 9.9.9.9, 127.0.0.1:5353 or [::1]:53"
            )


class SystemLookup:
    """getaddrinfo in threads of its own. A thread cannot be cancelled: it is busy until the system gives up."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "shoal-dns")

    async def ask(self, name: str) -> Found:
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.run_in_executor(self._threads, _getaddrinfo, name)
        except socket.gaierror as error:
            raise UnresolvedError(_WHY_NOT.get(error.errno, "failed"), error.strerror or str(error)) from None
        except ValueError:
            raise UnresolvedError("no_such_name", "not a name") from None
        return Found(tuple(dict.fromkeys(str(info[4][0]) for info in infos)), _SYSTEM_TTL)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _getaddrinfo(name: str) -> list[tuple[object, object, object, object, tuple[object, ...]]]:
    return list(socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))


_WHY_NOT: dict[int | None, Why] = {
    socket.EAI_NONAME: "no_such_name",
    getattr(socket, "EAI_NODATA", socket.EAI_NONAME): "no_such_name",
    socket.EAI_AGAIN: "unanswered",
}
