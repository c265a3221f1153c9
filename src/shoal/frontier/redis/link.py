"""The connection to a Valkey or Redis store.

A call has a script, the tag of its shard, and arguments. It is repeated with the same arguments while the store is
away: a restart or a failover is a pause, not an error. An answer may get lost after the script has run, so every script
must give the same answer if it is called twice with the same arguments.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from time import monotonic
from typing import Any

from msgspec import Struct
from redis import exceptions as said
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from shoal.errors import StoreError
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.checks import Info, check, infos
from shoal.frontier.redis.clients import (
    CONNECT_SECONDS,
    Client,
    close_client,
    make_client,
    make_listener,
    node_clients,
)
from shoal.frontier.redis.durability import in_file
from shoal.frontier.redis.faults import FAULTS, Outage, closed_connections, delay, meaning, translate

Argument = bytes | str | int | float

CALL_SECONDS = 20.0  # a script takes milliseconds; after so long, the server is not there
OPEN_PATIENCE = 5.0


class SetBack(StoreError):
    """The server was restarted or replaced since the caller's epoch, and may have lost its last writes."""


class Script(Struct, frozen=True, dict=True):
    """A script that works on one shard. KEYS[1] is the shard's tag; every key it uses begins with that."""

    name: str
    source: str

    @cached_property
    def remembers(self) -> bool:
        """Whether the store keeps its last answer for each caller."""
        return "repeated()" in self.source.partition("local function repeated()")[2]

    @cached_property
    def sha(self) -> str:
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


