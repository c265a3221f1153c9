"""How a process is doing besides what it counts: its slots, what holds it back, and what it uses of its machine.

Vitals are frozen, serialisable, and can be put together, so that several processes make one picture.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from shoal.engine.machine import LoopLag, Machine
from shoal.engine.tally import TallyReport


class Vitals(Struct, frozen=True, omit_defaults=True):
    """Of one process, or of several together. The counters first; the rest is of this moment."""

    stale: int = 0  # settlements that came after their lease had been given away
    cpu: float = 0.0  # seconds
    processes: int = 0
    slots: int = 0  # how many pages may be worked on at once
    usable: int = 0  # … while backpressure holds some back
    held_by: dict[str, int] = {}  # backpressure rule -> processes that it holds back
    settling_lag: float = 0.0  # seconds the oldest finished page has waited to be committed
    loop_lag: float = 0.0  # seconds the event loop was late, at worst, lately
    memory: int = 0  # bytes; 0: not known
    memory_limit: int = 0
    open_files: int = 0
    file_limit: int = 0
    waiting: int = 0  # pages in flight that hold no slot

    def past(self) -> Vitals:
        """What remains of a process that has ended: what it counted."""
        return Vitals(self.stale, self.cpu)


def together(parts: Iterable[Vitals]) -> Vitals:
    """Sums, and of what is a wait the longest."""
    parts = list(parts)
    held_by: Counter[str] = Counter()
    for one in parts:
        held_by.update(one.held_by)
    return Vitals(
        stale=sum(one.stale for one in parts),
        cpu=sum(one.cpu for one in parts),
        processes=sum(one.processes for one in parts),
        slots=sum(one.slots for one in parts),
        usable=sum(one.usable for one in parts),
        held_by=dict(held_by),
        settling_lag=max((one.settling_lag for one in parts), default=0.0),
        loop_lag=max((one.loop_lag for one in parts), default=0.0),
        memory=sum(one.memory for one in parts),
        memory_limit=sum(one.memory_limit for one in parts),
        open_files=sum(one.open_files for one in parts),
        file_limit=sum(one.file_limit for one in parts),
        waiting=sum(one.waiting for one in parts),
    )


class Subject(Struct, frozen=True):
    """Whoever is asked how it is."""

    report: Callable[[], TallyReport]
    vitals: Callable[[], Vitals]
    hangs: Callable[[], str] = str  # why it no longer moves, though the store answers; "": it does
    stopping: Callable[[], bool] = bool


class Pulse:
    """The vitals of a process that fetches nothing itself."""

    def __init__(self) -> None:
        self._machine = Machine()
        self._lag = LoopLag()

    def __enter__(self) -> Pulse:
        self._lag.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._lag.stop()

    def vitals(self) -> Vitals:
        reading = self._machine.read()
        return Vitals(
            cpu=time.process_time(),
            processes=1,
            loop_lag=self._lag.seconds,
            memory=reading.memory,
            open_files=reading.open_files,
            file_limit=reading.file_limit,
        )
