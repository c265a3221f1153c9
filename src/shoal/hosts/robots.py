"""Fetches robots.txt with a lease for its host, and stores the answer for all processes."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from msgspec.structs import replace

from shoal.admit.identity import host_key, origin, scheme
from shoal.admit.identity import scheme as scheme_of
from shoal.fetch.robots_fetch import RobotsRecord, agent_of, fetch_robots
from shoal.fetch.transport import Transport
from shoal.fetch.transports import through_same_proxy
from shoal.frontier.clock import FrontierClock
from shoal.frontier.compare_and_set import change_host
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import HostRecord
from shoal.hosts.cache import HostCache, HostView
from shoal.hosts.host_state import OriginState, encode_state, state_of
from shoal.model import Lease, Task
from shoal.policy.outcomes import rule_for
from shoal.settings import Settings

_UNREACHABLE_CAP = 60.0


class RobotsFetcher:
    """Fetches the robots.txt of an origin, one request at a time."""

    def __init__(
        self,
        transport: Transport,
        hosts: HostCache,
        frontier: Frontier,
        settings: Settings,
        clock: FrontierClock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._hosts = hosts
        self._settings = settings
        self._agent = agent_of(settings.user_agent)
        self._clock = clock
        self._sleep = sleep
        self._visitor = RobotsVisits(frontier, settings, clock.now, sleep, hosts.interval)
        self._asking: dict[str, asyncio.Event] = {}  # origins whose robots.txt is being asked for

    def is_due(self, task: Task, view: HostView) -> bool:
        """Whether robots.txt must be fetched. While one task fetches it again, the others use the old answer."""
        known = view.state.origin(scheme_of(task.url)).robots_for(self._agent)
        fresh = known is not None and self._clock.now() < known.expires_at
        if not view.terms.settings.robots or fresh:
            return False
        return known is None or origin(task.url) not in self._asking

    async def fetch(self, lease: Lease, since: float, timeout: float | None = None) -> HostView:
        """The host with what its robots.txt says. `since` is when the work on the lease began (monotonic)."""
        host, asked = lease.task.host, origin(lease.task.url)
        if (asking := self._asking.get(asked)) is not None:
            # Another page of this job fetches it. Both were leased at once because a job with another user agent, or
            # another origin of the host, has its robots.txt already.
            await asking.wait()
            return await self._hosts.current(host)
        self._asking[asked] = asyncio.Event()
        try:
            record = await fetch_robots(
                through_same_proxy(self._transport, lease.task),
                asked,
                agent=self._agent,
                now=self._clock.now(),
                pause=lambda: self._sleep(lease.interval),
                other_hosts=self._visitor,
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
            # The host does not speak HTTP at all: the pages will fail for the same reason, with a clear message.
            return replace(known.with_robots(replace(record, verdict="allow")), silent=0)
        wait = min(_UNREACHABLE_CAP, self._settings.retry_base * 2.0**known.silent)
        wait = max(wait, min(record.asks or 0.0, self._settings.retry_after_cap))
        record = replace(record, expires_at=record.fetched_at + wait)
        return replace(known.with_robots(record), silent=min(known.silent + 1, 30))


# -- robots.txt that redirects to another host

_REST = 10  # times the length of a visit, and of the host's interval, before the next visit
_PATIENCE = 5.0  # seconds that a visit waits for its turn while the valve is shut
_SOON = 1.0  # seconds that it waits for a shut valve; beyond that, there is no visit now
_TRIES = 3
_LOOK_AGAIN = 0.05
_REMEMBERED = 200  # targets of redirects
# Hosts without a record share notes, so that they take no room. There are many notes because in a wide crawl half of
# all robots.txt redirect to "www.": with few, most visits would be refused.
_BUCKETS = 4096


class RobotsVisits:
    """Requests to a host without a lease for it, because a robots.txt redirects there (`fetch/robots_fetch.py`).
    The host's limits hold all the same.

    A lease is a permission of the host's valve. Here there is none, so the valve is shut first, and the request is sent
    when a lease could have been given. Requests that were claimed before are counted in the valve, and no new ones are
    claimed while it is shut, so the interval is kept exactly.

    Thousands of sites may redirect their robots.txt to one busy host. So after a visit the host is left alone for ten
    times as long, and earlier visits are refused. Most need no request: the host's own robots.txt may be in its record,
    and the most frequent targets are remembered."""

    def __init__(
        self,
        frontier: Frontier,
        settings: Settings,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        interval_of: Callable[[str], float],
    ) -> None:
        self._frontier = frontier
        self._agent = agent_of(settings.user_agent)
        self._interval_of = interval_of
        self._longest = settings.total_timeout + _PATIENCE
        self._now = now
        self._sleep = sleep
        self._remembered: dict[str, RobotsRecord] = {}

    async def known(self, url: str) -> RobotsRecord | None:
        found = self._remembered.get(url)
        if found is None and url == f"{origin(url)}/robots.txt":
            record = await self._frontier.host(host_key(url))
            asked = state_of(record).origin(scheme(url)) if record is not None else None
            found = asked.robots_for(self._agent) if asked is not None else None
        usable = found is not None and found.verdict != "disallow" and self._now() < found.expires_at
        return found if usable else None

    def remember(self, url: str, record: RobotsRecord) -> None:
        while len(self._remembered) >= _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[url] = record

    @asynccontextmanager
    async def visit(self, host: str) -> AsyncIterator[bool]:
        if await self._frontier.host(host) is None:
            yield await self._visit_unknown(host)
            return
        shut_until = await self._shut(host)
        if shut_until is None:
            yield False
            return
        try:
            yield await self._turn(host)
        finally:
            await self._open(host, shut_until)

    async def _shut(self, host: str) -> float | None:
        """Shuts the valve and returns until when. None: it is shut already, or the host was visited a moment ago."""

        def wait(record: HostRecord) -> float:
            return max(record.valve.blocked_until, state_of(record).visits_from) - self._now()

        def shut(record: HostRecord) -> HostRecord | None:
            state, until = state_of(record), self._now() + self._longest
            if wait(record) > 0 or state.given_up:
                return None
            valve = replace(record.valve, blocked_until=until)
            return replace(record, valve=valve, state=encode_state(replace(state, visit_until=until)))

        record = await self._frontier.host(host)
        if record is not None and 0 < (seconds := wait(record)) <= _SOON:
            await self._sleep(seconds)
        changed = await change_host(self._frontier, host, shut, tries=_TRIES)
        return changed.valve.blocked_until if changed is not None else None

    async def _turn(self, host: str) -> bool:
        """Waits until a lease could be given if the valve were open. False: that takes too long."""
        patience = self._now() + _PATIENCE
        while True:
            record = await self._frontier.host(host)
            assert record is not None, host
            now = self._now()
            due = replace(record.valve, blocked_until=0.0).due()
            if due <= now:
                return True
            if now > patience or (due > patience and record.valve.in_flight < record.valve.cap):
                return False
            await self._sleep(min(max(due - now, _LOOK_AGAIN), _PATIENCE / 10))

    async def _open(self, host: str, shut_until: float) -> None:
        began = shut_until - self._longest

        def opened(record: HostRecord) -> HostRecord:
            now, interval = self._now(), record.valve.interval
            rest = now + _REST * max(interval, now - began)
            state = replace(state_of(record), visit_until=now + interval, visits_from=rest)
            # Another process may have blocked it for longer.
            blocked = record.valve.blocked_until
            valve = replace(record.valve, blocked_until=blocked if blocked > shut_until else now + interval)
            return replace(record, state=encode_state(state), valve=valve)

        await change_host(self._frontier, host, opened)

    async def _visit_unknown(self, host: str) -> bool:
        """No job has a page of the host, so it has no valve: one request in an interval."""
        interval = self._interval_of(host)
        if not interval:
            return True
        key = f"robots-visits-{zlib.crc32(host.encode()) % _BUCKETS}"
        note, now = await self._frontier.note(key), self._now()
        if note is not None and msgspec.msgpack.decode(note.value, type=float) > now:
            return False
        value = msgspec.msgpack.encode(now + interval)
        return await self._frontier.set_note(key, value, note.version if note is not None else 0)
