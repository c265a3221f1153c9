"""What all requests to one dashboard share: the store, its sessions, and one look at it for all viewers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from shoal.dashboard.responses import Refusal
from shoal.dashboard.security import Gatekeeper, Session, Sessions
from shoal.dashboard.stream import Hub, message
from shoal.errors import ShoalError
from shoal.frontier.protocol import Frontier
from shoal.inspect.event_log import read_events
from shoal.inspect.held_back import Holdups, find_holdups
from shoal.inspect.json_form import overview_dict
from shoal.inspect.overview import PATIENCE as SOON
from shoal.inspect.overview import Overview, Throttled, look

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger("shoal")

PATIENCE = 5.0  # seconds for the store to answer
_EVERY = 1.0  # seconds between two looks, with viewers
_SELDOM = 5.0  # … and without
_REST = 5.0  # … and at least so many times what the last look took
_LONGEST = 10.0
_FRESH = 1.5  # seconds for which a look may be shown again
_KEPT = 15 * 60.0  # seconds
_WALK = 60.0  # seconds that a walk over all hosts may take; it runs in the background

AWAY = "the store does not answer; this goes on when it is back"


class Sample(Struct, frozen=True):
    at: float  # the frontier's time
    rate: float
    in_flight: int
    pending: int
    success: float | None


class Sampler:
    """Looks at the store once for all viewers: every second while there are some, now and then otherwise."""

    def __init__(self, frontier: Frontier, hub: Hub) -> None:
        self._frontier = frontier
        self._hub = hub
        self._holdups: Throttled[Holdups] = Throttled(Holdups(), patience=SOON)
        self._looking = asyncio.Lock()
        self._latest: Overview | None = None
        self._looked_at = float("-inf")  # monotonic
        self._last_event: int | None = None  # its id
        self.samples: deque[Sample] = deque()

    async def overview(self) -> Overview:
        """An overview that is at most a moment old; concurrent requests share it."""
        async with self._looking:
            if self._latest is None or time.monotonic() - self._looked_at > _FRESH:
                async with asyncio.timeout(PATIENCE):
                    self._latest = await look(self._frontier)
                self._looked_at = time.monotonic()
                self._note(self._latest)
            return self._latest

    async def holdups(self, overview: Overview) -> Holdups:
        """The last result; empty while the first walk over very many hosts runs."""
        return await self._holdups.get(lambda: find_holdups(self._frontier, overview, _WALK))

    async def shape(self, overview: Overview) -> dict[str, Any]:
        return overview_dict(overview, await self.holdups(overview))

    async def greeting(self) -> list[bytes]:
        """What a new viewer is sent at once."""
        return [] if self._latest is None else [message("overview", await self.shape(self._latest))]

    async def run(self) -> None:
        """Runs for ever. Viewers are told when the store is away."""
        while True:
            began, spent = time.monotonic(), 0.0
            try:
                await self._sample()
                spent = time.monotonic() - began
            except (ShoalError, TimeoutError) as error:
                self._hub.publish("away", {"error": str(error) or AWAY})
            except Exception:
                log.exception("a bug in Shoal, met while looking at the store")
            rest = min(_LONGEST, spent * _REST)
            await self._rest(max(_EVERY - spent, rest), max(_SELDOM, rest))

    async def _sample(self) -> None:
        self._looked_at = float("-inf")
        overview = await self.overview()
        if not self._hub:
            self._last_event = None
            return
        self._hub.publish("overview", await self.shape(overview))
        async with asyncio.timeout(PATIENCE):
            new = await read_events(self._frontier, self._last_event or 0)
        if self._last_event is not None:
            for one in new:
                self._hub.publish("event", one)
        self._last_event = new[-1].id if new else self._last_event or 0

    async def _rest(self, with_viewers: float, without: float) -> None:
        self._hub.arrived.clear()
        if self._hub:
            await asyncio.sleep(with_viewers)
            return
        try:
            async with asyncio.timeout(without):
                await self._hub.arrived.wait()
        except TimeoutError:
            pass

    def _note(self, overview: Overview) -> None:
        sample = Sample(overview.now, overview.rate, overview.in_flight, overview.pending, overview.success)
        self.samples.append(sample)
        while self.samples[0].at < overview.now - _KEPT:
            self.samples.popleft()


class Board(Struct, frozen=True):
    frontier: Frontier
    store: str  # its name, without secrets
    read_only: bool
    cookie: str  # the name of the session's cookie: browsers do not keep those of several ports apart
    gatekeeper: Gatekeeper
    sessions: Sessions
    hub: Hub
    sampler: Sampler

    def session_of(self, request: Request) -> Session | None:
        return self.sessions.find(request.cookies.get(self.cookie, ""))

    def admits(self, token: str, request: Request) -> bool:
        """Whether that is the token. After wrong ones, an address has to wait."""
        if self.gatekeeper.is_right(token):
            return True
        address = request.client.host if request.client is not None else ""
        if wait := self.gatekeeper.wrong(address):
            raise Refusal(429, f"too many wrong tokens; try again in {wait:.0f} s", retry_after=wait)
        log.warning("dashboard: a wrong token from %s", address)
        return False
