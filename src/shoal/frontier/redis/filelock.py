"""Whose turn it is to write a result file, among the processes of a folder.

A process takes its turn, asks the store what was committed, writes its rows, and has them committed. If it held a lock
of the kernel all the time, one that is frozen meanwhile (SIGSTOP, a paused container) would keep the others waiting for
as long as it sleeps. So a turn is a small file, `.FILE.turn`, and whoever sees it without a sign of life for two
seconds removes it. The one that was frozen may wake at any moment, at any line. It does no harm:

  - It writes only while the turn is still its own. The look at that and the write are one step under the file's lock,
    which is held for nothing else, and for no call to the store.
  - What it has written is committed only if nobody has asked for the committed length since: `prepare` notes who did.

The order matters: the turn first, then the length. Then whoever finds the turn its own when it writes knows the length,
and whoever takes the turn after that write has made the commit impossible before it writes itself.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable

from shoal.errors import SinkError
from shoal.frontier.protocol import Journal

try:
    import fcntl
except ImportError:  # no flock here: one process writes a file
    fcntl = None  # type: ignore[assignment]

P = ParamSpec("P")
T = TypeVar("T")

_SILENCE = 2.0  # seconds without a sign of life, after which a turn is over
_LOOK = 0.002  # seconds between the first looks at what another process has; then they become rarer


@runtime_checkable
class SharedFile(Journal, Protocol):
    """A journal that is a file, such as `JsonLines`."""

    @property
    def path(self) -> Path: ...

    def fileno(self) -> int: ...

    def write(self, committed: int, rows: Sequence[bytes]) -> int:
        """`append` without making it durable."""
        ...

    def sync(self) -> None: ...


class Turn:
    """At a journal that nobody else can write to."""

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        # As long as all goes well the store knows us by the same name, and has nothing to note.
        self.name = name or os.urandom(8).hex()
        self.clean = name != ""  # whether all that we have written there is committed

    async def append(self, committed: int, rows: Sequence[bytes]) -> int | None:
        """The new length, or None if the turn is over."""
        return await asyncio.to_thread(self.journal.append, committed, rows)


class FileTurn(Turn):
    """At a file that is shared with other processes."""

    def __init__(self, journal: SharedFile, name: str) -> None:
        super().__init__(journal, name)
        self._file = journal
        self._path = journal.path.with_name(f".{journal.path.name}.turn")
        self._sign: object = None  # the last one of life of whoever has the turn
        self._since = 0.0

    async def append(self, committed: int, rows: Sequence[bytes]) -> int | None:
        return await _when_free(self._append, committed, rows)

    def _append(self, committed: int, rows: Sequence[bytes]) -> int | None:
        file = self._file.fileno()
        with self._complaining():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                if not self._is_mine():
                    return None
                end = self._file.write(committed, rows)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
        self._file.sync()
        return end

    # -- the file that says whose turn it is

    async def take(self) -> None:
        await _when_free(self._take)

    async def show_life(self) -> None:
        while True:
            await asyncio.sleep(_SILENCE / 4)
            await asyncio.to_thread(self._if_mine, os.utime)

    async def give_up(self) -> None:
        await asyncio.to_thread(self._if_mine, os.unlink)

    def _take(self) -> None:
        with self._complaining():
            try:
                file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                self._watch()
                raise BlockingIOError from None
            try:
                os.write(file, self.name.encode())
            finally:
                os.close(file)

    def _watch(self) -> None:
        with suppress(FileNotFoundError):
            state = os.lstat(self._path)
            sign, now = (state.st_ino, state.st_mtime_ns), time.monotonic()
            if sign != self._sign:
                self._sign, self._since = sign, now
            elif now - self._since > _SILENCE:
                os.unlink(self._path)

    def _is_mine(self) -> bool:
        try:
            return self._path.read_bytes() == self.name.encode()
        except FileNotFoundError:
            return False

    def _if_mine(self, do: Callable[[Path], None]) -> None:
        with suppress(OSError):  # at worst, somebody waits longer or the turn is over sooner
            if self._is_mine():
                do(self._path)

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:
            raise
        except OSError as error:
            raise SinkError(
                f"cannot write {self._file.path}: {error.strerror or error}; nothing is lost, but its folder must be"
                f" writable ({self._path.name}), on a file system with locks"
            ) from error


async def _when_free(do: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """In a thread, again and again, for as long as it says that another process has the file."""
    pause = _LOOK
    while True:
        with suppress(BlockingIOError):
            return await asyncio.to_thread(do, *args, **named)
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, 20 * _LOOK)


class FileTurns:
    """By journal: between this process's settlements, and between processes if the journal is a file."""

    def __init__(self) -> None:
        self._own: dict[str, asyncio.Lock] = {}
        self._names: dict[str, str] = {}  # of our last turn, if it left the journal clean

    @asynccontextmanager
    async def turn(self, journal: Journal) -> AsyncIterator[Turn]:
        async with self._own.setdefault(journal.key, asyncio.Lock()):
            name = self._names.pop(journal.key, "")
            if fcntl is None or not isinstance(journal, SharedFile):
                turn = Turn(journal, name)
                yield turn
            else:
                turn = FileTurn(journal, name)
                await turn.take()
                life = asyncio.create_task(turn.show_life())
                try:
                    yield turn
                finally:
                    life.cancel()
                    await turn.give_up()
            if turn.clean:
                self._names[journal.key] = turn.name
