"""A connection to a database that may go away.

One connection, made when it is needed and closed after any error. Work is repeated until it succeeds, so it must be
idempotent.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

import asyncpg  # type: ignore[import-untyped]

from shoal.events import event
from shoal.sink.postgres.address import Address
from shoal.sink.postgres.faults import STARTING, no_connection, one_line, passes, sqlstate

_CONNECT = 10.0  # seconds for a connection to be made
_ANSWER = 60.0  # seconds for one piece of work; a server that hangs is noticed by this
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0

T = TypeVar("T")


class Connection(Protocol):
    """The methods of asyncpg's connection that are used."""

    async def execute(self, query: str, *args: object) -> str: ...

    async def fetch(self, query: str, *args: object) -> Sequence[Sequence[Any]]: ...

    async def fetchrow(self, query: str, *args: object) -> Sequence[Any]: ...

    def transaction(self) -> AbstractAsyncContextManager[object]: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self) -> None: ...


class Database:
    def __init__(
        self, address: Address, *, answer: float = _ANSWER, rng: random.Random | None = None
    ) -> None:
        self._address = address
        self._answer = answer
        self._rng = rng or random.Random()
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._away_since: float | None = None

    async def open(self) -> None:
        """Makes the first connection. Unlike later, it only waits for a server that is starting."""
        waited = 0.0
        while True:
            try:
                async with asyncio.timeout(_CONNECT):
                    await self._connected()
                return
            except Exception as error:
                if sqlstate(error) not in STARTING or waited > _CONNECT:
                    raise no_connection(error, self._address) from None
                waited += await self._wait(3)

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Does the work, again and again while the server is away. Raises other errors of the driver."""
        tries = 0
        async with self._lock:
            while True:
                try:
                    async with self._trouble_ends_connection(), asyncio.timeout(self._answer):
                        result = await work(await self._connected())
                except Exception as error:
                    if not passes(error):
                        raise
                    self._say_away(error)
                    await self._wait(tries)
                    tries += 1
                else:
                    self._say_back()
                    return result

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            async with asyncio.timeout(1.0):
                await connection.close()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection.terminate()

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            # Without prepared statements, so that a pooler such as PgBouncer can be used.
            self._connection = await asyncpg.connect(
                self._address.dsn,
                timeout=_CONNECT,
                statement_cache_size=0,
                server_settings={"application_name": "shoal"},
            )
        return self._connection

    @asynccontextmanager
    async def _trouble_ends_connection(self) -> AsyncIterator[None]:
        """After an error or a cancellation the state of the connection is unknown: it is closed."""
        try:
            yield
        except BaseException:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.terminate()
            raise

    async def _wait(self, tries: int) -> float:
        longest: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, 10))
        wait = longest * self._rng.uniform(0.5, 1.0)  # so that many workers do not return at once
        await asyncio.sleep(wait)
        return wait

    def _say_away(self, error: BaseException) -> None:
        if self._away_since is None:
            self._away_since = asyncio.get_running_loop().time()
            event("sink_lost", sink=self._address.shown, reason=one_line(error))

    def _say_back(self) -> None:
        if self._away_since is not None:
            seconds = asyncio.get_running_loop().time() - self._away_since
            self._away_since = None
            event("sink_back", sink=self._address.shown, seconds=seconds)
