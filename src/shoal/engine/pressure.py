"""Backpressure: twice a second, how the crawl is doing and how hard the engine may push.

The rules are in `policy/backpressure.py`. Here their signals are read, their changes logged, and their reasons kept to
explain why a crawl is slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from shoal.clock import Clock
from shoal.engine.event_loop import LoopLag
from shoal.engine.vitals import Machine, Reading
from shoal.errors import ShoalError
from shoal.events import event
from shoal.frontier.values import Room
from shoal.policy.backpressure import Backpressure, Pressure
from shoal.policy.load import Backlog, Growth, Signals, Traffic
from shoal.settings import Settings

_EVERY = 0.5
_LOOK_AT_STORE = 2.0  # seconds between looks at how full it is


class Load(Struct, frozen=True):
    """What the engine knows of itself."""

    in_flight: int
    unsettled_for: float  # seconds the oldest finished page has waited to be committed
    idle_for: float  # seconds since a page was last in flight
    backlog: int = 0  # bytes of rows that wait on the disk to be uploaded


class PressureMonitor:
    def __init__(
        self,
        settings: Settings,
        traffic: Traffic,
        *,
        load: Callable[[], Load],
        pending: Callable[[], Awaitable[Backlog]],
        on_change: Callable[[], None],
        clock: Clock,
        machine: Callable[[], Reading] | None = None,
        room: Callable[[], Awaitable[Room]] | None = None,
    ) -> None:
        self._rules = Backpressure(settings)
        self._traffic = traffic
        self._load = load
        self._pending = pending
        self._on_change = on_change
        self._clock = clock
        self._machine = machine or Machine(settings.memory_limit, processes=settings.processes).read
        self._ask_room = room
        self._room, self._room_at = Room(), float("-inf")
        self._lag = LoopLag()
        self._growth = Growth()
        self.pressure = Pressure()

    async def run(self) -> None:
        self._lag.start()
        try:
            while True:
                await asyncio.sleep(_EVERY)
                try:
                    backlog = await self._pending()
                    await self._look_at_store()
                except ShoalError:
                    # The engine tells of a store that is broken. If this one passes, somebody must still be here to
                    # take the pressure off again.
                    continue
                self.update(backlog)
        finally:
            self._lag.stop()

    async def _look_at_store(self) -> None:
        now = self._clock.monotonic()
        if self._ask_room is not None and now - self._room_at >= _LOOK_AT_STORE:
            self._room_at = now
            self._room = await self._ask_room()

    def update(self, backlog: Backlog) -> None:
        before, now = self.pressure, self._clock.monotonic()
        signals = replace(
            self.signals(),
            job=backlog.job,
            pending=backlog.pending,
            only_discovery=backlog.only_discovery,
            growth=self._growth.of(backlog, now),
            feeding=backlog.feeding,
        )
        self.pressure = self._rules.update(signals, now)
        for change in self._rules.changes():
            event(
                "backpressure_on" if change.on else "backpressure_off",
                rule=change.rule,
                reason=change.sentence,
            )
        if _claimable(before) != _claimable(self.pressure):
            self._on_change()

    def signals(self) -> Signals:
        """All but those of the queue."""
        load, machine = self._load(), self._machine()
        return replace(
            self._traffic.signals(self._clock.monotonic()),
            idle=load.idle_for,
            sink_lag=load.unsettled_for,
            backlog=load.backlog,
            loop_lag=self._lag.seconds,
            memory=machine.memory,
            memory_limit=machine.memory_limit,
            open_files=machine.open_files,
            file_limit=machine.file_limit,
            store_used=self._room.used,
            store_limit=self._room.limit,
        )


def _claimable(pressure: Pressure) -> tuple[object, ...]:
    """What a claim goes by."""
    return pressure.concurrency, pressure.paused_lanes, pressure.claiming_paused
