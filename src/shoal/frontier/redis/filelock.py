"""Turns at writing a result file, for the processes of one folder.

A process takes a turn, reads the committed length from the store, writes its rows and commits them. If it held a kernel
lock all the time, a frozen process (SIGSTOP, a paused container) would block the others for as long as it is frozen. So
a turn is a small file, `.FILE.turn`, and a process that sees it unchanged for two seconds removes it. A frozen process
may go on at any moment, and does no harm:

  - It writes only while the turn is its own. It checks that and writes under the file's lock, which is held for nothing
    else and during no call to the store.
  - Its rows are committed only if no other process has read the committed length since: `prepare` notes who did.

The order matters: first the turn, then the length. A process that still has the turn when it writes knows the length;
and a process that takes the turn after that write makes its commit impossible before it writes itself.
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
from shoal.model import Row

try:
    import fcntl
except ImportError:  # without flock, only one process may write a file
    fcntl = None  # type: ignore[assignment]

P = ParamSpec("P")
T = TypeVar("T")

_SILENCE = 2.0  # seconds without a change of its file after which a turn is over
_LOOK = 0.002  # seconds between the first tries while another process has the file; then they become rarer


@runtime_checkable
class SharedFile(Journal, Protocol):
    """A journal that is a file, such as `JsonLines`."""

    @property
    def path(self) -> Path: ...

    def fileno(self) -> int: ...

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        """`append` without making it durable."""
        ...

    def sync(self) -> None: ...


class Turn:
    """A turn at a journal that no other process writes."""

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        # While all goes well we keep the same name, and the store has nothing to note.
        self.name = name or os.urandom(8).hex()
        self.clean = name != ""  # whether all that we have written is committed

    async def append(self, committed: int, groups: Sequence[Sequence[Row]]) -> Sequence[int] | None:
        """The position after each group, or None if the turn is over."""
        return await asyncio.to_thread(_in_order, self.journal.append, committed, groups)


class FileTurn(Turn):
    """A turn at a file that other processes write, too."""

    def __init__(self, journal: SharedFile, name: str) -> None:
        super().__init__(journal, name)
        self._file = journal
        self._path = journal.path.with_name(f".{journal.path.name}.turn")
        self._sign: object = None  # the state of the turn's file when it last changed
        self._since = 0.0

    async def append(self, committed: int, groups: Sequence[Sequence[Row]]) -> Sequence[int] | None:
        return await _when_free(self._append, committed, groups)

    def _append(self, committed: int, groups: Sequence[Sequence[Row]]) -> Sequence[int] | None:
        file = self._file.fileno()
        with self._complaining():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                if not self._is_mine():
                    return None
                positions = _in_order(self._file.write, committed, groups)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
        self._file.sync()
        return positions

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
        with suppress(OSError):  # at worst, a process waits longer or the turn ends sooner
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


def _in_order(
    write: Callable[[int, Sequence[Row]], int], committed: int, groups: Sequence[Sequence[Row]]
) -> Sequence[int]:
    """The position after each group. The first is written even if it is empty: what is not committed must go."""
    positions: list[int] = []
    for rows in groups:
        if rows or not positions:
            committed = write(committed, rows)
        positions.append(committed)
    return positions


async def _when_free(do: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Calls `do` in a thread until it does not raise BlockingIOError, which means that another process has the file."""
    pause = _LOOK
    while True:
        with suppress(BlockingIOError):
            return await asyncio.to_thread(do, *args, **named)
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, 20 * _LOOK)


class FileTurns:
    """Turns for each journal: among this process's settlements, and among processes if it is a file."""

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
