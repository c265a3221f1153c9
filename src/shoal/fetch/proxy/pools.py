"""Proxies and pools from the settings. The credentials of a proxy are never shown.

A pool is a list of addresses, or of sources of addresses: `file:PATH` (one a line), `env:NAME` (separated by white
space); `${NAME}` in an address is a variable of the environment. So passwords need not be in shoal.toml.

Providers sell one address whose user name says which exit to take: `{country}` and `{session}` in it are filled in for
every request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from shoal.errors import SettingsError
from shoal.fetch.proxy.gateway import Gateway
from shoal.fetch.proxy.proxy import Proxy
from shoal.model.proxy_address import HOW, SCHEMES, SOCKS_PORT, filled_address, is_address, parse_address
from shoal.policy.host_table import table_name
from shoal.settings import PoolSettings, Settings

DIRECT = "direct"  # the pool without a proxy


Pools = Mapping[str, Sequence[Proxy]]


def load_pools(settings: Settings, environ: Mapping[str, str]) -> Pools:
    """The pools of the settings; each has at least one proxy."""
    if DIRECT in settings.proxies:
        raise SettingsError(
            f"proxies: {DIRECT!r} is the name of the way without a proxy; name the pool otherwise"
        )
    return {name: _pool(name, pool_settings(settings, name), environ) for name in settings.proxies}


def pool_settings(settings: Settings, name: str) -> PoolSettings:
    """The settings of a pool, with the general ones where it has none of its own."""
    given = settings.proxies.get(name, [])
    own = given if isinstance(given, PoolSettings) else PoolSettings(urls=given)
    return replace(
        own,
        strategy=own.strategy or settings.pool_strategy,
        cooldown=own.cooldown or settings.pool_cooldown,
        cost=settings.pool_costs.get(name, 0.0) if own.cost is None else own.cost,
    )


def find_pools(settings: Settings, handlers: Sequence[str], environ: Mapping[str, str]) -> Pools:
    """The pools of the settings. Raises if a setting or a handler names a pool that does not exist. `handlers`: the
    pools of a spider's handlers."""
    pools = load_pools(settings, environ)
    _check_proxy(settings.proxy, pools, environ)
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


def _check_proxy(text: str, pools: Pools, environ: Mapping[str, str]) -> None:
    """Checks the setting `proxy`."""
    if not text or text == DIRECT:
        return
    if not is_address(text):
        names = {name for pool in pools.values() for name in [pool[0].pool, *(proxy.name for proxy in pool)]}
        if text not in names:
            raise SettingsError(f"proxy: there is no {text!r} in the setting proxies; {HOW}")
        if len(pools.get(text, ())) > 1:
            raise SettingsError(f"proxy: {text!r} has several proxies; write pool = {text!r} instead")
        return
    try:
        parse_address(filled_address(text, environ))
    except KeyError as error:
        raise SettingsError(f"proxy: the environment has no variable {error.args[0]}") from None
    except ValueError as error:
        raise SettingsError(f"proxy: is not a proxy's address: {error}; {HOW}") from None


def _pool(pool: str, own: PoolSettings, environ: Mapping[str, str]) -> Sequence[Proxy]:
    if "/" in pool or not pool:
        raise SettingsError(f"proxies: {pool!r} is no name for a pool: it is empty or has a slash")
    if own.gateway:
        return [_gateway(pool, own, environ)]
    proxies: list[Proxy] = []
    for country, entries in [("", own.urls), *own.countries.items()]:
        for where, url in _addresses(pool, entries, environ):
            proxies.append(_proxy(pool, url, where, proxies, country.lower(), environ))
    if not proxies:
        raise SettingsError(f"proxies: pool {pool!r} is empty; {HOW}")
    if not own.country and any(proxy.takes("country") for proxy in proxies):
        raise SettingsError(
            f'proxies: pool {pool!r} has {{country}} in an address: add country = "…" to [proxies.{pool}], '
            "for requests that ask for none"
        )
    return proxies


def _gateway(pool: str, own: PoolSettings, environ: Mapping[str, str]) -> Gateway:
    where = f"proxies: pool {pool!r}: gateway"
    if own.urls or own.countries:
        raise SettingsError(f"{where}: a pool is a gateway, or has urls or countries; not both")
    try:
        return Gateway(pool, own, environ)
    except KeyError as error:
        raise SettingsError(f"{where}: the environment has no variable {error.args[0]}") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


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


def _proxy(
    pool: str, text: str, where: str, others: Sequence[Proxy], country: str, environ: Mapping[str, str]
) -> Proxy:
    try:
        url = parse_address(filled_address(text, environ))
    except KeyError as error:
        missing = f"the environment has no variable {error.args[0]}"
        raise SettingsError(f"proxies: pool {pool!r}, {where}: {missing}") from None
    except ValueError as error:  # its text leaves the address out: it may hold a password
        raise SettingsError(
            f"proxies: pool {pool!r}, {where}: is not a proxy's address: {error}; {HOW}"
        ) from None
    host, port = url.host or "", url.port or SOCKS_PORT
    twin = 1 + sum((proxy.host, proxy.port) == (host, port) for proxy in others)
    return Proxy(pool, SCHEMES[url.scheme], host, port, url.user, url.password, twin, country)
