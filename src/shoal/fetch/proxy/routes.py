"""Chooses pool, proxy and session of every request, and decides whose fault a failure is.

    request ──▶ pools in the order of preference ──▶ a proxy that is not in quarantine ──▶ fetch
                     └──▶ no route now: the task waits          ▲                           │
                                                                └── another, at once ◀── the proxy failed

A request that never reached the host failed by the proxy's fault: another proxy is tried at once, in the same lease.
Other failures (silence, a lost connection, half a body, a 5xx to a request that the proxy forwards) may be the proxy's
fault or the host's, and may have hit the host. They are in doubt: the page goes back to the queue, and takes another
proxy when the host is due. `policy/proxy.py` decides when they count against the host, and when against the proxy.

Requests without proxy and session go straight to the transport.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.clock import Clock
from shoal.events import event
from shoal.fetch.proxy.own_proxies import OwnProxies, OwnRoute
from shoal.fetch.proxy.pool import PoolStore, ProxyPool
from shoal.fetch.proxy.pools import DIRECT, Proxy, find_pools
from shoal.fetch.proxy.sessions import Session, Sessions
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import DOUBT, Failure, Outcome, Response, Task
from shoal.policy.host_table import NOTHING
from shoal.policy.load import Traffic
from shoal.policy.outcomes import kind_of, this_life
from shoal.policy.proxy import Choice, ProxyObservation, ProxyPolicy, Sign, Wait
from shoal.settings import HostSettings, Settings
from shoal.spider.rendering import Rendered

BAN = "proxy_ban"

_DOWN = frozenset({"proxy_connect", "proxy_timeout", "proxy_auth"})
_NOT_REACHED = _DOWN | {"proxy_refused", "proxy_gateway"}
_EITHERS_FAULT = frozenset(
    {
        *("timeout", "read_timeout", "connect_timeout", "too_slow"),
        *("reset", "truncated", "protocol", "encoding", "flood", "tls"),
    }
)
REFUSALS = frozenset({403, 451})  # a host may mean the proxy with these, not the page
_ROTATIONS = 2  # other proxies tried in one lease
_BANS_PER_POOL = 2  # after so many proxies of a pool are refused a page, no other of the pool tries it
_TOLD = 100
_LEAST_PRICE = 0.05  # added to the cost of a request: each takes the host's time


class NoRoute(Failure, frozen=True):
    """Nothing was sent; try again after `wait` seconds."""

    wait: float = 0.0


def _nothing(host: str) -> HostSettings:
    return NOTHING


class Routes:
    """A transport that chooses the route of every request."""

    def __init__(
        self,
        transport: Transport,
        settings: Settings,
        store: PoolStore,
        *,
        traffic: Traffic,
        clock: Clock,
        rng: random.Random,
        now: Callable[[], float],
        handlers: Mapping[str, str] | None = None,
        own: Callable[[str], HostSettings] = _nothing,
        trusts_tasks: bool = True,
    ) -> None:
        """`trusts_tasks`: whether a stored request may name the address of its proxy."""
        self._transport = transport
        self._own = own  # the settings of a host
        self._settings = settings
        self._traffic = traffic
        self._clock = clock
        self._now = now
        self._handlers = handlers or {}  # pools of handlers
        pools = find_pools(settings, list(self._handlers.values()), os.environ)
        policy = ProxyPolicy(settings)
        self._proxies = {proxy.name: proxy for pool in pools.values() for proxy in pool}
        self._pools = {
            name: ProxyPool(store, name, [proxy.name for proxy in proxies], policy, now, rng)
            for name, proxies in pools.items()
        }
        if DIRECT in settings.fallback:
            self._pools[DIRECT] = ProxyPool(store, DIRECT, [DIRECT], policy, now, rng)
        self._named = OwnProxies(
            pools,
            self._proxies,
            self._pools,
            policy=policy,
            now=now,
            rng=rng,
            environ=os.environ,
            trusts_tasks=trusts_tasks,
        )
        if settings.proxy:
            self._named.find(settings.proxy, mine=True)  # so that there are pools
        self._sessions = Sessions(settings)
        self._exhausted: set[tuple[str, str]] = set()  # pool, and host if the pool works for others

    def __repr__(self) -> str:
        return f"<Routes: {', '.join(self._pools) or 'direct'}>"

    @property
    def sessions(self) -> Sessions:
        return self._sessions

    @property
    def proxies(self) -> Mapping[str, Proxy]:
        """All proxies by their names, as "pool/host:port"."""
        return self._proxies

    # -- what a task asks for

    def with_route(self, request: FetchRequest, task: Task) -> FetchRequest:
        """The request with pool, session and proxies to avoid of its task."""
        pool = self._pool_name(task)
        session, banned = task.session or None, banned_proxies(task) if task.history else ()
        doubted, asked = self.doubtful_proxies(task), task.options.proxy
        if pool is None and session is None and asked is None and not banned and not doubted:
            return request
        return replace(
            request,
            pool=pool,
            session=session,
            asked_proxy=asked,
            avoid=(*banned, *doubted),
            doubted=doubted,
        )

    def _pool_name(self, task: Task) -> str | None:
        """The pool of the request, of the host, or of the handler, in this order; None: the setting."""
        return (
            task.pool
            or self._own(task.host).pool
            or (self._handlers.get(task.handler) if self._handlers else None)
        )

    def doubtful_proxies(self, task: Task) -> tuple[str, ...]:
        """The proxies through which the page failed in doubt, one entry for each failure."""
        if not task.history:
            return ()
        return tuple(failure.via for failure in this_life(task) if failure.kind == DOUBT)

    def has_other_route(self, task: Task, via: str) -> bool:
        """Whether a page that was refused through `via` may be tried through another proxy."""
        if not via or task.options.proxy is not None:
            return False
        refused = {*banned_proxies(task), via}
        host = task.host
        for name in self._chain(self._pool_name(task)):
            pool = self._pools.get(name)
            if pool is None or sum(proxy in refused for proxy in pool.proxies) >= _BANS_PER_POOL:
                continue
            if isinstance(pool.peek(host, avoid=refused), Choice):
                return True
        return False

    def record_refusal(self, task: Task, response: Response) -> None:
        """Records that the host refused a page through this proxy, with whatever status. Its session ends."""
        now = self._now()
        pool = self._pools.get(_pool_of(response.via))
        if pool is not None and response.status not in REFUSALS:
            pool.record(ProxyObservation(response.via, task.host, "doubt", now, now, BAN))
        session = self._sessions.current(task.session, now) if task.session is not None else None
        if session is not None and _name(session.proxy) == response.via:
            self._sessions.retire(session)

    def record_page(self, task: Task, response: Response) -> None:
        """Records a page that came at last: so the proxies through which it was refused before are banned."""
        if not task.history:
            return
        for name in banned_proxies(task):
            pool = self._pools.get(_pool_of(name))
            if pool is not None and name != response.via:
                now = self._now()
                pool.record(ProxyObservation(name, task.host, "banned", now, now, BAN))

    # -- fetching

    def fetch(
        self, request: FetchRequest
    ) -> Coroutine[Any, Any, Outcome]:  # not async: the plain case costs nothing
        if (
            not self._pools
            and request.session is None
            and request.asked_proxy is None
            and self._own(host_key(request.url)).pool is None
        ):
            return self._transport.fetch(request)
        return self._fetch(request)

    async def close(self) -> None:
        await self._transport.close()

    async def flush(self, *, everything: bool = False) -> None:
        for pool in self._pools.values():
            await pool.flush(everything=everything)

    async def _fetch(self, request: FetchRequest) -> Outcome:
        host = host_key(request.url)
        outcome: Outcome | None = None
        failed: list[str] = []
        while True:
            way = await self._way(request, host, failed)
            if isinstance(way, NoRoute):
                return way if outcome is None else outcome
            via, session = way
            proxy = self._proxies.get(via)
            started = self._now()
            prepared = self._prepared(request, proxy, session)
            if via == DIRECT and DIRECT not in self._pools:
                outcome = await self._transport.fetch(prepared)
                return outcome if session is None else replace(outcome, via=DIRECT)
            pool = self._pools[_pool_of(via)]
            with pool.asking(via):
                outcome = await self._transport.fetch(prepared)
            outcome = replace(outcome, via=via)
            self._learn(host, outcome, _sign(prepared, outcome), started)
            outcome = await self._attributed(prepared, outcome, host)
            if not _takes_another(request, outcome):
                if session is not None and self._has_failed(request, outcome):
                    self._sessions.retire(session)
                return outcome
            if session is not None:
                self._sessions.retire(session)
            failed.append(via)
            if len(failed) > _ROTATIONS:
                return outcome
            kind = getattr(outcome, "kind", BAN)
            self._traffic.record(host, kind, 0.0, self._clock.monotonic(), retry=False)

    async def _way(
        self, request: FetchRequest, host: str, failed: Sequence[str]
    ) -> tuple[str, Session | None] | NoRoute:
        now = self._now()
        name = request.session
        session = self._sessions.current(name, now) if name is not None else None
        if session is not None and self._is_held(_name(session.proxy)):
            self._sessions.retire(session)
            session = None
        if session is not None and request.asked_proxy is not None:
            via = await self._choose(request, host, failed)
            if isinstance(via, NoRoute):
                return via
            session.proxy = self._proxies.get(via)  # it moves there, with its cookies
        if session is None:
            via = await self._choose(request, host, failed)
            if isinstance(via, NoRoute) or name is None:
                return via if isinstance(via, NoRoute) else (via, None)
            # Another page of the session may have begun it meanwhile.
            session = self._sessions.current(name, now)
            session = session or self._sessions.begin(name, self._proxies.get(via), now, request.url)
        session.requests += 1
        return _name(session.proxy), session

    def _prepared(self, request: FetchRequest, proxy: Proxy | None, session: Session | None) -> FetchRequest:
        if session is None:
            return replace(request, proxy=proxy)
        headers = {**session.headers_for(request.url), **(request.headers or {})}
        return replace(request, proxy=proxy, jar=session.jar, headers=headers)

    # -- choosing

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

    def _chain(self, pool: str | None) -> Sequence[str]:
        settings = self._settings
        if settings.worker_pool:
            return (settings.worker_pool,)
        first = pool or settings.pool or (settings.fallback[0] if settings.fallback else DIRECT)
        if first not in settings.fallback:
            return (first,)
        return settings.fallback[settings.fallback.index(first) :]

    async def _choose(self, request: FetchRequest, host: str, failed: Sequence[str]) -> str | NoRoute:
        own = self._own(host).pool
        named = self._named_route(request.asked_proxy, request.pool or own)
        if isinstance(named, Failure):
            return NoRoute(named.kind, named.detail)
        if named is not None:
            return await self._choose_named(named, host, failed)
        chain = self._chain(request.pool or own)
        if chain[0] not in self._pools:
            if chain[0] == DIRECT:
                return DIRECT
            missing = f"there is no pool {chain[0]!r} in the setting proxies"
            if chain[0] != own:
                return NoRoute("invalid_request", missing)
            # Set for this host in the store, by somebody who meant another worker: nothing is lost by waiting.
            return NoRoute("proxy_wait", f"{missing} of this worker", wait=self._settings.pool_cooldown)
        left = self._sessions.left(request.session) if request.session is not None else None
        avoid = {*request.avoid, *failed, *([left] if left else ())}
        probes = not avoid and request.session is None  # on a second try, and in a session, no experiments
        waits: list[tuple[str, Wait]] = []
        pools = self._by_price(chain, host)
        # Rather the next pool than a proxy that was refused before; but rather that than none.
        for pool, shunned in [*((pool, avoid) for pool in pools), *((pool, {*failed}) for pool in pools)]:
            hold = self._settings.total_timeout
            choice = await self._pools[pool].choose(host, avoid=shunned, probes=probes, hold=hold)
            if isinstance(choice, Choice):
                return choice.proxy
            if isinstance(choice, Wait):
                waits.append((pool, choice))
        return self._no_route(waits, chain, host)

    async def _choose_named(self, named: OwnRoute, host: str, failed: Sequence[str]) -> str | NoRoute:
        """The proxy that the request names; no other takes its place."""
        if named.pool == DIRECT:
            return DIRECT
        pool = self._pools[named.pool]
        others = {name for name in pool.proxies if name != named.proxy} if named.proxy else set()
        choice = await pool.choose(
            host, avoid={*failed, *others}, probes=True, hold=self._settings.total_timeout
        )
        if isinstance(choice, Choice):
            return choice.proxy
        return self._no_route([(named.pool, choice)] if choice is not None else [], [named.pool], host)

    def no_route_now(self, task: Task) -> NoRoute | None:
        """Why the task has no route now, as far as is known; None: it has one."""
        waits: list[tuple[str, Wait]] = []
        pool = self._pool_name(task)
        named = self._named_route(task.options.proxy, pool)
        chain = [named.pool] if isinstance(named, OwnRoute) else self._chain(pool)
        for pool in chain:
            choice = self._pools[pool].peek(task.host) if pool in self._pools else None
            if not isinstance(choice, Wait):
                return None
            waits.append((pool, choice))
        return self._no_route(waits, chain, task.host)

    def _by_price(self, chain: Sequence[str], host: str) -> Sequence[str]:
        """The pools as listed; with `pool_costs`, the one first that is likely to be cheapest for a page."""
        costs = self._settings.pool_costs
        if not costs or len(chain) == 1:
            return chain

        def price(pool: str) -> float:
            return (costs.get(pool, 0.0) + _LEAST_PRICE) / max(self._pools[pool].chance(host), 1e-6)

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

    def _is_back(self, pool: str, host: str) -> None:
        for found in {(pool, host), (pool, "")} & self._exhausted:
            self._exhausted.discard(found)
            message = f"pool {pool} works again{f' for {host}' if found[1] else ''}"
            event("pool_back", message, pool=pool, host=found[1])

    # -- whose fault

    async def _attributed(self, request: FetchRequest, outcome: Outcome, host: str) -> Outcome:
        kind = kind_of(outcome)
        gateway = kind == "proxy_gateway"
        if not gateway and not _is_eithers_fault(request, outcome):
            return outcome
        if self._pools[_pool_of(outcome.via)].blames_host(host, outcome.via, request.doubted):
            if not gateway:
                return outcome
            assert isinstance(outcome, Failure)
            return replace(outcome, kind="connect", detail=f"{outcome.detail}, nor could another way")
        if gateway:
            return outcome
        if isinstance(outcome, Rendered):
            await outcome.close()
        what = outcome.detail if isinstance(outcome, Failure) else "this may be its own word"
        detail = f"{kind} through proxy {outcome.via}: {what}"
        return Failure(DOUBT, detail, status=outcome.status, elapsed=outcome.elapsed, via=outcome.via)

    def _has_failed(self, request: FetchRequest, outcome: Outcome) -> bool:
        """Whether a session must leave its proxy. One that served well gets a second chance with a page."""
        if kind_of(outcome) != DOUBT:
            return False
        return outcome.via in request.doubted or not self._pools[_pool_of(outcome.via)].serves_well(
            outcome.via
        )

    def _is_held(self, via: str) -> bool:
        pool = self._pools.get(_pool_of(via))
        return pool is not None and pool.is_held(via)

    def _learn(self, host: str, outcome: Outcome, sign: Sign, started: float) -> None:
        via = outcome.via
        if via == DIRECT and isinstance(outcome, Failure):
            return
        self._pools[_pool_of(via)].record(
            ProxyObservation(via, host, sign, started, self._now(), kind_of(outcome))
        )
        if self._exhausted and isinstance(outcome, Response) and sign != "failed":
            self._is_back(_pool_of(via), host)


def banned_proxies(task: Task) -> tuple[str, ...]:
    """The proxies through which the task was refused, since it was last replayed."""
    return tuple(dict.fromkeys(failure.via for failure in this_life(task) if failure.kind == BAN))


def _takes_another(request: FetchRequest, outcome: Outcome) -> bool:
    """Whether the fetch is repeated at once through another proxy: the host was not reached, or it refused its
    robots.txt and may mean the proxy. That refusal would count as permission to fetch everything."""
    if isinstance(outcome, Failure):
        return outcome.kind in _NOT_REACHED
    return outcome.status in REFUSALS and request.url.endswith("/robots.txt")


def _is_eithers_fault(request: FetchRequest, outcome: Outcome) -> bool:
    """Whether proxy or host may be at fault. Answers through a tunnel are the host's own; a request that it forwards, a
    proxy may answer itself."""
    if request.proxy is None:
        return False
    if isinstance(outcome, Failure):
        return outcome.kind in _EITHERS_FAULT
    return outcome.status >= 500 and request.proxy.forwards(request.url)


def _sign(request: FetchRequest, outcome: Outcome) -> Sign:
    if _is_eithers_fault(request, outcome):
        return "failed"
    if isinstance(outcome, Response):
        if outcome.status in REFUSALS or outcome.status == 429:
            return "doubt"
        return "neutral" if outcome.status >= 500 else "good"
    if outcome.kind in _DOWN:
        return "down"
    if outcome.kind == "proxy_refused":
        return "banned"
    return "failed" if outcome.kind == "proxy_gateway" else "neutral"


def _pool_of(name: str) -> str:
    return name.partition("/")[0]


def _name(proxy: Proxy | None) -> str:
    return proxy.name if proxy is not None else DIRECT
