"""Slots: how many pages a process works on at once. A page that only waits holds none.

A slot stands for work: connecting, receiving, a handler. A page that waits for a name server or a slow server costs
only a socket and a few kilobytes. If it held a slot, a few hundred slow hosts would stop all others. So it gives its
slot up, and takes one again before it does something that costs:

    working ──── a name is looked up, or no answer for PATIENCE seconds ────▶ waiting
       ▲                                                                        │
       └──── its handler is to run, or it has received too much ────────────────┘  (when a slot is free)

Waiting pages are bounded as well (`waiting_per_slot`): those beyond count as if they held a slot. Each may have
received SMALL bytes; those with more share ROOM.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from msgspec.structs import replace

from shoal.events import event
from shoal.settings import Settings

PATIENCE = 0.05  # seconds that a page keeps its slot while it uses the network
LATE = 0.025  # a timer that is later, in seconds, means that our own processor is busy
SMALL = 16 * 1024  # bytes that any page may have received without a slot
ROOM = 64 * 1024 * 1024  # bytes that pages with more may have received together

_current: ContextVar[PageSlot | None] = ContextVar("shoal_place", default=None)


class Slots:
    """The slots of one process. For each slot `per_slot` pages may wait, and `most_waiting` in all. `on_free` is called
    when a page has given up its slot."""

    def __init__(self, limit: int, *, per_slot: int, most_waiting: int, on_free: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()  # kept: to ask for it is a system call
        self._limit = self._full = limit
        self._calm = limit  # pages in flight when nothing slowed the crawl
        self._per_slot = per_slot
        self._most_waiting = most_waiting
        self._on_free = on_free
        self._waiting: Counter[str] = Counter()  # by lane
        self._returning: deque[asyncio.Future[None]] = deque()
        self._patient: deque[tuple[float, PageSlot]] = deque()  # until when, the soonest first
        self._timer: asyncio.TimerHandle | None = None  # for the first of them
        self._room = ROOM  # bytes that are left of ROOM
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
        # A slowed crawl has fewer pages in flight, working or waiting: waiting pages are load for others.
        in_flight = self.working + self.waiting
        if limit >= self._full:
            self._calm = max(self._full, in_flight)
            return free
        return min(free, self._calm * limit // self._full - in_flight)

    def enter(self, lane: str) -> PageSlot:
        self.working += 1
        return PageSlot(self, lane)

    # -- called by page slots

    def _has_room(self, size: int) -> bool:
        """Takes so many bytes of the room for a waiting page, if there are as many left."""
        if size > self._room:
            return False
        self._room -= size
        return True

    def _give_up_at(self, until: float, page: PageSlot) -> None:
        """Calls `lose_patience` then, unless the page stays or is given more time. All have the same patience, so one
        timer is enough: at hundreds of pages a second, one for each would cost more than what it is for."""
        self._patient.append((until, page))
        if self._timer is None:
            self._timer = self.loop.call_at(until, self._look)

    def _look(self) -> None:
        loop, patient, due = self.loop, self._patient, []
        now = loop.time()
        while patient and (patient[0][0] <= now or patient[0][1].patient_until != patient[0][0]):
            due.append(patient.popleft())
        self._timer = loop.call_at(patient[0][0], self._look) if patient else None
        for until, page in due:
            if page.patient_until == until:
                page.lose_patience(now)

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
        """Waits for a slot. Pages that come back go before new ones, in their order."""
        if self._take_if_free(lane):
            return
        turn = self.loop.create_future()
        self._returning.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._returning.remove(turn)
            else:  # it was given a slot that it no longer needs
                self.working -= 1
                self._call_back()
            raise
        self._waiting[lane] -= 1

    def _call_back(self) -> None:
        """Gives free slots to returning pages. Their tasks run a little later; nobody may take the slot meanwhile."""
        while self._returning and self.working < self._limit:
            turn = self._returning.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                self.working += 1


class PageSlot:
    """The slot of one page: it works and has one, or it waits and has none."""

    def __init__(self, slots: Slots, lane: str) -> None:
        self._slots = slots
        self._lane = lane
        self._working = True
        self._keeps = False  # it keeps its slot, however long it takes
        self._size = 0  # bytes received, if more than SMALL
        self._room = 0  # bytes it has of ROOM
        self._left = False
        self.patient_until = 0.0  # when it gives its slot up (the loop's time); 0: it stays

    def __repr__(self) -> str:
        return f"<PageSlot: {'left' if self._left else 'working' if self._working else 'waiting'}>"

    def occupy(self) -> None:
        """Makes this the slot of the current task and of the tasks it starts."""
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
        self.patient_until = until = self._slots.loop.time() + PATIENCE
        self._slots._give_up_at(until, self)

    def lose_patience(self, now: float) -> None:
        """Gives the slot up, unless the loop is late: then our own processor is busy, and more pages would slow all."""
        late, self.patient_until = now - self.patient_until, 0.0
        if late > LATE:
            self.give_up_later()
        else:
            self.give_up()

    def stay(self) -> None:
        """Forgets `give_up_later`."""
        self.patient_until = 0.0

    def take_if_free(self) -> None:
        if not self._working and not self._left and self._slots._take_if_free(self._lane):
            self._took()
            self.give_up_later()

    async def take(self) -> None:
        """Waits for a slot, and keeps it."""
        self._keeps = True
        await self._take()

    def keep_no_longer(self) -> None:
        """From here on it gives its slot up when it waits."""
        self._keeps = False

    async def grow(self, size: int) -> None:
        """The page has received `size` bytes, more than SMALL. If there is no room for them it takes a slot, until it
        waits again."""
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
    """Around a wait that may be long: the current page holds no slot meanwhile."""
    place = _current.get()
    if place is None:
        yield
        return
    place.give_up()
    try:
        yield
    finally:
        place.take_if_free()


class in_the_network:  # noqa: N801 (used as a function; a generator would cost every page more)
    """Around network traffic: the current page gives its slot up if that takes long."""

    __slots__ = ("_place",)

    def __init__(self) -> None:
        self._place = _current.get()

    def __enter__(self) -> None:
        if self._place is not None:
            self._place.give_up_later()

    def __exit__(self, *error: object) -> None:
        if self._place is not None:
            self._place.stay()


@asynccontextmanager
async def without_slot() -> AsyncIterator[None]:
    """Around requests inside a handler: the page holds no slot while it waits, and has one again afterwards."""
    place = _current.get()
    if place is None:
        yield
        return
    place.keep_no_longer()
    try:
        yield
    except Exception:
        await place.take()
        raise
    await place.take()


async def take_slot() -> None:
    """Before work that costs CPU: the current page has a slot from here on."""
    place = _current.get()
    if place is not None:
        await place.take()


async def received(size: int) -> None:
    """The body of the current page has grown to `size` bytes."""
    place = _current.get()
    if place is not None and size > SMALL:
        await place.grow(size)


# -- the limit on open files (`ulimit -n`)
#
# A connection is an open file. When the limit is reached, nothing that opens a file works, the store included. So the
# number of slots follows the limit.


_OWN = 56  # the store, the results, logs, name lookups, spiders
# Share of the others for active requests. As many again are closing: a connection that is dropped for a request to
# another host is still open when that begins. The rest is for idle connections.
_ACTIVE = 0.4


def file_limit() -> int:
    """The soft limit; 0: there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft


def connections(limit: int) -> tuple[int, int]:
    """How many may be active, and how many more idle."""
    room = max(2, limit - _OWN)
    active = max(1, int(room * _ACTIVE))
    return active, room - 2 * active


def within_file_limit(settings: Settings) -> Settings:
    """The settings with no more slots than the limit allows."""
    limit = file_limit()
    if not limit:
        return settings
    slots, _ = connections(limit)
    if settings.concurrency <= slots:
        return settings
    event("slots_limited", limit=limit, slots=slots, wanted=settings.concurrency)
    return replace(settings, concurrency=slots)
