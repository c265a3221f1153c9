"""Lookups of names by c-ares, with aiodns: no thread is needed.

c-ares reads /etc/hosts and /etc/resolv.conf, as the system does. Names that other parts of a system may know
(localhost, names without a dot, mDNS) are left to the system.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiodns

from shoal.fetch.dns_lookup import Found, SystemLookup, UnresolvedError, Why

if TYPE_CHECKING:
    import pycares

_TRIES = 4  # c-ares waits twice as long each time, and at first for a few times what the server usually takes
_SECOND_FAMILY = 0.05  # seconds that the addresses of one family are waited for when there are others
_MOST = 8  # addresses of a family: a name with thousands would have us try all of them
_FAR_AWAY = ("2000::1", 53)
_WHY: dict[int, Why] = {
    aiodns.error.ARES_ENOTFOUND: "no_such_name",
    aiodns.error.ARES_ENODATA: "no_such_name",
    aiodns.error.ARES_EBADNAME: "no_such_name",
    aiodns.error.ARES_ETIMEOUT: "unanswered",
}


class AresLookup:
    """Must be made inside a running loop, and closed in it."""

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
            raise UnresolvedError(_WHY.get(error.args[0], "failed"), _lower(str(error.args[1]))) from None
        except ValueError:
            raise UnresolvedError("no_such_name", "not a name") from None

    async def close(self) -> None:
        await self._channel.close()
        await self._system.close()


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
