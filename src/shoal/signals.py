"""SIGTERM and Ctrl-C: the first asks the engine to stop, the second insists."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from shoal.telling import event


class Stoppable(Protocol):
    def stop(self) -> None: ...

    def force(self) -> None: ...


DRAINING = "stopping: finishing the pages in flight; once more to hand them back at once"


@contextmanager
def stopping_on_signals(target: Stoppable, message: str = DRAINING) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        if received == 1:
            event("draining", message)
            target.stop()
        else:
            target.force()

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
