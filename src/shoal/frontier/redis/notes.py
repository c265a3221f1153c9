"""Notes: small values with a version, on the home shard."""

from __future__ import annotations

from shoal.frontier.redis.codec import as_text
from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.shards import Shards
from shoal.frontier.values import Note


async def find_note(shards: Shards, key: str) -> Note | None:
    [_, data] = await shards.look(HOME, ("HGET", "notes", key))
    return None if data is None else Note(data[6:], int.from_bytes(data[:6], "little"))


async def drop_note(shards: Shards, key: str) -> None:
    await shards.run("drop_note", HOME, [key])


async def set_note(shards: Shards, key: str, value: bytes, version: int) -> bool:
    return bool(int(await shards.run("set_note", HOME, [key, as_text(value), version])))
