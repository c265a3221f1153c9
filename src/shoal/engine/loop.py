"""The event loop: the quickest there is, and how a long walk shares it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_TURN = 0.01  # seconds of work before others have their turn


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, on uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def in_turns(values: AsyncIterator[T]) -> AsyncIterator[T]:
    """The same, but the loop's other work has its turn however many of them come at once."""
    until = time.monotonic() + _TURN
    async for value in values:
        yield value
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + _TURN
