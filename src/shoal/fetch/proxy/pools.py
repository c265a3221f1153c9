"""Proxies and pools from the settings. The credentials of a proxy are never shown.

A pool is a list of addresses, or of sources of addresses: `file:PATH` (one a line), `env:NAME` (separated by white
space). So passwords need not be in shoal.toml.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from yarl import URL

from shoal.errors import SettingsError
from shoal.policy.host_table import table_name
from shoal.settings import Settings

DIRECT = "direct"  # the pool without a proxy

_SCHEMES = {"http": "http", "https": "https", "socks5": "socks5", "socks5h": "socks5"}
_SOCKS_PORT = 1080
_HOST = re.compile(r"\w[\w.-]*|[0-9a-fA-F:.]+")  # a name, an address
_HOW = "write http://user:password@host:port, with https or socks5 as it may be"


class Proxy:
    """One proxy of a pool. `name` has no credentials; logs and records use it."""

    __slots__ = ("_password", "_user", "address", "host", "name", "pool", "port", "scheme")

    def __init__(
        self,
        pool: str,
        scheme: str,
        host: str,
        port: int,
        user: str | None,
        password: str | None,
        twin: int = 1,
    ) -> None:
        self.pool = pool
        self.scheme = scheme
        self.host = host
        self.port = port
        shown = f"[{host}]" if ":" in host else host
        # Gateways distinguish their exits by user name, so an address may occur more than once.
        self.address = f"{shown}:{port}" + (f"#{twin}" if twin > 1 else "")
        self.name = f"{pool}/{self.address}"
        self._user = user
        self._password = password

    def __repr__(self) -> str:
        return f"<Proxy {self.name}>"

    @property
    def url(self) -> URL:
        return URL.build(scheme=self.scheme, host=self.host, port=self.port)

    def forwards(self, url: str) -> bool:
        """Whether it forwards the request instead of opening a tunnel to the host."""
        return self.scheme != "socks5" and url.startswith("http:")

    def login(self) -> tuple[bytes, bytes] | None:
        """User and password, if it has any."""
        if self._user is None:
            return None
        return self._user.encode(), (self._password or "").encode()

    def header(self) -> str | None:
        """The value of Proxy-Authorization, if it has user and password."""
        login = self.login()
        return None if login is None else f"Basic {b64encode(b':'.join(login)).decode()}"


Pools = Mapping[str, Sequence[Proxy]]


def load_pools(settings: Settings, environ: Mapping[str, str]) -> Pools:
    """The pools of the settings; each has at least one proxy."""
    if DIRECT in settings.proxies:
        raise SettingsError(
            f"proxies: {DIRECT!r} is the name of the way without a proxy; name the pool otherwise"
        )
    return {pool: _pool(pool, entries, environ) for pool, entries in settings.proxies.items()}


def find_pools(settings: Settings, handlers: Sequence[str], environ: Mapping[str, str]) -> Pools:
    """The pools of the settings. Raises if a setting or a handler names a pool that does not exist. `handlers`: the
    pools of a spider's handlers."""
    pools = load_pools(settings, environ)
    routes = [route.removeprefix("pool:") for route in settings.challenge_routes if route.startswith("pool:")]
    named = {
        "pool": [settings.pool],
        "worker_pool": [settings.worker_pool],
        "fallback": settings.fallback,
        "a handler's pool": handlers,
        "challenge_routes": routes,
        **{f"{table_name(name, table)} pool": [table.pool or ""] for name, table in settings.host.items()},
    }
    for where, names in named.items():
        for name in names:
            if name and name != DIRECT and name not in pools:
                known = ", ".join(sorted({*pools, DIRECT}))
                raise SettingsError(f"{where}: there is no pool {name!r}; proxies has {known}")
    return pools


def _pool(pool: str, entries: Sequence[str], environ: Mapping[str, str]) -> Sequence[Proxy]:
    if "/" in pool or not pool:
        raise SettingsError(f"proxies: {pool!r} is no name for a pool: it is empty or has a slash")
    proxies: list[Proxy] = []
    for where, url in _addresses(pool, entries, environ):
        proxies.append(_proxy(pool, url, where, proxies))
    if not proxies:
        raise SettingsError(f"proxies: pool {pool!r} is empty; {_HOW}")
    return proxies


def _addresses(pool: str, entries: Sequence[str], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every address, and where it was found, as it may be shown."""
    for number, entry in enumerate(entries, 1):
        source, _, place = entry.partition(":")
        if source == "file":
            yield from _lines(pool, place)
        elif source == "env":
            if place not in environ:
                raise SettingsError(f"proxies: pool {pool!r}: the environment has no variable {place}")
            yield from ((f"environment variable {place}", url) for url in environ[place].split())
        else:
            yield f"entry {number}", entry


def _lines(pool: str, path: str) -> Iterator[tuple[str, str]]:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise SettingsError(f"proxies: pool {pool!r}: {path} cannot be read: {reason}") from None
    for number, line in enumerate(text.splitlines(), 1):
        url = line.strip()
        if url and not url.startswith("#"):
            yield f"{path}, line {number}", url


def _proxy(pool: str, text: str, where: str, others: Sequence[Proxy]) -> Proxy:
    try:
        url = _parsed(text)
    except ValueError as error:  # its text leaves the address out: it may hold a password
        raise SettingsError(
            f"proxies: pool {pool!r}, {where}: is not a proxy's address: {error}; {_HOW}"
        ) from None
    host, port = url.host or "", url.port or _SOCKS_PORT
    twin = 1 + sum((proxy.host, proxy.port) == (host, port) for proxy in others)
    return Proxy(pool, _SCHEMES[url.scheme], host, port, url.user, url.password, twin)


def _parsed(text: str) -> URL:
    scheme, marked, _ = text.partition("://")
    if marked and scheme.lower() not in _SCHEMES:
        raise ValueError("its scheme is not http, https or socks5")
    try:
        url = URL(text if marked else f"http://{text}")
        host, port = url.host, url.explicit_port
    except (ValueError, IndexError):  # the latter for "[]@"
        raise ValueError("its host or its port (1 to 65535) cannot be read") from None
    if not host:
        raise ValueError("it names no host")
    if not _HOST.fullmatch(host) or ".." in host:
        raise ValueError("its host is no name and no address")
    if port == 0:
        raise ValueError("its port is not one of 1 to 65535")
    if url.path not in ("", "/") or url.query_string or url.fragment:
        raise ValueError("it has a path or a query, as a page has")
    return url
