"""The SQLite store in virtual time: without its thread, so that a seed gives the same day every time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.writer import Writer
from shoal.testing.simulation.virtual import Process, VirtualLoop

T = TypeVar("T")


class InlineWriter(Writer):
    """Each job is a transaction of its own, done when it is asked for."""

    async def start(self) -> None:
        self._session = self._open_session()

    async def do(self, job: Callable[[Session], T], *, last: bool = False) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._commit(self._session, [(job, done, last)])
        return await done  # others have their turn, as while a thread commits

    def post(self, job: Callable[[Session], object]) -> None:
        self._commit(self._session, [(job, None, False)])

    async def stop(self) -> None:
        self._session.close()


class InlineFrontier(SqliteFrontier):
    """For one process."""

    def __init__(self, path: Path, process: Process) -> None:
        super().__init__(path, process.clock)
        self._writer = InlineWriter(self._open_session, self.path)

    async def wait(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
        return True


class InlineLoop(VirtualLoop):
    """What would go to a thread is done at once."""

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done
