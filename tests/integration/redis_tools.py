"""What the tests of a store in Valkey share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from shoal.frontier.redis.address import Address
from shoal.frontier.redis.link import Link, Script

TAG = "{shoal:0}"
COUNT = Script("count", "return redis.call('INCRBY', KEYS[1] .. ':n', ARGV[1])")


@asynccontextmanager
async def linked(url: str, **options: float) -> AsyncIterator[Link]:
    link = Link(Address.parse(url, {}), **options)
    await link.open()
    try:
        yield link
    finally:
        await link.close()


async def until(met: Callable[[], Any], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110 (the server knows nothing of our events)
            await asyncio.sleep(0.01)


async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.to_thread(call, *args)
