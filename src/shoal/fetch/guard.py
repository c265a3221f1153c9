"""The guard: which addresses may be connected to.

A page may link or redirect to anything, and a name may resolve to another address each time. So the guard checks the
address that a socket is about to connect to. It refuses addresses that are not public, unless the user allowed their
network, or typed that host and port as a start URL of this job.

A typed name is pinned to what it first resolved to: the public internet, or a private network. The pin is stored with
the host and for the job (hosts/cache.py), so it holds in every process and after a restart.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from msgspec import Struct

from shoal.errors import SettingsError

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_Name = tuple[str, int]  # in lower case, and the port

_MOST_ADDRESSES = 1_000  # remembered of what typed names resolved to
_MOST_NETWORKS = 8  # of one name

_NAT64 = IPv6Network("64:ff9b::/96")
# Public by number, or by the tables of older Pythons, but reachable only from inside.
_SPECIAL = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))

# Where clouds hand out the credentials of a machine to its processes. Typing such a host is not enough: only
# --allow-network opens them.
METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Google, Azure, Oracle, DigitalOcean, OpenStack and most others
            "169.254.170.2",  # AWS ECS: the credentials of a task
            "169.254.170.23",  # AWS EKS: the identity of a pod
            "fd00:ec2::254",  # AWS over IPv6
            "fd00:ec2::23",  # AWS EKS over IPv6
            "fd20:ce::254",  # Google over IPv6
            "168.63.129.16",  # Azure: the wire server
            "192.0.0.192",  # Oracle Classic
            "100.100.100.200",  # Alibaba
            "169.254.0.23",  # Tencent
            "169.254.42.42",  # Scaleway
            "fd00:42::42",  # Scaleway over IPv6
        ),
    )
)
# Their names, for proxies that resolve names themselves. For us the addresses are enough.
_METADATA_NAMES = frozenset(
    {
        "metadata.google.internal",
        "metadata.goog",
        "metadata.tencentyun.com",
        "instance-data",  # AWS
        "instance-data.ec2.internal",
    }
)


class Pin(Struct, frozen=True, array_like=True):
    """What a typed name resolved to when a job first used it."""

    # None: not resolved yet. Empty: public addresses. Otherwise the private networks around its addresses: a server
    # that is restarted may get the next free address.
    networks: tuple[str, ...] | None = None

    def allows(self, address: Address) -> bool:
        """Whether the name may resolve to that address, which is not public."""
        return any(address in ip_network(network) for network in self.networks or ())

    def __str__(self) -> str:
        return " and ".join(self.networks) if self.networks else "the public internet"


class ForbiddenAddressError(OSError):
    """An address that may not be connected to.

    All have the same text: when every address of a name is refused, the connector then raises the first error instead
    of a plain OSError made of all of them.
    """

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(errno.EACCES, "forbidden address")
        self.address = address
        self.reason = reason  # "is a loopback address"

    @property
    def advice(self) -> str:
        return (
            f"{self.address} {self.reason}; "
            f"to crawl it, add --allow-network {self.address}/{self.address.max_prefixlen}"
        )


class Guard:
    """Decides for every socket of one job whether it may be opened."""

    def __init__(self, allow_network: Iterable[str] = (), allowed: Iterable[tuple[str, int]] = ()) -> None:
        self._networks = tuple(_network(text) for text in allow_network)
        self._addresses: set[tuple[Address, int]] = set()  # typed as addresses
        self._names: dict[_Name, Pin] = {}  # typed
        # Private addresses that typed names resolved to.
        self._stands_for: dict[tuple[Address, int], _Name] = {}
        for host, port in allowed:
            self.allow(host, port)

    def allow(self, host: str, port: int, pin: Pin | None = None) -> None:
        """Allows what the user typed: an address, or a name and the private addresses it resolves to. `pin` is what the
        store knows about the name; it overrides what was seen here."""
        address = _address(host.strip("[]"))
        if address is not None:
            self._addresses.add((_embedded(address), port))
        elif pin is not None and pin.networks is not None:
            self._names[_fold(host), port] = pin
        else:
            self._names.setdefault((_fold(host), port), Pin())

    def pin(self, host: str, port: int) -> Pin | None:
        """What a typed name is pinned to; None if it was not typed, or is an address."""
        return self._names.get((_fold(host), port))

    def socket_factory(self, addr_info: AddrInfoType) -> socket.socket:
        """A socket for the address; raises ForbiddenAddressError if it may not be connected to."""
        family, kind, protocol, _, sockaddr = addr_info
        self.check(str(sockaddr[0]), int(sockaddr[1]))
        return socket.socket(family=family, type=kind, proto=protocol)

    def check(self, host: str, port: int) -> None:
        literal = ip_address(host)
        address = _embedded(literal)
        what = _why_not_public(address)
        if what is None or any(address in network or literal in network for network in self._networks):
            return
        if address in METADATA:
            raise ForbiddenAddressError(address, "is where clouds keep the credentials of a machine")
        if (address, port) in self._addresses:
            return
        name = self._stands_for.get((address, port))
        if name is None:
            raise ForbiddenAddressError(address, f"is {what} address")
        pin = self._names[name]
        if not pin.allows(address):
            raise ForbiddenAddressError(address, f"is {what} address, but {name[0]} was in {pin} at first")

    def check_unresolved(self, host: str, port: int) -> None:
        """Checks a target that a proxy will resolve, as far as its name tells. "localhost" would be the proxy's own."""
        name = _fold(host.strip("[]"))
        if (address := _address(name) or _old_address(name)) is not None:
            self.check(str(address), port)
        elif name in _METADATA_NAMES:
            self.check("169.254.169.254", port)
        elif (name == "localhost" or name.endswith(".localhost")) and (name, port) not in self._names:
            self.check("127.0.0.1", port)

    def note(self, host: str, port: int, addresses: Iterable[str]) -> None:
        """Records what a name resolved to, before anybody connects to it.

        The first resolution of a typed name pins it: a public site cannot later point its name to a private address,
        nor a private machine to another network. No name may stand for a link-local address.
        """
        name = (_fold(host), port)
        if name not in self._names:
            return
        found = [_embedded(ip_address(address)) for address in addresses]
        private = [address for address in found if _why_not_public(address) is not None]
        if self._names[name].networks is None and found:
            self._names[name] = Pin(_neighbours(private) if len(private) == len(found) else ())
        for address in private:
            self._remember(address, name)

    def _remember(self, address: Address, name: _Name) -> None:
        known, key = self._stands_for, (address, name[1])
        if address.is_link_local or (key in known and self._names[known[key]].allows(address)):
            return  # it stays with the name that may stand for it
        if len(known) >= _MOST_ADDRESSES:
            del known[next(iter(known))]
        known[key] = name


def _neighbours(addresses: Iterable[Address]) -> tuple[str, ...]:
    bits = {4: 24, 6: 64}
    networks = (ip_network((address, bits[address.version]), strict=False) for address in addresses)
    return tuple(sorted({str(network) for network in networks})[:_MOST_NETWORKS])


def _fold(name: str) -> str:
    return name.lower().rstrip(".")


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _old_address(text: str) -> Address | None:
    """An address in one of the old spellings that resolvers still accept: 127.1, 0x7f.1, 2130706433."""
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
    """The IPv4 address that an IPv6 address contains, if it contains one."""
    if isinstance(address, IPv4Address):
        return address
    address = IPv6Address(int(address))  # without the zone of "fe80::1%eth0"
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
    """What kind of address it is; None if it is public."""
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
