"""A crawl in a thread of its own, beside a loop that runs already: interrupting it."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from shoal.runtime.running_loop import _in_thread


def test_who_interrupts_it_waits_for_its_end() -> None:
    ended: list[bool] = []

    async def crawl() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)  # a caller that does not wait would be back before
            ended.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _in_thread(crawl)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended
    assert "shoal-run" not in [thread.name for thread in threading.enumerate()]
