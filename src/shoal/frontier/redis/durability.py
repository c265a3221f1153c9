"""Whether what was written is on the server's disk, and with the replicas that may take its place.

With `appendfsync everysec`, which is usual, an answer comes before the disk has it: for a second or two a power cut
would make the server forget. WAITAOF is the command that waits for the disk. But some versions of servers (Valkey 9.1
is one) answer it at once if the last sync was less than a second ago, whatever was written since. So the server is
watched besides: once a second it hands what is unsynced to a thread, unless a sync is still under way.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from redis import exceptions as said
from redis.asyncio import Redis

from shoal.frontier.redis.keys import NAMES

_QUIET = 1.3  # seconds without a sync that takes long: in them, one has begun and ended
_LOOK_EVERY = 0.1


async def in_file(client: Redis, tag: str, seconds: float) -> bool | None:
    """Waits until all that was written before is in the append-only file on the disk, and with every replica that is
    connected, for `seconds` at most. None: there is no such file, or nobody says when it is synced. `client` has one
    connection, and is closed."""
    async with aclosing(client):  # not `async with client`, which leaves it open if it cannot connect
        policy = await _policy(client)
        if policy == "no":
            return None
        try:
            async with asyncio.timeout(seconds):
                # The server waits for the last write of the connection that asks. Files and replicas grow in one order,
                # so a write of our own stands for all that were made before it.
                await client.execute_command("SET", f"{tag}:{NAMES['SYNCED']}", 1)  # type: ignore[no-untyped-call]
                replicas = (await client.info("replication")).get("connected_slaves", 0)
                if replicas and await client.wait(replicas, int(seconds * 1000)) < replicas:
                    return False
                return policy == "always" or await _wait(client, seconds)
        except TimeoutError:
            return False


async def _policy(client: Redis) -> str:
    """ "no": there is no such file, or the server syncs it when it likes. A user who may not ask gets the usual one."""
    if not (await _persistence(client)).get("aof_enabled"):
        return "no"
    try:
        found = await client.config_get("appendfsync")
    except said.NoPermissionError:
        return "everysec"
    return str(found.get("appendfsync", "everysec"))


async def _wait(client: Redis, seconds: float) -> bool:
    try:
        here, _ = await client.execute_command("WAITAOF", 1, 0, int(seconds * 1000))  # type: ignore[no-untyped-call]
        if not here:
            return False
    except said.ResponseError as error:
        if "unknown command" not in str(error).lower():
            raise
    quiet = 0.0
    while quiet < _QUIET:
        await asyncio.sleep(_LOOK_EVERY)
        under_way = (await _persistence(client)).get("aof_pending_bio_fsync")
        quiet = 0.0 if under_way else quiet + _LOOK_EVERY
    return True


async def _persistence(client: Redis) -> dict[str, Any]:
    found: dict[str, Any] = await client.info("persistence")
    return found
