"""An event loop for a prompt: it runs only while something is waited for, and Ctrl-C ends that."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class PromptLoop:
    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> PromptLoop:
        self._runner.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns. Raises KeyboardInterrupt after Ctrl-C: at once where code computes, and where the
        loop waits, as soon as what was waited for is cancelled."""
        loop = self._runner.get_loop()
        task: asyncio.Task[T] | None = None
        interrupted = False

        async def main() -> T:
            nonlocal task
            task = asyncio.current_task()
            return await coroutine

        def interrupt(signum: int, frame: FrameType | None) -> None:
            nonlocal interrupted
            if task is None or interrupted or not _is_waiting(frame):
                raise KeyboardInterrupt
            interrupted = True
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes it up

        try:
            with _on_interrupt(interrupt):
                return self._runner.run(main())
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise
        except KeyboardInterrupt:
            if task is not None and not task.done():  # otherwise it would go on with the next line
                task.cancel()
                self._runner.run(asyncio.wait([task]))
            raise
        finally:
            coroutine.close()


def _is_waiting(frame: FrameType | None) -> bool:
    """Whether the loop waits for input, so that no code of the user runs."""
    return frame is not None and frame.f_globals.get("__name__") == "selectors"


@contextmanager
def _on_interrupt(handler: Any) -> Iterator[None]:
    """Afterwards Ctrl-C does what it always does, also if a debugger has set something else meanwhile: pdb's handler
    stays after `continue`, and would stop at the next Ctrl-C in code that nobody debugs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