class Link:
    def __init__(
        self,
        address: Address,
        *,
        patience: float = math.inf,
        open_patience: float = OPEN_PATIENCE,
        full_patience: float = math.inf,
        warns: bool = True,
    ) -> None:
        self.address = address
        self._warns = warns  # about the server's settings; viewers need no such warning
        self._patience = patience  # how long a call waits for a store that is away
        self._open_patience = open_patience
        self._full_patience = full_patience  # how long for one that is full, or cannot write to its disk
        self._client: Client | None = None
        self._listeners: list[Listener] = []
        self._outage = Outage(address)

    def __repr__(self) -> str:
        return f"<Link to {self.address}{', waiting' if self.lost else ''}>"

    @property
    def lost(self) -> bool:
        """Whether calls wait for the store."""
        return self._outage.waiting > 0

    async def open(self) -> None:
        """Connects, and raises if the store cannot be trusted with a queue."""
        self._client = make_client(self.address)
        try:
            await check(self.address, self._client, self._open_patience, warns=self._warns)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
        client, self._client = self._client, None
        if client is not None:
            await close_client(client)

    async def run(
        self, script: Script, tag: str, args: Sequence[Argument] = (), *, full_patience: float = math.inf
    ) -> Any:
        """Runs a script. Waits while the store is away, and up to `full_patience` seconds while it is full."""
        return await self._repeat(
            lambda client: self._evaluate(client, script, tag, args), f"script {script.name}", full_patience
        )

    async def infos(self, *sections: str) -> list[Info]:
        """INFO of every primary."""
        answers: list[Info] = await self._repeat(lambda client: infos(client, *sections), "INFO", math.inf)
        return answers

    async def durable(self, tags: Sequence[str], seconds: float) -> bool | None:
        """Whether everything written under these tags is in the append-only file on disk; waits up to `seconds`. None:
        there is no such file, or the server is too old to say."""
        try:
            clients = self.own_clients(tags)
            async with asyncio.timeout(seconds + CONNECT_SECONDS), asyncio.TaskGroup() as group:
                asked = [group.create_task(in_file(client, tag, seconds)) for client, tag in clients]
        except (*FAULTS, TimeoutError):  # also a cluster of which a part has no server at the moment
            return False
        except BaseExceptionGroup as errors:
            if errors.split((*FAULTS, TimeoutError))[1] is not None:
                raise
            return False
        answers = [task.result() for task in asked]
        return None if None in answers else all(answers)

    def own_clients(self, tags: Sequence[str]) -> Sequence[tuple[Redis, str]]:
        """For every server, a client with its own connection and a tag that it has. The caller closes them."""
        return node_clients(self.address, self._opened(), tags)

    async def config(self, name: str) -> str:
        """A setting of the server; empty if it cannot be read."""
        try:
            client = self._opened()
            where = {"target_nodes": client.get_random_node()} if isinstance(client, RedisCluster) else {}
            answer = await client.execute_command("CONFIG GET", name, **where)
        except FAULTS:
            return ""
        return str(answer.get(name, "")) if isinstance(answer, dict) else ""

    async def subscribe(self, callback: Callable[[bytes], None], *channels: str) -> None:
        """Calls back with every message of the channels, and with b"" after each connection: messages may have been
        missed."""
        listener = Listener(self.address, channels, callback)
        self._listeners.append(listener)
        await listener.start()

    async def _evaluate(self, client: Client, script: Script, tag: str, args: Sequence[Argument]) -> Any:
        try:
            return await client.execute_command("EVALSHA", script.sha, 1, tag, *args)
        except said.NoScriptError:  # a restart or SCRIPT FLUSH: EVAL runs the script and keeps it
            return await client.execute_command("EVAL", script.source, 1, tag, *args)

    async def _repeat(
        self, call: Callable[[Client], Awaitable[Any]], doing: str, full_patience: float
    ) -> Any:
        started, attempt, answered = monotonic(), 0, False
        full = min(full_patience, self._full_patience)
        patience = {"passing": self._patience, "full": full, "fatal": 0.0}
        try:
            while True:
                try:
                    async with asyncio.timeout(CALL_SECONDS):
                        with closed_connections():
                            answer = await call(self._opened())
                    answered = True
                    return answer
                except FAULTS as error:
                    if isinstance(error, said.ResponseError) and str(error).startswith("SETBACK"):
                        answered = True
                        raise SetBack(
                            f"the store at {self.address} was started anew, or another took its place"
                        ) from error
                    left = started + patience[meaning(error)] - monotonic()
                    if left <= 0:
                        raise translate(error, self.address, doing) from error
                    attempt += 1
                    if attempt == 1:
                        self._outage.begin(error)
                    await self._drop_stale(error)
                    await asyncio.sleep(min(delay(attempt), left))
        finally:
            if attempt:
                self._outage.end(answered)
            elif answered:
                self._outage.answered()

    def _opened(self) -> Client:
        if self._client is None:
            raise StoreError(f"the store at {self.address} is closed")
        return self._client

    async def _drop_stale(self, error: BaseException) -> None:
        """After a failover the name may have another address; connections to the old primary are closed."""
        if isinstance(error, said.ReadOnlyError) and isinstance(self._client, Redis):
            await self._client.connection_pool.disconnect(inuse_connections=False)


class Listener:
    """A subscription that outlives its connections. It logs nothing: the calls to the store log that it is away."""

    def __init__(self, address: Address, channels: Sequence[str], callback: Callable[[bytes], None]) -> None:
        self._address = address
        self._channels = channels
        self._callback = callback
        self._failures = 0  # in a row
        self._subscribed = asyncio.Event()  # once
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when it is subscribed for the first time."""
        self._task = asyncio.create_task(self._listen())
        subscribed = asyncio.create_task(self._subscribed.wait())
        try:
            await asyncio.wait([self._task, subscribed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            subscribed.cancel()
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _listen(self) -> None:
        for attempt in itertools.count():
            try:
                with closed_connections():
                    await self._listen_once(attempt)
            except FAULTS as error:
                if meaning(error) == "fatal" and not self._subscribed.is_set():
                    raise translate(
                        error, self._address, f"subscribing to {' and '.join(self._channels)}"
                    ) from error
            self._failures += 1
            await asyncio.sleep(delay(self._failures))

    async def _listen_once(self, attempt: int) -> None:
        client = make_listener(self._address, attempt)
        try:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe(*self._channels)
                async for message in pubsub.listen():
                    self._hear(message)
        finally:
            await close_client(client)

    def _hear(self, message: dict[str, Any]) -> None:
        if message["type"] == "message":
            self._callback(message["data"])
        elif message["type"] == "subscribe":
            self._failures = 0
            self._subscribed.set()
            self._callback(b"")
