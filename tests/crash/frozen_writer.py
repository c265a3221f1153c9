"""A process of a fleet that settles pages with rows until the job is done, and strikes itself at one point, once:
`python frozen_writer.py STORE FILE POINT SIGNAL LEASE`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.frontier.redis import filelock, rows
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.settling import Settler
from shoal.frontier.values import Claim
from shoal.model import Done, Row, Settlement
from shoal.sink.jsonl import JsonLines

STORE, PATH, POINT, SIGNAL, LEASE = sys.argv[1:] if __name__ == "__main__" else [""] * 5


def strike(point: str, spent: list[str] = []) -> None:  # noqa: B006
    if point == POINT and not spent:
        spent.append(point)
        # To this thread: one for the process may be taken by another, and this one comes further.
        signal.pthread_kill(threading.get_ident(), getattr(signal, SIGNAL))


def struck(function: Callable[..., Any], before: str, after: str) -> Any:
    def wrapped(*args: Any) -> Any:
        strike(before)
        answer = function(*args)
        strike(after)
        return answer

    return wrapped


def struck_after(function: Callable[..., Any], point: str) -> Any:
    async def wrapped(*args: Any) -> Any:
        answer = await function(*args)
        strike(point)
        return answer

    return wrapped


def row_of(url: str) -> bytes:
    """Of many lengths, so that rows in a wrong place tear others."""
    return b'"%s%s"\n' % (url.encode(), b"." * (len(url) * 7919 % 300))


async def work(frontier: RedisFrontier) -> None:
    journal = JsonLines(Path(PATH))
    while (job := await frontier.job("job")) is not None and job.counters.done < job.counters.admitted:
        claim = Claim(str(os.getpid()), ["job"], {"normal": 3}, 3, lease_seconds=float(LEASE))
        leases = (await frontier.claim(claim)).leases
        batch = [Settlement(lease, Done(), rows=(Row(row_of(lease.task.url)),)) for lease in leases]
        await frontier.settle(batch, journal)
        if not batch:
            await asyncio.sleep(0.05)


async def main() -> None:
    filelock.FileTurn.take = struck_after(filelock.FileTurn.take, "taken")  # type: ignore[method-assign]
    rows._prepare = struck_after(rows._prepare, "prepared")
    JsonLines.write = struck(JsonLines.write, "locked", "written")  # type: ignore[method-assign]
    JsonLines.sync = struck(JsonLines.sync, "unlocked", "synced")  # type: ignore[method-assign]
    Settler._run = struck_after(Settler._run, "settled")  # type: ignore[method-assign]
    filelock._SILENCE = 0.5
    async with RedisFrontier(STORE) as frontier:
        await work(frontier)


if __name__ == "__main__":
    asyncio.run(main())
