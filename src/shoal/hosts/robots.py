"""Asks for robots.txt with a lease's permission to hit the host, and writes the answer down for everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from shoal.admit.identity import origin
from shoal.admit.identity import scheme as scheme_of
from shoal.clock import Clock
from shoal.fetch.robots_fetch import RobotsRecord, agent_of, fetch_robots
from shoal.fetch.transport import Transport
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Frontier
from shoal.hosts.cache import HostCache, HostView
from shoal.hosts.robots_visits import Visitor
from shoal.hosts.state import OriginState
from shoal.model import Lease, Task
from shoal.policy.outcomes import rule_for
from shoal.settings import Settings

_UNREACHABLE_CAP = 60.0


class RobotsFetcher:
    """One request for robots.txt at a time to an origin."""

    def __init__(
        self,
        transport: Transport,
        hosts: HostCache,
        frontier: Frontier,
        settings: Settings,
        clock: Clock,
        frontier_clock: FrontierClock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._hosts = hosts
        self._settings = settings
        self._agent = agent_of(settings.user_agent)
        self._clock = clock
        self._frontier_clock = frontier_clock
        self._sleep = sleep
        self._visitor = Visitor(frontier, settings, frontier_clock.now, sleep, hosts.interval)
        self._asking: dict[str, asyncio.Event] = {}  # origins whose robots.txt is being asked for

    def is_due(self, task: Task, view: HostView) -> bool:
        """Whether robots.txt is due to be asked for. While one task asks again, the others go by the old answer."""
        known = view.state.origin(scheme_of(task.url)).robots_for(self._agent)
        fresh = known is not None and self._frontier_clock.now() < known.expires_at
        if not view.terms.settings.robots or fresh:
            return False
        return known is None or origin(task.url) not in self._asking

    async def fetch(self, lease: Lease, since: float, timeout: float | None = None) -> HostView:
        """The host with what its robots.txt says. `since` is when the work on the lease began (monotonic)."""
        host, asked = lease.task.host, origin(lease.task.url)
        if (asking := self._asking.get(asked)) is not None:
            # Others of our pages were let through at once by a job with another user agent, which knows its rules, or
            # by what is known of another origin.
            await asking.wait()
            return await self._hosts.current(host)
        self._asking[asked] = asyncio.Event()
        try:
            record = await fetch_robots(
                self._transport,
                asked,
                agent=self._agent,
                now=self._frontier_clock.now(),
                pause=lambda: self._sleep(lease.interval),
                elsewhere=self._visitor,
                timeout=timeout,
            )
            took = self._clock.monotonic() - since
            scheme = scheme_of(asked)
            return await self._hosts.change(
                host,
                lambda state: state.with_origin(scheme, self._learn(state.origin(scheme), record)),
                late=took,
            )
        finally:
            self._asking.pop(asked).set()

    def _learn(self, known: OriginState, record: RobotsRecord) -> OriginState:
        if record.verdict != "disallow":
            return replace(known.with_robots(record), silent=0)
        if rule_for(record.reason).action == "bury":
            # Not silence but a host that cannot be spoken to at all; the pages will say so themselves.
            return replace(known.with_robots(replace(record, verdict="allow")), silent=0)
        wait = min(_UNREACHABLE_CAP, self._settings.retry_base * 2.0**known.silent)
        wait = max(wait, min(record.asks or 0.0, self._settings.retry_after_cap))
        record = replace(record, expires_at=record.fetched_at + wait)
        return replace(known.with_robots(record), silent=min(known.silent + 1, 30))
