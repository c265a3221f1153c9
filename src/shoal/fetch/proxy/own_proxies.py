"""Proxies that requests name themselves, by address or by name (`Request.proxy`), beside the pools of the settings.

An address makes a pool of one proxy, known to this process only: what fails through it is told as a proxy's fault, it
is left alone for a while, and nobody else takes its place. The text of an address is the only place with its password;
it is kept in memory as the key of the pool, and never shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2s

from msgspec import Struct

from shoal.fetch.proxy.pool import LocalPools, ProxyPool
from shoal.fetch.proxy.pools import DIRECT, Pools
from shoal.fetch.proxy.proxy import Proxy
from shoal.model import Failure
from shoal.model.proxy_address import (
    HOW,
    SCHEMES,
    SOCKS_PORT,
    check_asked,
    filled_address,
    is_address,
    parse_address,
)
from shoal.policy.proxy_faults import ProxyPolicy

_KEPT = 1_000  # proxies given by address; beyond, the one that was not used for longest is forgotten


class OwnRoute(Struct, frozen=True):
    """Where a request goes that names its proxy."""

    pool: str
    proxy: str = ""  # "": any of the pool


class OwnProxies:
    def __init__(
        self,
        configured: Pools,
        proxies: dict[str, Proxy],
        pools: dict[str, ProxyPool],
        *,
        policy: ProxyPolicy,
        now: Callable[[], float],
        rng: random.Random,
        environ: Mapping[str, str],
        trusts_tasks: bool = True,
    ) -> None:
        """`proxies` and `pools`, by name, get those that are given by address. `trusts_tasks`: whether whoever writes
        to the store may choose what this process connects to."""
        self._configured = configured
        self._proxies = proxies
        self._pools = pools
        self._policy = policy
        self._now = now
        self._rng = rng
        self._environ = environ
        self._trusts_tasks = trusts_tasks
        self._by_text: dict[str, str] = {}  # an address as given -> the name of its pool

    def find(self, text: str, *, mine: bool = False) -> OwnRoute | Failure:
        """`mine`: it is from the settings of this process, and not from the store."""
        return self._by_address(text, mine) if is_address(text) else self._by_name(text)

    def _by_name(self, text: str) -> OwnRoute | Failure:
        pool, slash, _ = text.partition("/")
        if pool == DIRECT:
            return OwnRoute(DIRECT)
        if pool not in self._configured:
            known = ", ".join(self._configured) or "nothing"
            return Failure("invalid_request", f"proxy: there is no {pool!r} in the setting proxies: {known}")
        names = [proxy.name for proxy in self._configured[pool]]
        if slash:
            if text in names:
                return OwnRoute(pool, text)
            return Failure(
                "invalid_request", f"proxy: pool {pool!r} has no proxy {text!r}; see shoal proxies"
            )
        if len(names) > 1:
            detail = (
                f"proxy: {pool!r} has {len(names)} proxies: name one as {names[0]!r}, or write pool={pool!r}"
            )
            return Failure("invalid_request", detail)
        return OwnRoute(pool)

    def _by_address(self, text: str, mine: bool) -> OwnRoute | Failure:
        if (known := self._by_text.pop(text, None)) is not None:
            self._by_text[text] = known  # last in line
            return OwnRoute(known)
        if not mine and not self._trusts_tasks and "://" in text:
            return Failure(
                "untrusted",
                "proxy: this worker does not let the store choose an address: name a proxy of its setting proxies, or "
                'a variable of its environment, as in "${HOME_PROXY}"',
            )
        try:
            if not mine:
                check_asked(text)  # it may have been stored by another program
            proxy = self._proxy(filled_address(text, self._environ))
        except KeyError as error:
            missing = f"proxy: the environment of this process has no variable {error.args[0]}"
            return Failure("invalid_request", missing)
        except ValueError as error:
            return Failure("invalid_request", f"proxy: not a proxy's address: {error}; {HOW}")
        self._add(text, proxy)
        return OwnRoute(proxy.name)

    def _proxy(self, address: str) -> Proxy:
        url = parse_address(address)
        proxy = Proxy("", SCHEMES[url.scheme], url.host or "", url.port or SOCKS_PORT, url.user, url.password)
        # Providers tell exits apart by user names, so an address may have many.
        if url.user or proxy.name in self._configured:
            mark = blake2s(f"{url.scheme} {url.user}".encode(), digest_size=4).hexdigest()
            proxy.rename(f"{proxy.address}#{mark}")
        while (other := self._proxies.get(proxy.name)) is not None and other.login() != proxy.login():
            proxy.rename(f"{proxy.name}+")  # the same user with another password
        return proxy

    def _add(self, text: str, proxy: Proxy) -> None:
        while len(self._by_text) >= _KEPT and (idle := self._idle()):
            name = self._by_text.pop(idle)
            if name not in self._by_text.values():
                del self._pools[name], self._proxies[name]
        self._by_text[text] = proxy.name
        if proxy.name not in self._pools:
            self._proxies[proxy.name] = proxy
            names: Sequence[str] = [proxy.name]
            self._pools[proxy.name] = ProxyPool(
                LocalPools(), proxy.name, names, self._policy, self._now, self._rng
            )

    def _idle(self) -> str | None:
        """The text of the proxy that was not used for longest, and has no request in flight."""
        found = (text for text, name in self._by_text.items() if not self._pools[name].is_asking)
        return next(found, None)
