"""Standard input as a stream of lines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from threading import Semaphore, Thread

_LINES_AHEAD = 10_000  # that are read before somebody takes them
_LONGEST_LINE = 1 << 20  # bytes; what is longer is no URL, and counts as several lines


async def lines_of_stdin() -> AsyncGenerator[str, None]:
    """The lines of standard input as they come, until it ends. A thread reads it, since a pipe may be silent for hours;
    it is a daemon, so that nobody waits for it when the command ends before its input."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    room = Semaphore(_LINES_AHEAD)

    def read() -> None:
        with open(os.dup(0), "rb") as stream:
            while True:
                line = stream.readline(_LONGEST_LINE)
                room.acquire()
                try:
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                except RuntimeError:
                    return  # the loop has ended
                if not line:
                    return

    Thread(target=read, name="shoal-stdin", daemon=True).start()
    while line := await lines.get():
        room.release()
        yield line.decode("utf-8-sig", "replace")
