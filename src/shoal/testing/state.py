"""`spider.state` for tests of a single handler, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from shoal.spider.state import state_of


@contextmanager
def state_in_memory(values: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """While the block runs, `spider.state` has these values, and changes go there. For tests of handlers."""
    kept = {} if values is None else values
    with state_of(_Memory(kept)):
        yield kept


class _Memory:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    async def read(self) -> dict[str, Any]:
        return deepcopy(self._values)

    async def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        changed = deepcopy(self._values)
        change(changed)
        self._values.clear()
        self._values.update(changed)
