"""Slots: how many pages a process works on at once. A page that only waits holds none.

A slot stands for work: connecting, receiving, a handler. A page that waits for a name server, or for a server that
takes its time, costs a socket and a few kilobytes. Were it to hold a slot, a few hundred slow hosts would stop all
others. So it gives its slot up, and takes one again before it does something that costs:

    working ──── a name is looked up, or no answer for PATIENCE seconds ────▶ waiting
       ▲                                                                        │
       └──── its handler is to run, or it has received too much ────────────────┘  (when a slot is free)

Pages that wait are bounded as well (`waiting_per_slot`): those beyond count as if they held a slot. What they have
received is bounded together: each may have SMALL bytes, and those with more share ROOM.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec.structs import replace

from shoal.events import event
from shoal.settings import Settings

PATIENCE = 0.05  # seconds that a page in the network keeps its slot
LATE = 0.025  # seconds that a timer may be late before it is our own processor that pages wait for
SMALL = 16 * 1024  # bytes that any page may have received without a slot
ROOM = 64 * 1024 * 1024  # bytes that those with more have received together

_current: ContextVar[PageSlot | None] = ContextVar("shoal_place", default=None)


class Slots:
    """The slots of one process. For each, `per_slot` pages may wait, and `most_waiting` in all. `on_free` is told that
    a page has given up its slot."""

    def __init__(self, limit: int, *, per_slot: int, most_waiting: int, on_free: Callable[[], None]) -> None:
        self._limit = self._full = limit
        self._calm = limit  # pages in flight when nothing held the crawl back
        self._per_slot = per_slot
        self._most_waiting = most_waiting
        self._on_free = on_free
        self._waiting: Counter[str] = Counter()  # by lane
        self._returning: deque[asyncio.Future[None]] = deque()
        self._room = ROOM  # bytes that are left of it
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
        free = limit - self.working - too_many
        # Held back, the crawl has less in flight, whether that works or waits: what waits is load for others.
        in_flight = self.working + self.waiting
        if limit >= self._full:
            self._calm = max(self._full, in_flight)
            return free
        return min(free, self._calm * limit // self._full - in_flight)

    def enter(self, lane: str) -> PageSlot:
        self.working += 1
        return PageSlot(self, lane)

    # -- told by places

    def _has_room(self, size: int) -> bool:
        """Whether a page that waits may hold so many bytes more; then it does."""
        if size > self._room:
            return False
        self._room -= size
        return True

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


class PageSlot:
    """One page among those that a process has in hand: it works, or it waits."""

    def __init__(self, slots: Slots, lane: str) -> None:
        self._slots = slots
        self._lane = lane
        self._working = True
        self._keeps = False  # its slot, however long it takes
        self._size = 0  # bytes that it has received, if they are many
        self._room = 0  # bytes of what pages that wait have in common
        self._left = False
        self._timer: asyncio.TimerHandle | None = None
        self._patient_until = 0.0

    def __repr__(self) -> str:
        return f"<PageSlot: {'left' if self._left else 'working' if self._working else 'waiting'}>"

    def occupy(self) -> None:
        """Makes this the place of the current task, and of those that it starts."""
        _current.set(self)

    def leave(self) -> None:
        """The page has ended."""
        if not self._left:
            self._left = True
            self.stay()
            self._clear()
            self._slots._left(self._lane, working=self._working)

    def give_up(self) -> None:
        if not self._working or self._keeps or self._left:
            return
        if not self._slots._has_room(self._size):
            self.give_up_later()
            return
        self._room = self._size
        self._working = False
        self._slots._gave_up(self._lane)

    def give_up_later(self) -> None:
        self.stay()
        loop = asyncio.get_running_loop()
        self._patient_until = loop.time() + PATIENCE
        self._timer = loop.call_at(self._patient_until, self._lose_patience)

    def _lose_patience(self) -> None:
        """Unless the loop is late: then our own processor is busy, and more pages would make all of them slower."""
        if asyncio.get_running_loop().time() - self._patient_until > LATE:
            self.give_up_later()
        else:
            self.give_up()

    def stay(self) -> None:
        """Does not give up later what it has now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_if_free(self) -> None:
        if not self._working and not self._left and self._slots._take_if_free(self._lane):
            self._took()
            self.give_up_later()

    async def take(self) -> None:
        """Waits for a slot, and keeps it."""
        self._keeps = True
        await self._take()

    async def grow(self, size: int) -> None:
        """The page has received so many bytes, which are many: if there is no room for them, it needs a slot. It keeps
        that one only until it waits again."""
        more, self._size = size - self._size, size
        if self._working:
            self.give_up_later()
        elif self._slots._has_room(more):
            self._room += more
        else:
            await self._take()
            self.give_up_later()

    async def _take(self) -> None:
        if not self._working and not self._left:
            await self._slots._take(self._lane)
            self._took()

    def _took(self) -> None:
        self._working = True
        self._clear()

    def _clear(self) -> None:
        self._slots._room += self._room
        self._room = 0


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


async def received(size: int) -> None:
    """The body of the current page has grown to so many bytes."""
    place = _current.get()
    if place is not None and size > SMALL:
        await place.grow(size)


# -- How many files a process may have open (`ulimit -n`), and how many requests at once that bears.
#
# A connection is an open file. Without room for one, nothing works any more that opens a file, the store included; so
# the number of slots follows the limit before any is used up.


_OWN = 56  # the store, the results, logs, name lookups, spiders
# Of the others, for requests under way. As many again are closing: one that is dropped for a request to another host
# is still open when that one begins. The rest is kept idle, for the next request to the same host.
_ACTIVE = 0.4


def file_limit() -> int:
    """0: there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft


def connections(limit: int) -> tuple[int, int]:
    """How many may be in use, and how many more kept idle."""
    room = max(2, limit - _OWN)
    active = max(1, int(room * _ACTIVE))
    return active, room - 2 * active


def within_file_limit(settings: Settings) -> Settings:
    """The settings with no more slots than the limit bears."""
    limit = file_limit()
    if not limit:
        return settings
    slots, _ = connections(limit)
    if settings.concurrency <= slots:
        return settings
    event("slots_limited", limit=limit, slots=slots, wanted=settings.concurrency)
    return replace(settings, concurrency=slots)
