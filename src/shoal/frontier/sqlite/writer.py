"""One thread owns the connection, and commits what is asked at the same time together.

A caller hands in a function of the session and awaits its result, which comes after the commit is on disk. Functions
that arrive during one commit share the next transaction (group commit), each in its own savepoint, so one that fails
undoes only itself. Claims go last: their requests are sent right after the commit, so that hosts' intervals are kept
exactly. They also find the places that the others have freed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

import apsw

from shoal.errors import StoreError
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.faults import translate

T = TypeVar("T")
_Finish = Callable[[BaseException | None, object], None]
_Entry = tuple[Callable[[Session], object], _Finish, bool]
_GROUP = 64  # jobs in one transaction: bounds how long the first caller waits for the last


class Writer:
    def __init__(self, open_session: Callable[[], Session], path: str) -> None:
        self._open_session = open_session
        self._path = path
        self._jobs: SimpleQueue[_Entry | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        finish = _finisher(asyncio.get_running_loop(), opened)
        self._thread = threading.Thread(target=self._run, args=(finish,), name="shoal-writer", daemon=True)
        self._thread.start()
        await opened

    async def do(self, job: Callable[[Session], T], *, last: bool = False) -> T:
        """Runs `job` in a transaction, after those that are not `last`; returns its result when it is durable."""
        if self._thread is None:
            raise StoreError(f"the store at {self._path} is closed")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.put((job, _finisher(loop, done), last))
        return await done

    def post(self, job: Callable[[Session], object]) -> None:
        """Runs `job` before all later ones. Nobody waits for it or learns of its failure."""
        if self._thread is not None:
            self._jobs.put((job, lambda error, result: None, False))

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    def _run(self, opened: _Finish) -> None:
        try:
            session = self._open_session()
        except BaseException as error:
            opened(error, None)
            return
        opened(None, None)
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
        results: list[tuple[_Finish, BaseException | None, object]] = []
        try:
            session.begin()
            for job, finish, _ in group:
                try:
                    results.append((finish, None, session.attempt(job)))
                except apsw.Error:
                    raise
                except Exception as error:
                    results.append((finish, error, None))
            session.commit()
        except BaseException as error:
            session.rollback()
            reason = translate(error, self._path) if isinstance(error, apsw.Error) else error
            for _, finish, _ in group:
                finish(reason, None)
            return
        for finish, problem, result in results:
            finish(problem, result)


def _finisher(loop: asyncio.AbstractEventLoop, future: asyncio.Future[T]) -> _Finish:
    def settle(error: BaseException | None, result: object) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def finish(error: BaseException | None, result: object) -> None:
        try:
            loop.call_soon_threadsafe(settle, error, result)
        except RuntimeError:
            pass  # the loop was closed during the commit

    return finish
