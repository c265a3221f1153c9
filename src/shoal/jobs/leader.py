"""One of many leads: a lease in a note that all agree on, in the frontier's time.

Whoever finds the note without a leader, or with one whose time is over, writes the next term; compare-and-set lets
one of them succeed. The leader renews its term at a third of it. A renewal that fails, or has not come through in
time, ends its duties at once, and by its own monotonic clock a tenth before its term is over for the others. So two
lead at the same time only if a process is stopped (SIGSTOP, a swapping machine) in the middle of a duty and wakes up
later. That does no harm: what a leader does, it may do twice. Start URLs are added with their position and
deduplicated, a run's name is that of its time, and to mark an exhausted job as finished twice is to mark it once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from shoal.errors import ShoalError
from shoal.events import event
from shoal.frontier.protocol import Notes
from shoal.frontier.values import Note
from shoal.text import UNREADABLE

log = logging.getLogger("shoal")

KEY = "coordinator"
_SAFE = 0.9  # share of a term after which a leader that could not renew it has stopped
_WATCHED_EVERY = 5.0  # seconds between looks of workers that never lead
_LAST_WORD = 1.0  # seconds for the store to answer a process that ends
_PATIENCE = 8.0  # seconds at most between looks at somebody else's term, which may end early

T = TypeVar("T")

Duties = Callable[[], Coroutine[None, None, None]]


class Term(Struct, frozen=True):
    number: int = 0  # grows by one with every change of leader
    holder: str = ""
    until: float = 0.0  # the frontier's time


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Term).decode


def feeder_key(job: str) -> str:
    """The note of who feeds a job."""
    return f"feeder/{job}"


class Leadership:
    """The lead in one matter: coordinating, or feeding one job."""

    def __init__(self, frontier: Notes, name: str, lease: float, key: str = KEY) -> None:
        self._frontier = frontier
        self._name = name
        self._key = key
        self._lease = lease
        self._rng = random.Random(f"{name} {key}")  # different in every process
        self._term = Term()
        self._version = 0  # of the note, when we last wrote it
        self._met = 0  # … when we last read it
        self._until = 0.0  # the loop's time

    def __repr__(self) -> str:
        return f"<Leadership {self._name}: {'leads' if self.leads else 'follows'}>"

    @property
    def leads(self) -> bool:
        return asyncio.get_running_loop().time() < self._until

    async def lead(self, duties: Duties) -> None:
        """Runs for ever: takes the lead when nobody has it, and does the duties while it leads."""
        try:
            while True:
                wait = await _to_its_end(self._take())
                if self.leads:
                    log.debug("%s: %s, term %d", self._key, self._name, self._term.number)
                    await self._do_duties(duties)
                await asyncio.sleep(wait)
        finally:
            if self.leads:  # it was told to end in the moment in which it took the lead
                await _to_its_end(self._resign())

    async def _take(self) -> float:
        """Takes the lead if nobody has it; answers after how many seconds to look again."""
        asked = asyncio.get_running_loop().time()
        note = await self._frontier.note(self._key)
        version, term = note.version if note is not None else 0, _read(note)
        # The followers of a large fleet look at different times: so one of them notices soon, and none often.
        # Half a term at most: a follower that has seen a renewal must look again before that term ends.
        patience = self._rng.uniform(0.5, 1.0) * min(_PATIENCE, self._lease / 2)
        renewed, self._met = 0 < self._met < version and term.until > 0, version
        if renewed:
            return patience
        now = await self._frontier.now()
        if term.until > now:
            return min(term.until - now, patience)
        mine = Term(term.number + 1, self._name, now + self._lease)
        if await self._frontier.set_note(self._key, _encode(mine), version):
            self._term, self._version, self._until = mine, version + 1, asked + _SAFE * self._lease
        return 0.0

    async def _do_duties(self, duties: Duties) -> None:
        working = asyncio.create_task(duties())
        try:
            while self.leads:
                await asyncio.wait([working], timeout=self._lease / 3)
                if working.done() or not await _to_its_end(self._renew()):
                    break
        finally:
            await _to_its_end(self._end(working))
        if not working.cancelled():
            working.result()

    async def _end(self, working: asyncio.Task[None]) -> None:
        self._until = 0.0
        working.cancel()
        await asyncio.wait([working])
        await self._resign()

    async def _renew(self) -> bool:
        asked = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._until):
                mine = Term(self._term.number, self._name, await self._frontier.now() + self._lease)
                renewed = await self._frontier.set_note(self._key, _encode(mine), self._version)
        except (TimeoutError, ShoalError) as error:
            event("lead_lost", matter=self._key, reason=str(error) or "the store did not answer in time")
            return False
        if not renewed:
            event("lead_lost", matter=self._key, reason="another one has it")
            return False
        self._term, self._version, self._until = mine, self._version + 1, asked + _SAFE * self._lease
        return True

    async def _resign(self) -> None:
        """Lets the next leader start at once. If that fails, the term runs out by itself."""
        self._until = 0.0
        try:
            async with asyncio.timeout(self._lease / 3):
                await self._frontier.set_note(self._key, _encode(Term(self._term.number)), self._version)
        except (TimeoutError, ShoalError):
            pass


async def _to_its_end(writing: Coroutine[Any, Any, T]) -> T:
    """Awaits what writes the note. If that is called off, it waits a moment for the answer all the same: the write may
    have been made, and a term that is not handed back keeps the others waiting until it is over."""
    task = asyncio.create_task(writing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_LAST_WORD)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def _read(note: Note | None) -> Term:
    try:
        return _decode(note.value) if note is not None else Term()
    except UNREADABLE:
        return Term()  # written by another version


async def watch_leader(frontier: Notes, every: float = _WATCHED_EVERY) -> None:
    """Runs for ever: reports when nobody coordinates, and when somebody does again. For workers that never do."""
    missing = False
    while True:
        await asyncio.sleep(every)  # first, so that a fleet which is starting causes no message
        try:
            term = await leader(frontier)
        except ShoalError as error:
            log.debug("cannot look for a coordinator: %s", error)
        else:
            if missing and term is not None:
                event("leader_found", worker=term.holder)
            elif not missing and term is None:
                event("leader_missing")
            missing = term is None


async def leader(frontier: Notes, key: str = KEY) -> Term | None:
    """Who leads now, if somebody does."""
    term = _read(await frontier.note(key))
    return term if term.until > await frontier.now() else None
