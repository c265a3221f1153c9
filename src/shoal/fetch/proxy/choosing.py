"""Which way a request takes: the pools in their order, or the one proxy that it names; and why there is none now."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

from shoal.events import event
from shoal.fetch.proxy.exits import not_in
from shoal.fetch.proxy.own_proxies import OwnProxies, OwnRoute
from shoal.fetch.proxy.pool import PoolStore, ProxyPool
from shoal.fetch.proxy.pools import DIRECT, find_pools, pool_settings
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Task
from shoal.policy.host_table import NOTHING
from shoal.policy.proxy_choice import Choice, Wait
from shoal.policy.proxy_faults import ProxyPolicy
from shoal.settings import HostSettings, Settings

_TOLD = 100
_PAGE = 100_000 / 1e9  # GB of a page, about
_LEAST_PRICE = 0.02  # of the dearest, added to the cost of a request: each takes the host's time


class NoRoute(Failure, frozen=True):
    """Nothing was sent; try again after `wait` seconds."""

    wait: float = 0.0


def nothing(host: str) -> HostSettings:
    return NOTHING


class RouteChooser:
    def __init__(
        self,
        settings: Settings,
        store: PoolStore,
        *,
        handlers: Sequence[str],
        own: Callable[[str], HostSettings],
        now: Callable[[], float],
        rng: random.Random,
        trusts_tasks: bool,
    ) -> None:
        """`handlers`: the pools that handlers ask for."""
        self._settings = settings
        self._own = own
        self._now = now
        pools = find_pools(settings, handlers, os.environ)
        self.own_pools = {name: pool_settings(settings, name) for name in pools}
        self.proxies = {proxy.name: proxy for pool in pools.values() for proxy in pool}
        self.pools = {
            name: ProxyPool(
                store,
                name,
                [proxy.name for proxy in proxies],
                ProxyPolicy(settings, self.own_pools[name]),
                now,
                rng,
            )
            for name, proxies in pools.items()
        }
        policy = ProxyPolicy(settings)
        if DIRECT in settings.fallback:
            self.pools[DIRECT] = ProxyPool(store, DIRECT, [DIRECT], policy, now, rng)
        self._named = OwnProxies(
            pools,
            self.proxies,
            self.pools,
            policy=policy,
            now=now,
            rng=rng,
            environ=os.environ,
            trusts_tasks=trusts_tasks,
        )
        if settings.proxy:
            self._named.find(settings.proxy, mine=True)  # so that there are pools
        self._exhausted: set[tuple[str, str]] = set()  # pool, and host if the pool works for others

    def _named_route(self, asked: str | None, pool: str | None) -> OwnRoute | Failure | None:
        """Where a request goes that names its proxy. None: it does not, and no pool is named in its place."""
        settings = self._settings
        if settings.worker_pool:
            return None
        if asked is not None:
            return self._named.find(asked)
        if settings.proxy and not (pool or settings.pool or settings.fallback):
            return self._named.find(settings.proxy, mine=True)
        return None

    def chain(self, pool: str | None) -> Sequence[str]:
        settings = self._settings
        if settings.worker_pool:
            return (settings.worker_pool,)
        first = pool or settings.pool or (settings.fallback[0] if settings.fallback else DIRECT)
        if first not in settings.fallback:
            return (first,)
        return settings.fallback[settings.fallback.index(first) :]

    async def choose(
        self, request: FetchRequest, host: str, failed: Sequence[str], left: str | None
    ) -> str | NoRoute:
        own = self._own(host).pool
        named = self._named_route(request.asked_proxy, request.pool or own)
        if isinstance(named, Failure):
            return NoRoute(named.kind, named.detail)
        if named is not None:
            return await self._choose_named(named, host, failed)
        chain = self.chain(request.pool or own)
        if chain[0] not in self.pools:
            if chain[0] == DIRECT:
                return self._not_in(request.country, chain) or DIRECT
            missing = f"there is no pool {chain[0]!r} in the setting proxies"
            if chain[0] != own:
                return NoRoute("invalid_request", missing)
            # Set for this host in the store, by somebody who meant another worker: nothing is lost by waiting.
            return NoRoute("proxy_wait", f"{missing} of this worker", wait=self._settings.pool_cooldown)
        avoid = {*request.avoid, *failed, *([left] if left else ())}
        probes = not avoid and request.session is None  # on a second try, and in a session, no experiments
        waits: list[tuple[str, Wait]] = []
        pools = [
            pool for pool in self._by_price(chain, host) if self.elsewhere(pool, request.country) is not None
        ]
        if not pools and (nowhere := self._not_in(request.country, chain)) is not None:
            return nowhere
        # Rather the next pool than a proxy that was refused before; but rather that than none.
        for pool, shunned in [*((pool, avoid) for pool in pools), *((pool, {*failed}) for pool in pools)]:
            hold = self._settings.total_timeout
            shunned = shunned | (self.elsewhere(pool, request.country) or frozenset())
            choice = await self.pools[pool].choose(host, avoid=shunned, probes=probes, hold=hold)
            if isinstance(choice, Choice):
                return choice.proxy
            if isinstance(choice, Wait):
                waits.append((pool, choice))
        return self._no_route(waits, chain, host)

    def elsewhere(self, pool: str, country: str | None) -> frozenset[str] | None:
        """The proxies of a pool that are not in the country; None: all of them."""
        if country is None:
            return frozenset()
        return not_in(
            [self.proxies[name] for name in self.pools[pool].proxies if name in self.proxies], country
        )

    def _not_in(self, country: str | None, chain: Sequence[str]) -> NoRoute | None:
        if country is None:
            return None
        pools = ", ".join(chain)
        return NoRoute("invalid_request", f"country: no proxy of {pools} is known to be in {country!r}")

    async def _choose_named(self, named: OwnRoute, host: str, failed: Sequence[str]) -> str | NoRoute:
        """The proxy that the request names; no other takes its place."""
        if named.pool == DIRECT:
            return DIRECT
        pool = self.pools[named.pool]
        others = {name for name in pool.proxies if name != named.proxy} if named.proxy else set()
        choice = await pool.choose(
            host, avoid={*failed, *others}, probes=True, hold=self._settings.total_timeout
        )
        if isinstance(choice, Choice):
            return choice.proxy
        return self._no_route([(named.pool, choice)] if choice is not None else [], [named.pool], host)

    def no_route_now(self, task: Task, pool: str | None) -> NoRoute | None:
        """Why the task has no route now, as far as is known; None: it has one."""
        waits: list[tuple[str, Wait]] = []
        named = self._named_route(task.options.proxy, pool)
        chain = [named.pool] if isinstance(named, OwnRoute) else self.chain(pool)
        for name in chain:
            choice = self.pools[name].peek(task.host) if name in self.pools else None
            if not isinstance(choice, Wait):
                return None
            waits.append((name, choice))
        return self._no_route(waits, chain, task.host)

    def _by_price(self, chain: Sequence[str], host: str) -> Sequence[str]:
        """The pools as listed; with costs, the one first that is likely to be cheapest for a page."""
        costs = {name: (own.cost or 0.0) + own.cost_per_gb * _PAGE for name, own in self.own_pools.items()}
        if len(chain) == 1 or not any(costs.values()):
            return chain

        least = _LEAST_PRICE * max(costs.values())

        def price(pool: str) -> float:
            return (costs.get(pool, 0.0) + least) / max(self.pools[pool].chance(host), 1e-6)

        return sorted(chain, key=price)

    def _no_route(self, waits: Sequence[tuple[str, Wait]], chain: Sequence[str], host: str) -> NoRoute:
        if not waits:
            return NoRoute("proxy_wait", f"pool {chain[-1]}: no other proxy is left to try", wait=1.0)
        pool, wait = min(waits, key=lambda found: found[1].until)
        detail = f"pool {pool}: every proxy is in quarantine ({wait.reason})"
        self._tell(pool, host if "banned" in wait.reason else "", detail)
        return NoRoute("proxy_wait", detail, wait=max(0.0, wait.until - self._now()))

    def _tell(self, pool: str, host: str, detail: str) -> None:
        """Reports an exhausted pool once, until it works again."""
        if (pool, host) not in self._exhausted and len(self._exhausted) < _TOLD:
            self._exhausted.add((pool, host))
            reason = f"{detail}; pages{f' of {host}' if host else ''} wait"
            event("pool_exhausted", pool=pool, host=host, reason=reason)

    def is_back(self, pool: str, host: str) -> None:
        for found in {(pool, host), (pool, "")} & self._exhausted:
            self._exhausted.discard(found)
            message = f"pool {pool} works again{f' for {host}' if found[1] else ''}"
            event("pool_back", message, pool=pool, host=found[1])
