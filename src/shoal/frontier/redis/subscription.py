"""A subscription that outlives its connections."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from shoal.frontier.redis.address import Address
from shoal.frontier.redis.clients import close_client, make_listener
from shoal.frontier.redis.faults import FAULTS, closed_connections, meaning, translate
from shoal.frontier.redis.reconnecting import delay


class Listener:
    """Says nothing in the log: whoever calls the store meanwhile tells that it is away."""

    def __init__(self, address: Address, channels: Sequence[str], callback: Callable[[bytes], None]) -> None:
        self._address = address
        self._channels = channels
        self._callback = callback
        self._failures = 0  # in a row
        self._subscribed = asyncio.Event()  # once
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the subscription stands for the first time."""
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
