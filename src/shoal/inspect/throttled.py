"""Asking for what takes a while to find out: not more often than it is worth, and without waiting for it for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE = 1.0  # seconds for those who look again and again
_LEAST = 2.0  # seconds that an answer is good for
_TIMES = (
    50.0  # … or so many times what it took, if that is longer: asking takes a fiftieth of the time at most
)


class Sparing(Generic[T]):
    """The last answer, until it is time to ask again. Who has no patience gets the old one while the next is sought."""

    def __init__(
        self, first: T, *, patience: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._answer = first  # until there is one
        self._patience = patience  # None: without end
        self._clock = clock
        self._good_until = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def get(self, ask: Callable[[], Awaitable[T]]) -> T:
        if self._asking is None and self._clock() >= self._good_until:
            self._asking = asyncio.create_task(self._ask(ask))
            self._asking.add_done_callback(_noticed)
        if (asking := self._asking) is not None:
            await asyncio.wait([asking], timeout=self._patience)
            if asking.done():
                self._asking = None
                asking.result()
        return self._answer

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> None:
        began = self._clock()
        self._answer = await ask()
        ended = self._clock()
        self._good_until = ended + max(_LEAST, _TIMES * (ended - began))


def _noticed(asking: asyncio.Task[None]) -> None:
    """If nobody asks again, nobody hears of its error; then there is nobody to complain to."""
    if not asking.cancelled():
        asking.exception()
