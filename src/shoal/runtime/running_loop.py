"""`shoal.run` where an event loop runs already: in a notebook, or by mistake in async code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from threading import Event, Thread
from typing import Any, TypeVar

from shoal.engine.event_loop import run_loop
from shoal.errors import UsageError

T = TypeVar("T")


def run_anywhere(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs it to its end. In a notebook, whose own loop waits for the cell anyway, it runs on a loop of its own in
    another thread. In other async code that would stop everything else, so it is an error."""
    if not _in_loop():
        return run_loop(main())
    if not _in_notebook():
        raise UsageError(
            "shoal.run() was called in a running event loop, which it would block: write "
            "results = await shoal.crawl(spider, …) there, with the same arguments"
        )
    return _in_thread(main)


def _in_loop() -> bool:
    # The crawl must not run while this error is handled: tracebacks of handlers would begin with it.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_notebook() -> bool:
    """Whether this is a cell of IPython, in a terminal or in Jupyter."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def _in_thread(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Ctrl-C, or the button that interrupts a cell, ends the crawl as it does elsewhere."""
    ended: list[T] = []
    failed: list[BaseException] = []
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def crawl() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.append((asyncio.get_running_loop(), task))
        if is_interrupted.is_set():  # before it had begun
            task.cancel()
        return await main()

    def run() -> None:
        try:
            ended.append(run_loop(crawl()))
        except BaseException as error:
            failed.append(error)
        is_over.set()

    is_interrupted = Event()
    is_over = (
        Event()
    )  # before Python 3.13 a thread whose `join` was interrupted passes for one that has ended
    context = copy_context()
    thread = Thread(target=lambda: context.run(run), name="shoal-run", daemon=True)
    try:
        thread.start()
        is_over.wait()
    except KeyboardInterrupt:
        is_interrupted.set()
        for loop, task in begun:
            loop.call_soon_threadsafe(task.cancel)
        is_over.wait()
        raise
    finally:
        if is_over.is_set():
            thread.join()
    if failed:
        raise failed[0]
    return ended[0]
