"""What is known about the proxies of a pool, shared by every process on the store as a note.

What a process sees is folded into its own copy at once, and written back every few seconds: read, fold, write, and
again from the start if another was quicker. A probe is taken in the note first, so that only one process has it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

import msgspec

from shoal.frontier.notes import TRIES, change_note
from shoal.frontier.protocol import Notes
from shoal.frontier.values import Note
from shoal.policy.proxy import Choice, PoolState, ProxyPolicy, Seen, Wait, is_held, serves_well, tidied
from shoal.text import UNREADABLE

INDEX = "proxies"  # the note that names the pools there are notes of
_EVERY = 3.0  # seconds between two looks at the note
_NEVER = float("-inf")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PoolState).decode
_decode_index = msgspec.msgpack.Decoder(list[str]).decode


def key_of(pool: str) -> str:
    return f"{INDEX}:{pool}"


class PoolBook:
    def __init__(
        self,
        frontier: Notes,
        pool: str,
        names: Sequence[str],
        policy: ProxyPolicy,
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._frontier = frontier
        self._policy = policy
        self._now = now
        self._rng = rng
        self._state = PoolState()
        self._version = 0
        self._unwritten: list[Seen] = []
        self._read_at = _NEVER
        self._writing = asyncio.Lock()  # two of our own writes would count what was seen twice
        self._used = False
        self._turn = 0
        self._unanswered: dict[str, int] = {}  # requests on their way by a proxy since it last answered
        self.pool = pool
        self.names = names

    def __repr__(self) -> str:
        return f"<PoolBook {self.pool}: {len(self.names)} proxies>"

    # -- choosing

    async def choose(
        self, host: str, *, avoid: AbstractSet[str], probes: bool, hold: float
    ) -> Choice | Wait | None:
        """As the policy says. `hold`: seconds that a probe is nobody else's."""
        self._used = True
        if self._read_at == _NEVER:
            async with self._writing:
                if self._read_at == _NEVER:
                    await self._read()
        choice = self.glance(host, avoid=avoid, probes=probes)
        while isinstance(choice, Choice) and choice.probe:
            async with self._writing:
                choice = self.glance(host, avoid=avoid, probes=probes)  # it may have been taken meanwhile
                if not isinstance(choice, Choice) or not choice.probe:
                    break
                reserved = self._policy.reserve(self._state, choice, host, self._now(), hold)
                if await self._write(reserved):
                    break
        self._turn += isinstance(choice, Choice)
        return choice

    def glance(
        self, host: str, *, avoid: AbstractSet[str] = frozenset(), probes: bool = True
    ) -> Choice | Wait | None:
        """What would be chosen, by what is known here."""
        return self._policy.choose(
            self._state,
            self.names,
            host,
            self._now(),
            self._rng,
            avoid=avoid,
            turn=self._turn,
            probes=probes,
            unanswered=self._unanswered,
        )

    def chance(self, host: str) -> float:
        return self._policy.chance(self._state, self.names, host, self._now())

    def is_held(self, proxy: str) -> bool:
        """Whether it is in quarantine."""
        return is_held(self._state, proxy, self._now())

    # -- seeing

    @contextmanager
    def asking(self, proxy: str) -> Iterator[None]:
        self._unanswered[proxy] = self._unanswered.get(proxy, 0) + 1
        try:
            yield
        finally:
            self._unanswered[proxy] = max(0, self._unanswered[proxy] - 1)

    def serves_well(self, proxy: str) -> bool:
        return serves_well(self._state, proxy, self._now())

    def blames_host(self, host: str, proxy: str, earlier: Sequence[str]) -> bool:
        """Whether a failure through the proxy, which has just been seen, is the host's fault. `earlier`: others
        through which the same page has failed before."""
        if self._policy.blames_host(self._state, self.names, host, proxy, self._now()):
            return True
        others = [name for name in earlier if name != proxy]
        return self.serves_well(proxy) and any(map(self.serves_well, others))

    def saw(self, seen: Seen) -> None:
        if seen.sign == "good":
            self._unanswered[seen.proxy] = 0
        self._state = self._policy.observe(self._state, seen)
        self._unwritten.append(seen)

    async def keep(self, *, everything: bool = False) -> None:
        """Writes what was seen, and learns what others saw, if it is time."""
        if not self._unwritten and (everything or not self._used):
            return
        if not everything and self._now() - self._read_at < _EVERY:
            return
        async with self._writing:
            if not self._unwritten:
                self._used = False
                await self._read()
                return
            for _ in range(TRIES):
                if await self._write(self._state):
                    return

    # -- the note

    async def _write(self, state: PoolState) -> bool:
        """Compare-and-set; if that fails, what others wrote is read, with what was seen here on top."""
        batch, self._unwritten = self._unwritten, []
        if self._version == 0:
            await _enlist(self._frontier, self.pool)
        state = tidied(state, self._now())
        if await self._frontier.set_note(key_of(self.pool), _encode(state), self._version):
            self._version += 1
            self._read_at = self._now()
            self._state = self._folded(state)  # with what was seen meanwhile
            return True
        self._unwritten = [*batch, *self._unwritten]
        await self._read()
        return False

    async def _read(self) -> None:
        note = await self._frontier.note(key_of(self.pool))
        self._version = note.version if note is not None else 0
        self._state = self._folded(state_of(note))
        self._read_at = self._now()

    def _folded(self, state: PoolState) -> PoolState:
        for seen in self._unwritten:
            state = self._policy.observe(state, seen)
        return state


def state_of(note: Note | None) -> PoolState:
    try:
        return _decode(note.value) if note is not None else PoolState()
    except UNREADABLE:
        return PoolState()  # another version's words


async def read_pools(frontier: Notes) -> dict[str, PoolState]:
    """Every pool that the store knows of."""
    return {pool: state_of(await frontier.note(key_of(pool))) for pool in _names(await frontier.note(INDEX))}


def _names(note: Note | None) -> list[str]:
    return _decode_index(note.value) if note is not None else []


async def _enlist(frontier: Notes, pool: str) -> None:
    async def with_pool(note: Note | None) -> bytes | None:
        known = _names(note)
        return None if pool in known else _encode(sorted([*known, pool]))

    await change_note(frontier, INDEX, with_pool, tries=TRIES)
