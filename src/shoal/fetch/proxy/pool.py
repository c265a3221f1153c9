"""A pool of proxies as one process uses it: chooses a proxy, and records what each request shows about it.

Processes share the state of a pool through a `PoolStore`. A process applies what it observes to its own copy at once,
and writes the copy back every few seconds with compare-and-set. It reserves a probe in the store before it sends the
probe, so that only one process does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Protocol

from shoal.policy.proxy_choice import Choice, Wait
from shoal.policy.proxy_faults import ProxyPolicy
from shoal.policy.proxy_state import PoolState, ProxyObservation, is_held, pruned, serves_well

_INTERVAL = 3.0  # seconds between two looks at the shared state
_TRIES = 20  # to write it, until the next flush
_NEVER = float("-inf")


class PoolStore(Protocol):
    async def read(self, pool: str) -> tuple[PoolState, int]:
        """The shared state of a pool and its version; version 0 if nobody has written it yet."""
        ...

    async def write(self, pool: str, state: PoolState, version: int) -> bool:
        """Replaces the state if it still has this version."""
        ...


class LocalPools:
    """The `PoolStore` of a process that shares nothing."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[PoolState, int]] = {}

    async def read(self, pool: str) -> tuple[PoolState, int]:
        return self._states.get(pool, (PoolState(), 0))

    async def write(self, pool: str, state: PoolState, version: int) -> bool:
        self._states[pool] = state, version + 1
        return True


class ProxyPool:
    def __init__(
        self,
        store: PoolStore,
        name: str,
        proxies: Sequence[str],
        policy: ProxyPolicy,
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._store = store
        self._policy = policy
        self._now = now
        self._rng = rng
        self._state = PoolState()
        self._version = 0
        self._unwritten: list[ProxyObservation] = []
        self._read_at = _NEVER
        self._writing = asyncio.Lock()  # two writes of our own would count an observation twice
        self._used = False
        self._turn = 0
        self._in_flight = 0
        self._unanswered: dict[str, int] = {}  # requests in flight since each proxy's last answer
        self.name = name
        self.proxies = proxies  # names

    def __repr__(self) -> str:
        return f"<ProxyPool {self.name}: {len(self.proxies)} proxies>"

    # -- choosing

    async def choose(
        self, host: str, *, avoid: AbstractSet[str], probes: bool, hold: float
    ) -> Choice | Wait | None:
        """As the policy says. A probe is reserved for `hold` seconds."""
        self._used = True
        if self._read_at == _NEVER:
            async with self._writing:
                if self._read_at == _NEVER:
                    await self._read()
        choice = self.peek(host, avoid=avoid, probes=probes)
        while isinstance(choice, Choice) and choice.probe:
            async with self._writing:
                choice = self.peek(host, avoid=avoid, probes=probes)  # it may have been taken meanwhile
                if not isinstance(choice, Choice) or not choice.probe:
                    break
                reserved = self._policy.reserve(self._state, choice, host, self._now(), hold)
                if await self._write(reserved):
                    break
        self._turn += isinstance(choice, Choice)
        return choice

    def peek(
        self, host: str, *, avoid: AbstractSet[str] = frozenset(), probes: bool = True
    ) -> Choice | Wait | None:
        """What would be chosen, as far as this process knows."""
        return self._policy.choose(
            self._state,
            self.proxies,
            host,
            self._now(),
            self._rng,
            avoid=avoid,
            turn=self._turn,
            probes=probes,
            unanswered=self._unanswered,
        )

    def chance(self, host: str) -> float:
        return self._policy.chance(self._state, self.proxies, host, self._now())

    def is_held(self, proxy: str) -> bool:
        """Whether it is in quarantine."""
        return is_held(self._state, proxy, self._now())

    # -- recording

    @contextmanager
    def asking(self, proxy: str) -> Iterator[None]:
        """Around a request through the proxy."""
        self._unanswered[proxy] = self._unanswered.get(proxy, 0) + 1
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._unanswered[proxy] = max(0, self._unanswered[proxy] - 1)

    @property
    def is_asking(self) -> bool:
        """Whether a request is in flight."""
        return self._in_flight > 0

    def serves_well(self, proxy: str) -> bool:
        return serves_well(self._state, proxy, self._now())

    def blames_host(self, host: str, proxy: str, earlier: Sequence[str]) -> bool:
        """Whether a failure through the proxy, just recorded, is the host's fault. `earlier`: other proxies through
        which the same page failed before."""
        if self._policy.blames_host(self._state, self.proxies, host, proxy, self._now()):
            return True
        others = [name for name in earlier if name != proxy]
        return self.serves_well(proxy) and any(map(self.serves_well, others))

    def record(self, seen: ProxyObservation) -> None:
        if seen.sign == "good":
            self._unanswered[seen.proxy] = 0
        self._state = self._policy.observe(self._state, seen)
        self._unwritten.append(seen)

    async def flush(self, *, everything: bool = False) -> None:
        """Writes what was recorded, and reads what others wrote, if it is time. `everything`: whatever the time."""
        if not self._unwritten and (everything or not self._used):
            return
        if not everything and self._now() - self._read_at < _INTERVAL:
            return
        async with self._writing:
            if not self._unwritten:
                self._used = False
                await self._read()
                return
            for _ in range(_TRIES):
                if await self._write(self._state):
                    return

    # -- the shared state

    async def _write(self, state: PoolState) -> bool:
        """Compare-and-set. If another was quicker, reads what it wrote, and applies what was recorded here to that."""
        batch, self._unwritten = self._unwritten, []
        state = pruned(state, self._now())
        if await self._store.write(self.name, state, self._version):
            self._version += 1
            self._read_at = self._now()
            self._state = self._with_unwritten(state)  # recorded meanwhile
            return True
        self._unwritten = [*batch, *self._unwritten]
        await self._read()
        return False

    async def _read(self) -> None:
        state, self._version = await self._store.read(self.name)
        self._state = self._with_unwritten(state)
        self._read_at = self._now()

    def _with_unwritten(self, state: PoolState) -> PoolState:
        for seen in self._unwritten:
            state = self._policy.observe(state, seen)
        return state
