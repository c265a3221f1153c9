"""What the probes of `shoal doctor` are given, and share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from msgspec import Struct

from shoal.settings import Settings

T = TypeVar("T")


class Place(Struct, frozen=True):
    settings: Settings
    store: str
    outputs: Sequence[str]  # as after -o
    names: Sequence[str]  # hosts whose names are looked up
    environ: Mapping[str, str]


async def in_thread(look: Callable[[], T]) -> T:
    """Runs what may block for ever, such as a look at a network drive that is away. Unlike with asyncio's own threads,
    the program can end while it blocks."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def give(result: T | None, error: Exception | None) -> None:
        if answer.done():
            return  # nobody waits any more
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, problem = None, None
        try:
            result = look()
        except Exception as error:
            problem = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(give, result, problem)

    Thread(target=run, name="shoal-doctor", daemon=True).start()
    return await answer
