"""SIGTERM and Ctrl-C: the first drains, the second stops at once.

Under a guardian, the guardian receives the signals and passes them on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from shoal.engine.guardian import FORCE, Guarded, can_resume, guarded
from shoal.events import event

T = TypeVar("T")


class Stoppable(Protocol):
    def stop(self) -> None: ...

    def force(self) -> None: ...


DRAINING = "stopping: finishing the pages in flight; once more to hand them back at once"


@contextmanager
def stopping_on_signals(target: Stoppable, message: str = DRAINING, *, grace: float = 0.0) -> Iterator[None]:
    """`grace`: how long the target may take to stop."""
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        if received == 1:
            event("draining", message)
            target.stop()
        else:
            target.force()

    mine = guarded()
    with _on_signals(on_signal) if mine is None else following_guardian(mine, on_signal, on_signal, grace):
        yield


class _Cancelling:
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.told = False

    def stop(self) -> None:
        self.told = True
        self._task.cancel()

    force = stop


async def stoppable(work: Coroutine[Any, Any, T]) -> T | None:
    """Runs a service; returns None if a signal cancelled it. Before a service handles signals itself it may wait for
    its store for hours, so a signal ends it at once."""
    task = asyncio.ensure_future(work)
    cancelling = _Cancelling(task)
    can_resume()  # nothing is done yet that another process could not do
    with stopping_on_signals(cancelling, "stopping"):
        try:
            return await task
        except asyncio.CancelledError:
            if not cancelling.told:
                raise
            return None


@contextmanager
def _on_signals(on_signal: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in signals:
            loop.add_signal_handler(number, on_signal)
    except (NotImplementedError, RuntimeError, ValueError):
        yield  # not the main thread, or no signals here: the caller stops by other means
        return
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextmanager
def following_guardian(
    mine: Guarded, stop: Callable[[], None], force: Callable[[], None], grace: float
) -> Iterator[None]:
    """Stops as the guardian says, or when the guardian is gone."""
    loop = asyncio.get_running_loop()

    def told() -> None:
        words = os.read(mine.leash, 64)
        if not words:
            loop.remove_reader(mine.leash)
            stop()
        for word in words:
            force() if word == FORCE[0] else stop()

    loop.add_reader(mine.leash, told)
    mine.liveness.listen(grace)
    try:
        yield
    finally:
        mine.liveness.end()
        loop.remove_reader(mine.leash)
