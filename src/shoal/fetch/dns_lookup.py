"""One lookup of a name: by c-ares, which needs no thread, or by the system's resolver in threads.

c-ares reads /etc/hosts and /etc/resolv.conf, as the system does. Names that other parts of a system may know
(localhost, names without a dot, mDNS) are left to the system, and so is everything where aiodns is not installed.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from shoal.errors import SettingsError

try:
    import aiodns
except ImportError:  # pragma: no cover
    aiodns = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import pycares

_THREADS = 8
_TRIES = 4  # c-ares waits twice as long each time, and at first for a few times what the server usually takes
_SECOND_FAMILY = 0.05  # seconds that the addresses of one family are waited for when there are others
_MOST = 8  # addresses of a family: a name with thousands would have us try all of them
_SYSTEM_TTL = 60.0  # the system does not say
_SERVER = re.compile(r"(?:(?P<v4>[\d.]+)|\[(?P<v6>[\da-fA-F:.]+)\])(?::(?P<port>\d{1,5}))?")
_FAR_AWAY = ("2000::1", 53)


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
    return SystemLookup() if aiodns is None else AresLookup(servers, timeout)


def check_servers(servers: Sequence[str]) -> None:
    if servers and aiodns is None:
        raise SettingsError("dns_servers: needs the package aiodns: pip install aiodns")
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


class AresLookup:
    """c-ares, by aiodns. Must be made inside a running loop, and closed in it."""

    def __init__(self, servers: Sequence[str], timeout: float, *, ipv6: bool | None = None) -> None:
        own: dict[str, Any] = {"nameservers": servers, "domains": []} if servers else {}
        self._channel = aiodns.DNSResolver(timeout=timeout / _TRIES, tries=_TRIES, **own)
        self._system = SystemLookup()
        self._knows_all = bool(servers)
        self._ipv6 = _has_ipv6() if ipv6 is None else ipv6

    async def ask(self, name: str) -> Found:
        if _is_local(name) or (not self._knows_all and _may_be_known_here(name)):
            return await self._system.ask(name)
        if not self._ipv6:
            return _found(await self._ask(name, socket.AF_INET))
        return await self._ask_both(name)

    async def _ask_both(self, name: str) -> Found:
        """Waits for the first family, and a moment longer for the other: some name servers answer only one."""
        asking = [asyncio.ensure_future(self._ask(name, f)) for f in (socket.AF_INET6, socket.AF_INET)]
        try:
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            has_some = any(one.exception() is None for one in done)
            await asyncio.wait(asking, timeout=_SECOND_FAMILY if has_some else None)
            good = [one.result() for one in asking if one.done() and one.exception() is None]
            if not good:
                # The error for IPv4 says more than "it has no IPv6 address".
                await asyncio.wait(asking)
                raise asking[1].exception() or UnresolvedError("no_such_name", "no address")
            return _found(*good)
        finally:
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, name: str, family: socket.AddressFamily) -> pycares.AddrInfoResult:
        try:
            return await self._channel.getaddrinfo(name, family, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            raise UnresolvedError(
                _ARES_WHY.get(error.args[0], "failed"), _lower(str(error.args[1]))
            ) from None
        except ValueError:
            raise UnresolvedError("no_such_name", "not a name") from None

    async def close(self) -> None:
        await self._channel.close()
        await self._system.close()


def _getaddrinfo(name: str) -> list[tuple[object, object, object, object, tuple[object, ...]]]:
    return list(socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))


def _found(*results: pycares.AddrInfoResult) -> Found:
    nodes = [node for result in results for node in result.nodes[:_MOST]]
    if not nodes:
        raise UnresolvedError("no_such_name", "no address")
    addresses = dict.fromkeys(node.addr[0].decode("ascii") for node in nodes)
    return Found(tuple(addresses), float(min(node.ttl for node in nodes)))


def _is_local(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _may_be_known_here(name: str) -> bool:
    """Whether the system may know a name that c-ares does not: the machine's own, or an mDNS name."""
    return "." not in name or name.endswith(".local")


def _has_ipv6() -> bool:
    """Whether IPv6 addresses have a route. Nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.connect(_FAR_AWAY)
        return True
    return False


def _lower(text: str) -> str:
    """A message of c-ares, to be part of a sentence."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


_WHY_NOT: dict[int | None, Why] = {
    socket.EAI_NONAME: "no_such_name",
    getattr(socket, "EAI_NODATA", socket.EAI_NONAME): "no_such_name",
    socket.EAI_AGAIN: "unanswered",
}
_ARES_WHY: dict[int, Why] = {}
if aiodns is not None:
    _ARES_WHY = {
        aiodns.error.ARES_ENOTFOUND: "no_such_name",
        aiodns.error.ARES_ENODATA: "no_such_name",
        aiodns.error.ARES_EBADNAME: "no_such_name",
        aiodns.error.ARES_ETIMEOUT: "unanswered",
    }
