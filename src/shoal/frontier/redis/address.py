"""The address of a Valkey or Redis store: one server, a service behind sentinels, or a cluster.

    redis://user:password@host:6379/0                  valkey:// is the same; rediss:// and valkeys:// speak TLS
    unix:///run/valkey.sock?db=0
    redis+sentinel://host:26379,host:26379/service/0
    redis+cluster://host:6379,host:6379

A password is better kept in SHOAL_REDIS_PASSWORD than in the address. An address is shown without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NoReturn
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import UsageError

Kind = Literal["server", "sentinel", "cluster"]

_BASES = ("redis", "rediss", "valkey", "valkeys")
SCHEMES = (*(base + kind for kind in ("", "+sentinel", "+cluster") for base in _BASES), "unix")
OPTIONS = ("shards", "prefix", "wait", "db", "ca", "cert", "key")
MAX_SHARDS = 1024
MAX_REPLICAS = 10

_PORT = 6379
_SENTINEL_PORT = 26379
_CLUSTER_SHARDS = 16
_PREFIX = "shoal"
_EXAMPLE = "write redis://host:6379/0 (with %2F for / and %40 for @ in a password)"


class Address(Struct, frozen=True, repr_omit_defaults=True):
    scheme: str
    hosts: tuple[tuple[str, int], ...] = ()  # empty for a Unix socket
    path: str = ""  # of the Unix socket
    service: str = ""  # what the sentinels call the primary
    db: int = 0
    username: str | None = None
    password: str | None = None
    ca: str | None = None  # files for TLS: who may have signed the server's certificate, and our own
    cert: str | None = None
    key: str | None = None
    shards: int = 1
    prefix: str = _PREFIX
    wait: int = 0  # replicas that must have what was settled or added before that counts

    @classmethod
    def parse(cls, store: str, environ: Mapping[str, str] = os.environ) -> Address:
        parts = _split(store)
        userinfo, _, hosts = parts.netloc.rpartition("@")
        username, _, password = userinfo.partition(":")
        scheme = parts.scheme
        address = cls(
            scheme,
            username=unquote(username) or environ.get("SHOAL_REDIS_USERNAME") or None,
            password=unquote(password) or environ.get("SHOAL_REDIS_PASSWORD") or None,
            shards=_usual_shards(scheme),
        )
        if scheme == "unix":
            address = replace(address, path=_socket_path(hosts, parts.path))
        else:
            address = replace(address, hosts=_hosts(hosts, scheme))
            address = _with_path(address, unquote(parts.path).strip("/"))
        address = _with_options(address, parts.query)
        if address.username and not address.password:
            raise UsageError(
                f"no password for user {address.username!r} of the store at {address}:"
                " set SHOAL_REDIS_PASSWORD, or put it into the address"
            )
        return address

    @property
    def kind(self) -> Kind:
        if self.scheme.endswith("+sentinel"):
            return "sentinel"
        return "cluster" if self.scheme.endswith("+cluster") else "server"

    @property
    def tls(self) -> bool:
        return self.scheme.startswith(("rediss", "valkeys"))

    def __str__(self) -> str:
        """The address without user and password, as it may be shown and typed again."""
        return self.place + self.options

    @property
    def options(self) -> str:
        """The options that are not the usual ones, such as "?prefix=mine"."""
        options = {
            "db": self.db if self.scheme == "unix" and self.db else None,
            "shards": self.shards if self.shards != _usual_shards(self.scheme) else None,
            "prefix": self.prefix if self.prefix != _PREFIX else None,
            "wait": self.wait or None,
            **{name: getattr(self, name) for name in ("ca", "cert", "key")},
        }
        query = urlencode({name: value for name, value in options.items() if value is not None}, safe="/:")
        return f"?{query}" if query else ""

    @property
    def place(self) -> str:
        """The address without options."""
        if self.scheme == "unix":
            return f"unix://{quote(self.path, safe='/ ')}"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        service = f"/{self.service}" if self.service else ""
        return f"{self.scheme}://{hosts}{service}" + (f"/{self.db}" if self.db else "")

    def __repr__(self) -> str:
        return f"<Address {self}>"


def _usual_shards(scheme: str) -> int:
    return _CLUSTER_SHARDS if scheme.endswith("+cluster") else 1


def _split(store: str) -> SplitResult:
    try:
        store.encode()
        parts = urlsplit(store)
    except ValueError:
        _bad("cannot be read")
    if parts.scheme not in SCHEMES:
        raise UsageError(f"no store of kind {parts.scheme!r}: these are known: {', '.join(SCHEMES)}")
    if parts.fragment:
        _bad("has a '#'")
    if parts.scheme != "unix" and "@" in parts.path + parts.query:
        _bad("has an '@' behind its host")  # a / or ? in the password ended the host too early
    return parts


def _bad(what: str) -> NoReturn:
    """Raises without repeating the address: if it is mistyped, any part may hold a piece of the password."""
    raise UsageError(f"the store's address {what}: {_EXAMPLE}")


def _socket_path(host: str, path: str) -> str:
    if host or len(path) < 2:
        raise UsageError("a Unix socket is named by its whole path: write unix:///run/valkey.sock")
    return unquote(path)


def _hosts(text: str, scheme: str) -> tuple[tuple[str, int], ...]:
    default = _SENTINEL_PORT if scheme.endswith("+sentinel") else _PORT
    hosts = tuple(_host(part, default) for part in text.split(","))
    if len(hosts) > 1 and "+" not in scheme:
        raise UsageError(
            f"{scheme}:// names one server: use {scheme}+cluster:// or {scheme}+sentinel:// for several"
        )
    return hosts


def _host(text: str, default: int) -> tuple[str, int]:
    """`host`, `host:port`, `[2001:db8::1]:port`."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if not host:
        _bad("has no host")
    if port and not (_is_number(port) and 0 < int(port) < 65536):
        _bad("has a port that is not a number from 1 to 65535")
    return host.lower(), int(port) if port else default


