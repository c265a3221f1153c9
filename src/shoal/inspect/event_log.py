"""The latest events of a store: a ring buffer in a note, to which every process adds its events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextvars import Token
from typing import Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import ShoalError
from shoal.events import Event, Field, Listener, listener, made
from shoal.events import event as event  # what is kept here is told there
from shoal.frontier.compare_and_set import TRIES, change_note
from shoal.frontier.protocol import Notes
from shoal.frontier.values import Note
from shoal.text import UNREADABLE, pack

log = logging.getLogger("shoal")

KEY = "events"
KEPT = 300
_NOT_KEPT = frozenset({"progress", "log", "page_settled"})
_EVERY = 1.0  # seconds between writes
_AT_ONCE = 3  # of a name, a second; the others are counted
_LAST_WORDS = 2.0  # seconds that the end may take


class _Ring(Struct, frozen=True):
    last: int = 0  # id of the newest
    events: tuple[Event, ...] = ()  # oldest first

    def with_events(self, new: list[Event]) -> _Ring:
        numbered = [replace(one, id=self.last + place) for place, one in enumerate(new, 1)]
        return _Ring(self.last + len(new), (*self.events, *numbered)[-KEPT:])


_decode = msgspec.msgpack.Decoder(_Ring).decode


class EventBook:
    """Stores the events of this task, and of tasks started in it, while its block runs."""

    def __init__(self, frontier: Notes) -> None:
        self._frontier = frontier
        self._taken: deque[tuple[float, Event]] = deque(maxlen=KEPT)  # with the monotonic time
        self._counts: dict[str, tuple[int, int]] = {}  # by name: in which second, and how many
        self._passed_over: dict[str, int] = {}
        self._token: Token[Listener | None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    def wants(self, name: str) -> bool:
        if name in _NOT_KEPT:
            return False
        second = int(time.monotonic())
        since, count = self._counts.get(name, (second, 0))
        count = count + 1 if since == second else 1
        self._counts[name] = second, count
        if count <= _AT_ONCE:
            return True
        self._passed_over[name] = self._passed_over.get(name, 0) + 1
        return False

    def take(self, made: Event) -> None:
        if others := self._passed_over.pop(made.event, 0):
            made = replace(made, fields={**made.fields, "others": others})
        self._taken.append((time.monotonic(), made))

    async def __aenter__(self) -> Self:
        self._token = listener.set(self)
        self._keeping = asyncio.create_task(self._keep_regularly())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._keeping is not None
        assert self._token is not None
        listener.reset(self._token)
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self.keep()
        except (TimeoutError, ShoalError) as error:
            log.debug("the last events are not kept: %s", error)

    async def _keep_regularly(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.keep()
            except ShoalError as error:
                log.debug("events are not kept: %s", error)  # whoever works with the store says what is wrong

    async def keep(self) -> None:
        """Writes the collected events."""
        taken: list[tuple[float, Event]] = []

        async def with_taken(note: Note | None) -> bytes | None:
            nonlocal taken
            offset = await self._frontier.now() - time.monotonic()
            taken = list(self._taken)
            ring = _ring(note).with_events([replace(one, at=at + offset) for at, one in taken])
            return pack(ring) if taken else None

        if not self._taken or await change_note(self._frontier, KEY, with_taken, tries=TRIES) is None:
            return
        for entry in taken:
            if self._taken and self._taken[0] is entry:  # unless the next ones have pushed it out
                self._taken.popleft()


def _ring(note: Note | None) -> _Ring:
    try:
        return _decode(note.value) if note is not None else _Ring()
    except UNREADABLE:
        return _Ring()  # another version's words


async def read_events(frontier: Notes, after: int = 0) -> list[Event]:
    """The latest events of the store, oldest first; those with a greater id than `after`."""
    return [one for one in _ring(await frontier.note(KEY)).events if one.id > after]


async def tell(frontier: Notes, name: str, message: str = "", /, **fields: Field) -> None:
    """Stores one event at once, without a log line: for a command whose result the person sees anyway."""
    book = EventBook(frontier)
    book.take(made(name, message, fields))
    await book.keep()


__all__ = ["KEPT", "KEY", "Event", "EventBook", "read_events", "tell"]
