"""One thread owns the connection, and commits what is asked at the same time together.

A caller hands in a function of the session and awaits its result, which comes after the commit is on disk. Functions
that arrive during one commit share the next transaction (group commit), each in its own savepoint, so one that fails
undoes only itself. Claims go last: their requests are sent right after the commit, so that hosts' intervals are kept
exactly. They also find the places that the others have freed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from shoal.errors import StoreError
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.faults import translate

T = TypeVar("T")
_Future = asyncio.Future[Any]
_Entry = tuple[Callable[[Session], object], _Future | None, bool]
_Answer = tuple[_Future, BaseException | None, object]
_GROUP = 64  # jobs in one transaction: bounds how long the first caller waits for the last


class Writer:
    def __init__(self, open_session: Callable[[], Session], path: str) -> None:
        self._open_session = open_session
        self._path = path
        self._jobs: SimpleQueue[_Entry | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name="shoal-writer", daemon=True)
        self._thread.start()
        await opened

    async def do(self, job: Callable[[Session], T], *, last: bool = False) -> T:
        """Runs `job` in a transaction, after those that are not `last`; returns its result when it is durable."""
        if self._thread is None:
            raise StoreError(f"the store at {self._path} is closed")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((job, done, last))
        return await done

    def post(self, job: Callable[[Session], object]) -> None:
        """Runs `job` before all later ones. Nobody waits for it or learns of its failure."""
        if self._thread is not None:
            self._jobs.put((job, None, False))

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    def _run(self, opened: _Future) -> None:
        try:
            session = self._open_session()
        except BaseException as error:
            _answer([(opened, error, None)])
            return
        _answer([(opened, None, None)])
        try:
            stopping = False
            while not stopping:
                group = []
                entry = self._jobs.get()
                while entry is not None:
                    group.append(entry)
                    if len(group) >= _GROUP or self._jobs.empty():
                        break
                    entry = self._jobs.get()
                stopping = entry is None
                if group:
                    self._commit(session, sorted(group, key=lambda entry: entry[2]))
        finally:
            session.close()

    def _commit(self, session: Session, group: list[_Entry]) -> None:
        answers: list[_Answer] = []
        try:
            session.begin()
            for job, done, _ in group:
                error, result = None, None
                try:
                    result = session.attempt(job)
                except apsw.Error:
                    raise
                except Exception as raised:
                    error = raised
                if done is not None:
                    answers.append((done, error, result))
            session.commit()
        except BaseException as error:
            session.rollback()
            reason = translate(error, self._path) if isinstance(error, apsw.Error) else error
            answers = [(done, reason, None) for _, done, _ in group if done is not None]
        _answer(answers)


def _answer(answers: Sequence[_Answer]) -> None:
    """Gives each caller its answer. To wake a loop costs a system call, and this thread the interpreter's lock: so each
    is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
    for one in answers:
        by_loop.setdefault(one[0].get_loop(), []).append(one)
    for loop, its in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set, its)
        except RuntimeError:
            pass  # the loop was closed during the commit


def _set(answers: Sequence[_Answer]) -> None:
    for future, error, result in answers:
        if future.cancelled():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
