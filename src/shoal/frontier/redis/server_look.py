"""What `shoal doctor` asks a server. Nothing is written there."""

from __future__ import annotations

import time
from typing import Any

from redis.asyncio.cluster import RedisCluster

from shoal.errors import StoreError
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.checks import fsync_of, infos, refuse, room_of
from shoal.frontier.redis.clients import close_client, make_client
from shoal.frontier.redis.faults import FAULTS, translate
from shoal.frontier.values import ServerLook


async def look_at(address: Address) -> ServerLook:
    """Raises StoreError if there is no answer, or if a queue would not be safe there."""
    client = make_client(address)
    try:
        began = time.monotonic()
        found = await infos(client)
        seconds = time.monotonic() - began
        for info in found:
            refuse(address, info)
        files = all(info.get("aof_enabled") for info in found)
        syncs = sorted(set(await fsync_of(client))) if files else []
        ahead = None if isinstance(client, RedisCluster) else await _ahead(client)
    except FAULTS as error:
        raise translate(error, address) from error
    finally:
        await close_client(client)
    if not found:
        raise StoreError(f"the cluster at {address} has no primary")
    rooms = [room_of(info) for info in found]
    return ServerLook(
        version=_version(found[0]),
        servers=len(found),
        used=sum(room.used for room in rooms),
        limit=sum(room.limit for room in rooms) if all(room.limit for room in rooms) else 0,
        syncs=", ".join(syncs) if files else "never",
        ahead=ahead,
        seconds=seconds,
    )


def _version(info: Any) -> str:
    valkey = info.get("valkey_version")
    return f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', '?')}"


async def _ahead(client: Any) -> float:
    """Seconds by which its clock is ahead of ours."""
    before = time.time()
    seconds, micros = await client.time()
    return float(seconds + micros / 1e6 - (before + time.time()) / 2)
