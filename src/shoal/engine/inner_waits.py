"""What a request inside a handler waits for, and how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Patience:
    """How long one request may still wait for turns and further attempts."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._until = monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._until - self._monotonic())

    @contextmanager
    def stands_still(self) -> Iterator[None]:
        """While an answer arrives: a file may take minutes."""
        since = self._monotonic()
        try:
            yield
        finally:
            self._until += self._monotonic() - since


class Places:
    """How many inner requests to one host this process may have at once."""

    def __init__(self, cap: int) -> None:
        self.free = asyncio.Semaphore(max(1, cap))
        self.users = 0
