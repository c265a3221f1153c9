"""What a settlement found for hosts of other shards: stored with the settlement, then brought to its shard.

A shard's way to another one is a sequence. The receiver remembers the last number that arrived, so anybody may bring
the same things again: the worker that settled, or whoever notices that it died before it could.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable

import msgspec

from shoal.frontier.protocol import Added, total
from shoal.frontier.redis.adding import added_of
from shoal.frontier.redis.codec import as_text
from shoal.frontier.redis.shards import Shards

_HEAD = struct.Struct(">6s6sIB")
_AT_ONCE = 100  # settlements' worth of tasks

encode_payload = msgspec.msgpack.Encoder().encode


async def deliver(shards: Shards, source: int, targets: Iterable[int]) -> Added:
    """Brings what is on its way from one shard to others; answers what was new there."""
    return total(await asyncio.gather(*(_deliver_to(shards, source, target) for target in targets)))


async def _deliver_to(shards: Shards, source: int, target: int) -> Added:
    parts: list[Added] = []
    left = 1
    while left:
        [_, entries] = await shards.look(source, ("LRANGE", f"out:{target}", 0, _AT_ONCE - 1))
        ask = [_entry(entry) for entry in entries]
        if ask:
            parts.append(added_of(await shards.run("deliver", target, [source, ask])))
        left = await shards.run("sent", source, [target, ask[-1][0] if ask else 0])
    return total(parts)


def _entry(data: bytes) -> tuple[int, int, bool, msgspec.Raw]:
    seq, job, _, moved = _HEAD.unpack_from(data)
    return int.from_bytes(seq, "big"), int.from_bytes(job, "big"), bool(moved), as_text(data[_HEAD.size :])
