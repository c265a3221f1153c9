"""Slots: how many pages a process works on at once. A page that only waits holds none.

A slot stands for work: connecting, receiving, a handler. A page that waits for a name server, or for a server that
takes its time, costs a socket and a few kilobytes. Were it to hold a slot, a few hundred slow hosts would stop all
others. So it gives its slot up, and takes one again before it does something that costs:

    working ──── a name is looked up, or no answer for PATIENCE seconds ────▶ waiting
       ▲                                                                        │
       └──── its body grows beyond SMALL, or its handler is to run ─────────────┘  (when a slot is free)

Pages that wait are bounded as well (`waiting_per_slot`): those beyond count as if they held a slot.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

PATIENCE = 0.25  # seconds that a page in the network keeps its slot
SMALL = 64 * 1024  # bytes that a page may have received without a slot

_current: ContextVar[Place | None] = ContextVar("shoal_place", default=None)


class Slots:
    """The slots of one process. For each, `per_slot` pages may wait, and `most_waiting` in all. `on_free` is told that
    a page has given up its slot."""

    def __init__(self, limit: int, *, per_slot: int, most_waiting: int, on_free: Callable[[], None]) -> None:
        self._limit = limit
        self._per_slot = per_slot
        self._most_waiting = most_waiting
        self._on_free = on_free
        self._waiting: Counter[str] = Counter()  # by lane
        self._returning: deque[asyncio.Future[None]] = deque()
        self.working = 0

    def __repr__(self) -> str:
        return f"<Slots: {self.working} of {self._limit} used, {self.waiting} pages wait>"

    @property
    def waiting(self) -> int:
        return self._waiting.total()

    @property
    def waiting_in(self) -> Mapping[str, int]:
        """Pages that wait, by lane."""
        return self._waiting

    def free(self, limit: int) -> int:
        """How many pages may be started, if there are `limit` slots from now on."""
        self._limit = limit
        self._call_back()
        too_many = max(0, self.waiting - min(self._per_slot * limit, self._most_waiting))
        return limit - self.working - too_many

    def enter(self, lane: str) -> Place:
        self.working += 1
        return Place(self, lane)

    # -- told by places

    def _gave_up(self, lane: str) -> None:
        self.working -= 1
        self._waiting[lane] += 1
        self._call_back()
        if self.working < self._limit:
            self._on_free()

    def _left(self, lane: str, *, working: bool) -> None:
        if working:
            self.working -= 1
            self._call_back()
        else:
            self._waiting[lane] -= 1

    def _take_if_free(self, lane: str) -> bool:
        if self.working >= self._limit:
            return False
        self.working += 1
        self._waiting[lane] -= 1
        return True

    async def _take(self, lane: str) -> None:
        """Pages that come back go before new ones, in the order in which they asked."""
        if self._take_if_free(lane):
            return
        turn = asyncio.get_running_loop().create_future()
        self._returning.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._returning.remove(turn)
            else:  # it was given a slot that it has no use for any more
                self.working -= 1
                self._call_back()
            raise
        self._waiting[lane] -= 1

    def _call_back(self) -> None:
        """Hands free slots over. The page's task runs a little later, and nobody may take the slot meanwhile."""
        while self._returning and self.working < self._limit:
            turn = self._returning.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                self.working += 1


class Place:
    """One page among those that a process has in hand: it works, or it waits."""

    def __init__(self, slots: Slots, lane: str) -> None:
        self._slots = slots
        self._lane = lane
        self._working = True
        self._keeps = False  # its slot, however long it takes
        self._left = False
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Place: {'left' if self._left else 'working' if self._working else 'waiting'}>"

    def occupy(self) -> None:
        """Makes this the place of the current task, and of those that it starts."""
        _current.set(self)

    def leave(self) -> None:
        """The page has ended."""
        if not self._left:
            self._left = True
            self.stay()
            self._slots._left(self._lane, working=self._working)

    def give_up(self) -> None:
        if self._working and not self._keeps and not self._left:
            self._working = False
            self._slots._gave_up(self._lane)

    def give_up_later(self) -> None:
        self.stay()
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self.give_up)

    def stay(self) -> None:
        """Does not give up later what it has now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_if_free(self) -> None:
        if not self._working and not self._left and self._slots._take_if_free(self._lane):
            self._working = True
            self.give_up_later()

    async def take(self) -> None:
        """Waits for a slot, and keeps it."""
        self._keeps = True
        if not self._working and not self._left:
            await self._slots._take(self._lane)
            self._working = True


@contextmanager
def waiting() -> Iterator[None]:
    """Around a wait of the current page that may be long: it holds no slot meanwhile."""
    place = _current.get()
    if place is None:
        yield
        return
    place.give_up()
    try:
        yield
    finally:
        place.take_if_free()


@contextmanager
def in_the_network() -> Iterator[None]:
    """Around what the current page does in the network: it holds no slot if that takes long."""
    place = _current.get()
    if place is None:
        yield
        return
    place.give_up_later()
    try:
        yield
    finally:
        place.stay()


async def take_slot() -> None:
    """Before the current page does what costs more than waiting: it has a slot from here on."""
    place = _current.get()
    if place is not None:
        await place.take()
