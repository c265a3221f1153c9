"""What this process knows about hosts: a cache of their records, and the way to change them.

A lease tells the version of its host's record, so a record is read again only after somebody changed it. A change is
compare-and-set: read, fold, write, and again from the start if another worker was quicker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.identity import origin
from shoal.classify import rule_for
from shoal.clock import Clock
from shoal.fetch.robots import Robots, RobotsRecord, fetch_robots
from shoal.fetch.transport import Transport
from shoal.frontier.protocol import Frontier, HostRecord, Valve
from shoal.model import Lease
from shoal.policy.host import configured
from shoal.settings import Settings

_CACHED = 20_000
_UNREACHABLE_CAP = 60.0


class HostState(Struct, frozen=True, omit_defaults=True):
    """The policies' memory of a host, kept with its record."""

    start: bool = False  # a start URL leads here: it is part of the crawl
    typed: bool = False  # … and names this host itself: its address may be a private one
    robots: RobotsRecord | None = None
    silent: int = 0  # how often in a row robots.txt could not be had


class HostView(Struct, frozen=True):
    version: int
    state: HostState
    robots: Robots | None  # parsed; None: not asked yet


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostState).decode


def state_of(record: HostRecord) -> HostState:
    return _decode(record.state) if record.state else HostState()


class HostBook:
    def __init__(
        self,
        frontier: Frontier,
        transport: Transport,
        settings: Settings,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._frontier = frontier
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._views: dict[str, HostView] = {}
        self._asking: set[str] = set()

    async def view(self, lease: Lease) -> HostView:
        host = lease.task.host
        cached = self._views.get(host)
        if cached is not None and cached.version == lease.host_version:
            view = cached
        else:
            record = await self._frontier.host(host)
            assert record is not None, host
            view = self._remember(record)
        if lease.task.parent == 0:
            typed = view.state.typed or not lease.task.hops
            if not view.state.start or typed != view.state.typed:
                view = await self.change(host, lambda state: replace(state, start=True, typed=typed))
        return view

    def wants_robots(self, host: str, view: HostView) -> bool:
        """Whether robots.txt is due to be asked for. While one task asks again, the others go by the old answer."""
        known = view.state.robots
        if not self._settings.robots or (known is not None and self._clock.time() < known.expires_at):
            return False
        return known is None or host not in self._asking

    async def ask_robots(self, lease: Lease, since: float) -> HostView:
        """Fetches robots.txt with the lease's permission to hit the host, and lets everybody know. `since` is when
        the work on the lease began (monotonic)."""
        host = lease.task.host
        self._asking.add(host)
        try:
            record = await fetch_robots(
                self._transport,
                origin(lease.task.url),
                now=self._clock.time(),
                pause=lambda: self._sleep(lease.interval),
            )
            took = self._clock.monotonic() - since
            return await self.change(host, lambda state: self._learn(state, record), late=took)
        finally:
            self._asking.discard(host)

    def _learn(self, state: HostState, record: RobotsRecord) -> HostState:
        if record.verdict != "disallow":
            return replace(state, robots=record, silent=0)
        if rule_for(record.reason).action == "bury":
            # Not silence but a host that cannot be spoken to at all; the pages will say so themselves.
            return replace(state, robots=replace(record, verdict="allow"), silent=0)
        wait = min(_UNREACHABLE_CAP, self._settings.retry_base * 2.0**state.silent)
        record = replace(record, expires_at=record.fetched_at + wait)
        return replace(state, robots=record, silent=min(state.silent + 1, 30))

    async def change(
        self, host: str, fold: Callable[[HostState], HostState], *, late: float = 0.0
    ) -> HostView:
        """`late` is how long after its claim a request may have reached the host. A first request opens a connection,
        the next one does not: counted from the claim, it would arrive before its interval is over."""
        while True:
            record = await self._frontier.host(host)
            assert record is not None, host
            changed = self._with(record, fold(state_of(record)))
            if late and changed.valve.interval:
                changed = replace(changed, valve=_held_back(record.valve.reset(changed.valve), late))
            if await self._frontier.update_host(changed):
                return self._remember(replace(changed, version=record.version + 1))

    async def reconfigure(self, job: str) -> None:
        """Gives the hosts of a resumed job the valves of today's settings."""
        async for record in self._frontier.hosts(job):
            changed = self._with(record, state_of(record))
            if changed.valve != record.valve and not await self._frontier.update_host(changed):
                await self.change(record.name, lambda state: state)

    def _with(self, record: HostRecord, state: HostState) -> HostRecord:
        robots = self._parsed(record.name, state.robots)
        known = state.robots is not None and state.robots.verdict != "disallow"
        delay = robots.crawl_delay() if robots is not None else None
        valve = configured(record.valve, self._settings, crawl_delay=delay, robots_known=known)
        return replace(record, state=_encode(state), valve=valve)

    def _remember(self, record: HostRecord) -> HostView:
        state = state_of(record)
        view = HostView(record.version, state, self._parsed(record.name, state.robots))
        if len(self._views) >= _CACHED:
            del self._views[next(iter(self._views))]
        self._views[record.name] = view
        return view

    def _parsed(self, host: str, record: RobotsRecord | None) -> Robots | None:
        cached = self._views.get(host)
        if cached is not None and cached.robots is not None and cached.state.robots == record:
            return cached.robots
        return Robots.of(record, self._settings.user_agent) if record is not None else None


def _held_back(valve: Valve, seconds: float) -> Valve:
    return replace(valve, blocked_until=max(valve.blocked_until, valve.next_at + seconds))
