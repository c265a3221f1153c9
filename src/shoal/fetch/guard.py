"""The guard: which addresses may be connected to.

A page may link or redirect to anything, and a name may resolve to anything, a different thing each time. So the check
is made where it cannot be dodged: on the very address a socket is about to connect to. Addresses that are not public
are refused unless the user allowed their network, or typed that host and port as a start URL.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import AddrInfoType

from shoal.errors import SettingsError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")
# Public by number, or by the tables of older Pythons, but answering only inside: clouds keep metadata there.
_SPECIAL = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))


class ForbiddenAddressError(OSError):
    """An address that may not be connected to.

    All look alike as text: when every address of a name is refused, the connector then hands on the first error as
    it is instead of melting them into a plain OSError.
    """

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(errno.EACCES, "forbidden address")
        self.address = address
        self.reason = reason

    @property
    def advice(self) -> str:
        return (
            f"{self.address} is {self.reason} address; "
            f"to crawl it, add --allow-network {self.address}/{self.address.max_prefixlen}"
        )


class Guard:
    """Decides for every socket whether it may be opened."""

    def __init__(self, allow_network: Iterable[str] = (), allowed: Iterable[tuple[str, int]] = ()) -> None:
        self._networks = tuple(_network(text) for text in allow_network)
        self._pairs: set[tuple[Address, int]] = set()
        self._names: dict[
            tuple[str, int], bool | None
        ] = {}  # allowed name -> is it local? None: not yet known
        for host, port in allowed:
            self.allow(host, port)

    def allow(self, host: str, port: int) -> None:
        """Allows what the user typed: an address, or a name and whatever local addresses it stands for."""
        address = _address(host.strip("[]"))
        if address is None:
            self._names.setdefault((_fold(host), port), None)
        else:
            self._pairs.add((_embedded(address), port))

    def socket_factory(self, addr_info: AddrInfoType) -> socket.socket:
        """A socket for the address; raises ForbiddenAddressError if it may not be connected to."""
        family, kind, protocol, _, sockaddr = addr_info
        self.check(str(sockaddr[0]), int(sockaddr[1]))
        return socket.socket(family=family, type=kind, proto=protocol)

    def check(self, host: str, port: int) -> None:
        literal = ip_address(host)
        address = _embedded(literal)
        reason = _why_not_public(address)
        if reason is None or (address, port) in self._pairs:
            return
        if any(address in network or literal in network for network in self._networks):
            return
        raise ForbiddenAddressError(address, reason)

    def check_unresolved(self, host: str, port: int) -> None:
        """For a target that a proxy will resolve: what can be told without. "localhost" would be the proxy's own."""
        name = _fold(host.strip("[]"))
        if (address := _address(name) or _old_address(name)) is not None:
            self.check(str(address), port)
        elif (name == "localhost" or name.endswith(".localhost")) and (name, port) not in self._names:
            self.check("127.0.0.1", port)

    def note(self, host: str, port: int, addresses: Iterable[str]) -> None:
        """Learns what a name resolved to.

        Whether an allowed name is local is settled by its first resolution: a site on the public web cannot later
        turn its name to an address inside. Nor can any name stand for a link-local address, where clouds keep
        their credentials.
        """
        key = (_fold(host), port)
        if key not in self._names:
            return
        found = [_embedded(ip_address(address)) for address in addresses]
        if self._names[key] is None:
            self._names[key] = all(_why_not_public(address) is not None for address in found)
        if self._names[key]:
            self._pairs.update((address, port) for address in found if not address.is_link_local)


def _fold(name: str) -> str:
    return name.lower().rstrip(".")


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _old_address(text: str) -> Address | None:
    """An address in one of the spellings that resolvers still take: 127.1, 0x7f.1, 2130706433."""
    try:
        return ip_address(socket.inet_aton(text))
    except (OSError, ValueError):
        return None


def _network(text: str) -> Network:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise SettingsError(
            f"allow_network: {text!r} is not a network; write it like 10.0.0.0/8 or 192.168.1.5/32"
        ) from None


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address is a wrapping of, if it is one."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _why_not_public(address: Address) -> str | None:
    """What kind of address it is, if not one of the public internet."""
    if address.is_unspecified:
        return "the unspecified"
    if address.is_loopback:
        return "a loopback"
    if address.is_link_local:
        return "a link-local"
    if address.is_multicast:
        return "a multicast"
    if address.is_reserved or any(address in network for network in _SPECIAL):
        return "a reserved"
    if address.is_private or not address.is_global or getattr(address, "is_site_local", False):
        return "a private"
    return None
