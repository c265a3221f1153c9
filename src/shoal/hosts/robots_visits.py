"""Asking a host that no lease is for, because a robots.txt redirects to it. Its limits hold all the same.

A lease is a permission of its host's valve; there is none here. So the valve is shut to everybody first, then looked
at, and the request is sent when a lease could have been given. What was claimed before the valve was shut can be seen
in it, and after that nothing is claimed; so the gap is kept exactly, whoever else crawls the host.

Anybody can redirect their robots.txt to a busy host, and thousands may: after a visit the host is left alone for ten
times as long, and who comes too early is told "not now". Most need no request at all: what the host's own robots.txt
says may be in its record, and what many hosts redirect to is remembered.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from msgspec.structs import replace

from shoal.admit.identity import host_key, origin, scheme
from shoal.fetch.robots_fetch import RobotsRecord, agent_of
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import HostRecord
from shoal.hosts.rules import change_host
from shoal.hosts.state import encode_state, state_of
from shoal.settings import Settings

_REST = 10  # times the length of a visit, and of the host's interval, before the next one
_PATIENCE = 5.0  # seconds that a visit waits for its turn, the valve being shut
_SOON = 1.0  # seconds that it waits for a valve to become free, before it is told "not now"
_TRIES = 3
_LOOK_AGAIN = 0.05
_REMEMBERED = 200  # targets of redirects
# Hosts that have no record are counted together, so that they take no room. So many, for in a wide crawl half of all
# robots.txt redirect to "www."; with few, most of them would be told "not now".
_BUCKETS = 4096


class Visitor:
    """`Elsewhere` of fetch/robots_fetch.py, for a crawl."""

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
        """Shuts the valve, and tells until when. None: somebody has a reason to keep it shut, or it was visited a
        moment ago."""
        for _ in range(_TRIES):
            record = await self._frontier.host(host)
            assert record is not None, host
            state, now = state_of(record), self._now()
            wait = max(record.valve.blocked_until, state.visits_from) - now
            if wait > _SOON or state.given_up:
                return None
            if wait > 0:
                await self._sleep(wait)
                continue
            until = now + self._longest
            valve = replace(record.valve, blocked_until=until)
            shut = replace(record, valve=valve, state=encode_state(replace(state, visit_until=until)))
            if await self._frontier.update_host(shut):
                return until
        return None

    async def _turn(self, host: str) -> bool:
        """Waits until a lease could be given, were the valve not shut. False: that takes too long."""
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
            # Somebody may have found a reason to block it for longer.
            blocked = record.valve.blocked_until
            valve = replace(record.valve, blocked_until=blocked if blocked > shut_until else now + interval)
            return replace(record, state=encode_state(state), valve=valve)

        await change_host(self._frontier, host, opened)

    async def _visit_unknown(self, host: str) -> bool:
        """No job has a page of it, so it has no valve: one request in an interval."""
        interval = self._interval_of(host)
        if not interval:
            return True
        key = f"robots-visits-{zlib.crc32(host.encode()) % _BUCKETS}"
        note, now = await self._frontier.note(key), self._now()
        if note is not None and msgspec.msgpack.decode(note.value, type=float) > now:
            return False
        value = msgspec.msgpack.encode(now + interval)
        return await self._frontier.set_note(key, value, note.version if note is not None else 0)
