"""Lists of URLs by lines, and standard input as a stream of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from itertools import chain
from threading import Semaphore, Thread
from typing import TextIO

from shoal.limits import START_LINE

_LINES_AHEAD = 10_000  # that are read before somebody takes them


def bounded_lines(stream: TextIO) -> Iterator[str]:
    """Its lines. One that is longer than START_LINE is cut after that and one character more, so that the cut is seen;
    its rest is passed over, since it may be larger than memory."""
    while line := stream.readline(START_LINE + 1):
        yield line
        while len(line) > START_LINE and not line.endswith("\n"):
            line = stream.readline(START_LINE + 1)


async def lines_of_stdin() -> AsyncGenerator[str, None]:
    """The lines of standard input as they come, until it ends. A thread reads it, since a pipe may be silent for hours;
    it is a daemon, so that nobody waits for it when the command ends before its input."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()
    room = Semaphore(_LINES_AHEAD)

    def read() -> None:
        with open(os.dup(0), encoding="utf-8-sig", errors="replace") as stream:
            for line in chain(bounded_lines(stream), [""]):
                room.acquire()
                try:
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                except RuntimeError:
                    return  # the loop has ended

    Thread(target=read, name="shoal-stdin", daemon=True).start()
    while line := await lines.get():
        room.release()
        yield line