def _with_path(address: Address, path: str) -> Address:
    match address.kind:
        case "cluster":
            if path not in ("", "0"):
                raise UsageError(
                    f"a cluster has one database, number 0: write {address} and nothing after it"
                )
            return address
        case "sentinel":
            service, _, db = path.partition("/")
            if not service:
                raise UsageError(
                    f"which service do the sentinels watch? Write {address}/NAME, such as {address}/mymaster"
                )
            return replace(address, service=service, db=_number("the database", db or "0", 0, 1 << 20))
        case "server":
            return replace(address, db=_number("the database", path or "0", 0, 1 << 20))


def _with_options(address: Address, query: str) -> Address:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name == "insecure":
            raise UsageError(
                "TLS without checking the certificate is not offered: name who signed it, ?ca=ca.pem"
            )
        if name not in OPTIONS:
            raise UsageError(f"no option {name!r} for a store: these are known: {', '.join(OPTIONS)}")
        address = _with_option(address, name, value)
    if bool(address.cert) != bool(address.key):
        raise UsageError("a client certificate has two files: give both ?cert=… and &key=…")
    return address


def _with_option(address: Address, name: str, value: str) -> Address:
    match name:
        case "shards":
            return replace(address, shards=_number("shards", value, 1, MAX_SHARDS))
        case "prefix":
            if not value or not value.isprintable() or set(value) & set("{} "):
                raise UsageError(f"not a prefix for keys: {value!r}; use letters, digits, ':' and '-'")
            return replace(address, prefix=value)
        case "wait":
            return replace(address, wait=_number("wait", value, 0, MAX_REPLICAS))
        case "db":
            if address.scheme != "unix":
                raise UsageError(f"the database is the last part of the address: {address.place}/{value}")
            return replace(address, db=_number("db", value, 0, 1 << 20))
    if not address.tls:
        raise UsageError(f"?{name}= is for TLS, and {address.scheme}:// speaks plain text: use rediss://")
    if not Path(value).is_file():
        raise UsageError(f"no file {value!r} (?{name}= in the store's address)")
    return replace(address, **{name: value})


def _number(what: str, text: str, low: int, high: int) -> int:
    if not (_is_number(text) and low <= int(text) <= high):
        raise UsageError(f"{what} in the store's address must be a number from {low} to {high}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
