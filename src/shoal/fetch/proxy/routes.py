"""Chooses pool, proxy and session of every request, and decides whose fault a failure is.

    request ──▶ pools in the order of preference ──▶ a proxy that is not in quarantine ──▶ fetch
                     └──▶ no route now: the task waits          ▲                           │
                                                                └── another, at once ◀── the proxy failed

A request that never reached the host failed by the proxy's fault: another proxy is tried at once, in the same lease.
Other failures (silence, a lost connection, half a body, a 5xx to a request that the proxy forwards) may be the proxy's
fault or the host's, and may have hit the host. They are in doubt: the page goes back to the queue, and takes another
proxy when the host is due. `policy/proxy_faults.py` decides when they count against the host, and when against the
proxy.

Requests without proxy and session go straight to the transport.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.clock import Clock
from shoal.fetch.proxy.choosing import NoRoute, RouteChooser, nothing
from shoal.fetch.proxy.costs import cost_of, received
from shoal.fetch.proxy.exits import with_exit
from shoal.fetch.proxy.pool import PoolStore
from shoal.fetch.proxy.pools import DIRECT
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.proxy.sessions import Session, Sessions
from shoal.fetch.proxy.signs import BAN, REFUSALS, is_eithers_fault, sign_of, takes_another
from shoal.fetch.transport import FetchRequest, Transport
from shoal.limits import COUNTER_NAME
from shoal.model import DOUBT, Failure, Outcome, Response, Task
from shoal.model.counts import COST, MILLION
from shoal.policy.load import Traffic
from shoal.policy.outcomes import kind_of, this_life
from shoal.policy.proxy_choice import Choice
from shoal.policy.proxy_state import ProxyObservation, Sign
from shoal.settings import HostSettings, Settings
from shoal.spider.rendering import Rendered

_ROTATIONS = 2  # other proxies tried in one lease
_BANS_PER_POOL = 2  # after so many proxies of a pool are refused a page, no other of the pool tries it


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
        countries: Mapping[str, str] | None = None,
        own: Callable[[str], HostSettings] = nothing,
        trusts_tasks: bool = True,
    ) -> None:
        """`trusts_tasks`: whether a stored request may name the address of its proxy."""
        self._transport = transport
        self._own = own  # the settings of a host
        self._settings = settings
        self._traffic = traffic
        self._clock = clock
        self._now = now
        self._rng = rng
        self._handlers = handlers or {}  # pools of handlers …
        self._countries = countries or {}  # … and the countries that they ask for
        self._chooser = RouteChooser(
            settings,
            store,
            handlers=list(self._handlers.values()),
            own=own,
            now=now,
            rng=rng,
            trusts_tasks=trusts_tasks,
        )
        self._pools, self._proxies = self._chooser.pools, self._chooser.proxies
        self._sessions = Sessions(settings)
        self._costs: dict[str, float] = {}  # by pool, not yet counted by the job

    def __repr__(self) -> str:
        return f"<Routes: {', '.join(self._pools) or 'direct'}>"

    @property
    def sessions(self) -> Sessions:
        return self._sessions

    @property
    def proxies(self) -> Mapping[str, Proxy]:
        """All proxies by their names, as "pool/host:port"."""
        return self._proxies

    # -- what it costs

    def take_costs(self) -> tuple[tuple[str, int], ...]:
        """What requests have cost by pool since the last call, as counters of the job: millionths."""
        if not self._costs:
            return ()
        costs = {pool: int(cost * MILLION) for pool, cost in self._costs.items()}
        self._costs = {pool: cost - costs[pool] / MILLION for pool, cost in self._costs.items()}
        return tuple((f"{COST}{pool}"[:COUNTER_NAME], cost) for pool, cost in costs.items() if cost)

    def return_costs(self, counted: Iterable[tuple[str, int]]) -> None:
        """Takes back what was not committed."""
        for name, number in counted:
            if name.startswith(COST):
                pool = name.removeprefix(COST)
                self._costs[pool] = self._costs.get(pool, 0.0) + number / MILLION

    # -- what a task asks for

    def with_route(self, request: FetchRequest, task: Task) -> FetchRequest:
        """The request with pool, session and proxies to avoid of its task."""
        pool = self._pool_name(task)
        session, banned = task.session or None, banned_proxies(task) if task.history else ()
        doubted, asked, country = self.doubtful_proxies(task), task.options.proxy, self._country(task)
        if (pool, session, asked, country) == (None, None, None, None) and not banned and not doubted:
            return request
        return replace(
            request,
            pool=pool,
            session=session,
            asked_proxy=asked,
            country=country,
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

    def _country(self, task: Task) -> str | None:
        return task.options.country or (self._countries.get(task.handler) if self._countries else None)

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
        for name in self._chooser.chain(self._pool_name(task)):
            pool = self._pools.get(name)
            if pool is None or sum(proxy in refused for proxy in pool.proxies) >= _BANS_PER_POOL:
                continue
            elsewhere = self._chooser.elsewhere(name, self._country(task))
            if elsewhere is not None and isinstance(pool.peek(host, avoid=refused | elsewhere), Choice):
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
            and request.country is None
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
            started = self._now()
            proxy = self._with_exit(self._proxies.get(via), request, session)
            if isinstance(proxy, Failure):
                return proxy
            prepared = self._prepared(request, proxy, session)
            if via == DIRECT and DIRECT not in self._pools:
                outcome = await self._transport.fetch(prepared)
                return outcome if session is None else replace(outcome, via=DIRECT)
            pool = self._pools[_pool_of(via)]
            with pool.asking(via):
                outcome = await self._transport.fetch(prepared)
            outcome = replace(outcome, via=via)
            self._learn(host, outcome, sign_of(prepared, outcome), started)
            outcome = await self._attributed(prepared, outcome, host)
            if not takes_another(request, outcome):
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

    def _with_exit(
        self, proxy: Proxy | None, request: FetchRequest, session: Session | None
    ) -> Proxy | Failure | None:
        if proxy is None or not proxy.varies:
            return proxy
        return with_exit(proxy, self._chooser.own_pools.get(proxy.pool), request, session, self._rng)

    def _prepared(self, request: FetchRequest, proxy: Proxy | None, session: Session | None) -> FetchRequest:
        if session is None:
            return replace(request, proxy=proxy)
        headers = {**session.headers_for(request.url), **(request.headers or {})}
        return replace(request, proxy=proxy, jar=session.jar, headers=headers)

    def _choose(
        self, request: FetchRequest, host: str, failed: Sequence[str]
    ) -> Coroutine[Any, Any, str | NoRoute]:
        left = self._sessions.left(request.session) if request.session is not None else None
        return self._chooser.choose(request, host, failed, left)

    def no_route_now(self, task: Task) -> NoRoute | None:
        """Why the task has no route now, as far as is known; None: it has one."""
        return self._chooser.no_route_now(task, self._pool_name(task))

    # -- whose fault

    async def _attributed(self, request: FetchRequest, outcome: Outcome, host: str) -> Outcome:
        kind = kind_of(outcome)
        gateway = kind == "proxy_gateway"
        if not gateway and not is_eithers_fault(request, outcome):
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
        pool, size = _pool_of(via), received(outcome)
        cost = cost_of(self._chooser.own_pools.get(pool), outcome, size)
        if cost:
            self._costs[pool] = self._costs.get(pool, 0.0) + cost
        self._pools[pool].record(
            ProxyObservation(via, host, sign, started, self._now(), kind_of(outcome), True, size, cost)
        )
        if isinstance(outcome, Response) and sign != "failed":
            self._chooser.is_back(_pool_of(via), host)


def banned_proxies(task: Task) -> tuple[str, ...]:
    """The proxies through which the task was refused, since it was last replayed."""
    return tuple(dict.fromkeys(failure.via for failure in this_life(task) if failure.kind == BAN))


def _pool_of(name: str) -> str:
    return name.partition("/")[0]


def _name(proxy: Proxy | None) -> str:
    return proxy.name if proxy is not None else DIRECT
