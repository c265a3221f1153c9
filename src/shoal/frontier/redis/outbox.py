"""Delivers tasks that a settlement found for hosts of other shards. They are stored with the settlement first.

What one shard sends to another is a numbered sequence. The receiver stores the last number that arrived, so the same
entries may be delivered twice: by the worker that settled, and by a process that notices that it died. Delivered
entries are kept for a minute: if the receiver goes back, its last number goes back too, and says what it has lost.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable

import msgspec

from shoal.frontier.redis.codec import as_text
from shoal.frontier.redis.shards import Shards
from shoal.frontier.values import Added, total

_HEAD = struct.Struct(">6s6sIB")
_TIME = 8  # bytes before a kept entry: when it was delivered
_AT_ONCE = 100  # settlements' worth of tasks
_GAP = b"gap"

encode_payload = msgspec.msgpack.Encoder().encode


def added_of(text: bytes) -> Added:
    new, duplicates, over_budget = (int(number) for number in text.split())
    return Added(new, duplicates, over_budget)


async def deliver(shards: Shards, source: int, targets: Iterable[int]) -> Added:
    """Delivers the entries of one shard for others; returns what was new there."""
    return total(await asyncio.gather(*(_deliver_to(shards, source, target) for target in targets)))


async def _deliver_to(shards: Shards, source: int, target: int) -> Added:
    parts: list[Added] = []
    left = 1
    while left:
        [_, entries, sent] = await shards.look(
            source, ("LRANGE", f"out:{target}", 0, _AT_ONCE - 1), ("HGET", "facts", f"sent:{target}")
        )
        ask = [_entry(entry) for entry in entries]
        if ask:
            answer = await shards.run("deliver", target, [source, ask, int(sent or 0)])
            if answer == _GAP:
                parts.append(await _redeliver(shards, source, target))
                answer = await shards.run("deliver", target, [source, ask, 0])
            parts.append(added_of(answer))
        left = await shards.run("sent", source, [target, ask[-1][0] if ask else 0])
    return total(parts)


async def bring_again(shards: Shards) -> None:
    """Delivers again what a shard has lost that has gone back."""
    answers = await shards.look_all(("HGETALL", "facts"))
    facts = [dict(zip(flat[::2], flat[1::2], strict=True)) for _, flat in answers]
    for source in shards.all:
        for target in shards.all:
            sent = int(facts[source].get(b"sent:%d" % target, 0))
            if sent > int(facts[target].get(b"in:%d" % source, 0)):
                await _redeliver(shards, source, target)


async def _redeliver(shards: Shards, source: int, target: int) -> Added:
    parts: list[Added] = []
    [_, arrived] = await shards.look(target, ("HGET", "facts", f"in:{source}"))
    after = int(arrived or 0)
    while True:
        look = ("ZRANGEBYSCORE", f"kept:{target}", f"({after}", "+inf", "LIMIT", 0, _AT_ONCE)
        [_, kept] = await shards.look(source, look)
        if not kept:
            return total(parts)
        ask = [_entry(entry[_TIME:]) for entry in kept]
        parts.append(added_of(await shards.run("deliver", target, [source, ask, 0])))
        after = ask[-1][0]


def _entry(data: bytes) -> tuple[int, int, bool, msgspec.Raw]:
    seq, job, _, moved = _HEAD.unpack_from(data)
    return int.from_bytes(seq, "big"), int.from_bytes(job, "big"), bool(moved), as_text(data[_HEAD.size :])
