"""One writer of a result file at a time, on this machine: the kernel drops the lock with the process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.errors import SinkError
from shoal.frontier.protocol import Journal

try:
    import fcntl
except ImportError:  # no flock here: one process writes a file
    fcntl = None  # type: ignore[assignment]


class FileLocks:
    """Locks by journal: between this process's settlements, and between processes if the journal is a file."""

    def __init__(self) -> None:
        self._own: dict[str, asyncio.Lock] = {}
        self._files: dict[str, int] = {}

    @asynccontextmanager
    async def held(self, journal: Journal) -> AsyncIterator[None]:
        async with self._own.setdefault(journal.key, asyncio.Lock()):
            file = self._file(journal)
            if file is None:
                yield
                return
            await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def _file(self, journal: Journal) -> int | None:
        path = getattr(journal, "path", None)
        if path is None or fcntl is None:
            return None
        if journal.key not in self._files:
            try:
                self._files[journal.key] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise SinkError(
                    f"cannot write {path}: {error.strerror or error}; nothing is lost, choose another file"
                ) from error
        return self._files[journal.key]

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()
