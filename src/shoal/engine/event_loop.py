"""The event loop: uvloop where it is installed, how a long iteration shares it, and how late it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from shoal.spider import debugging

T = TypeVar("T")

_TURN = 0.01  # seconds of work before other tasks of the loop run
_TICK, _WINDOW = 0.25, 1.0  # seconds


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, on uvloop where there is one. Ctrl-C ends `main` with KeyboardInterrupt, also if `main` fails at the
    same moment, as with a store that does not answer in time."""
    try:
        import uvloop
    except ImportError:
        make_loop = None
    else:
        make_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(_interruptible(main))


async def _interruptible(main: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    try:
        return await main
    except Exception as error:
        if task.cancelling():  # only Ctrl-C cancels the main task
            raise asyncio.CancelledError from error
        raise


async def in_turns(values: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yields the same values, but lets other tasks of the loop run in between, even if all values come at once."""
    until = time.monotonic() + _TURN
    async for value in values:
        yield value
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + _TURN


class LoopLag:
    """How late the event loop is with its timers: the maximum of the last one to two seconds."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._window_ends = 0.0
        self._current = self._previous = self._paused = 0.0

    @property
    def seconds(self) -> float:
        return max(self._current, self._previous)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._window_ends = loop.time() + _WINDOW
        self._wait(loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + _TICK
        self._paused = debugging.paused()
        self._timer = loop.call_at(self._due, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if now >= self._window_ends:
            self._previous, self._current = self._current, 0.0
            self._window_ends = now + _WINDOW
        # A loop that stands still in a debugger is not overloaded.
        late = now - self._due - (debugging.paused() - self._paused)
        self._current = max(self._current, late)
        self._wait(loop)
