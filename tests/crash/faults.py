"""The shoal command with one fault built in: `python faults.py FAULT NUMBER ARGUMENT…`.

The product has no switches for this; a fault wraps one of its functions from outside. NUMBER says when it strikes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import count
from typing import NoReturn

import apsw

from shoal.cli import run
from shoal.frontier.sqlite import SqliteFrontier, home
from shoal.frontier.sqlite.connection import Session
from shoal.model import Row
from shoal.sink.jsonl import JsonLines

append = JsonLines.append


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def at_write(number: int, strike: Callable[[JsonLines, int, Sequence[Row]], None]) -> None:
    """Strikes instead of the n-th write of rows."""
    writes = count(1)

    def wrapped(self: JsonLines, committed: int, rows: Sequence[Row]) -> int:
        if rows and next(writes) == number:
            strike(self, committed, rows)
        return append(self, committed, rows)

    JsonLines.append = wrapped  # type: ignore[method-assign]


def kill_before_write(number: int) -> None:
    at_write(number, lambda journal, committed, rows: die())


def kill_in_write(number: int) -> None:
    def strike(journal: JsonLines, committed: int, rows: Sequence[Row]) -> None:
        data = b"".join(row.data for row in rows)
        os.pwrite(os.open(journal.path, os.O_WRONLY), data[: len(data) // 2 + 1], committed)
        die()

    at_write(number, strike)


def kill_after_write(number: int) -> None:
    """The rows are on disk, the settlement is not."""

    def strike(journal: JsonLines, committed: int, rows: Sequence[Row]) -> None:
        append(journal, committed, rows)
        die()

    at_write(number, strike)


def kill_after_commit(number: int) -> None:
    """Both are, and nobody has been told."""
    commit, written = Session.commit, []

    def wrapped(self: Session) -> None:
        commit(self)
        if written:
            die()

    at_write(number, lambda *_: written.append(True))
    Session.commit = wrapped  # type: ignore[method-assign]


def start_slowly(size: int) -> None:
    """Learns how long the result file is, then falls asleep until it is `size` bytes longer."""
    ask = SqliteFrontier.journal_length

    async def wrapped(self: SqliteFrontier, name: str, key: str) -> int | None:
        async def has_ended() -> bool:
            job = await self.job(name)
            return job is not None and job.exhausted

        length = await ask(self, name, key)
        enough = (length or 0) + size
        # If the job has ended, nobody writes to it any more.
        while await asyncio.to_thread(os.path.getsize, key) < enough and not await has_ended():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return length

    SqliteFrontier.journal_length = wrapped  # type: ignore[method-assign]


def output_full(number: int) -> None:
    """The disk is full in the middle of the n-th write."""
    write, writes = os.pwrite, count(1)

    def wrapped(file: int, data: bytes, position: int) -> int:
        if next(writes) < number:
            return write(file, data, position)
        if len(data) > 1:
            return write(file, data[: len(data) // 2], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.pwrite = wrapped


def archive_full(number: int) -> None:
    """The disk is full in the middle of the n-th write of WARC records."""
    write, writes = os.pwrite, count(1)

    def wrapped(file: int, data: bytes, position: int) -> int:
        if bytes(data[:2]) != b"\x1f\x8b" or next(writes) < number:
            return write(file, data, position)
        write(file, data[: len(data) // 2], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.pwrite = wrapped


def at_connect(change: Callable[[apsw.Connection], None]) -> None:
    connect = home.connect

    def wrapped(path: str) -> apsw.Connection:
        db = connect(path)
        change(db)
        return db

    home.connect = wrapped


def store_full(pages: int) -> None:
    """SQLite's own limit, which it reports as it does a full disk."""
    at_connect(lambda db: db.pragma("max_page_count", db.pragma("page_count") + pages))


def store_read_only(number: int) -> None:
    """As after a remount: it opens and reads, and one day refuses to write."""
    connections: list[apsw.Connection] = []
    at_connect(connections.append)
    at_write(number, lambda *_: connections[0].pragma("query_only", 1))


if __name__ == "__main__":
    fault, number, *argv = sys.argv[1:]
    globals()[fault](int(number))
    sys.exit(run(argv))  # no guardian, which would start another
