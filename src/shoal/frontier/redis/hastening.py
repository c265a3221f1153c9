"""hasten: pages that wait for their next visit become due. They are read page by page here, and moved by a script."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.frontier.redis.codec import as_text, decode_delayed
from shoal.frontier.redis.shards import LANES_PER_JOB, Shards
from shoal.frontier.verdicts import is_wanted

_PORTION = 500


async def hasten(shards: Shards, job: str, host: str, wanted: Mapping[int, float]) -> int:
    number, shard = await shards.number(job), shards.of_host(host)
    since, start, hastened = f"({await shards.now()!r}", 0, 0
    while True:
        look = ("ZRANGEBYSCORE", f"later:{host}", since, "+inf", "LIMIT", start, _PORTION)
        [_, entries] = await shards.look(shard, look)
        due = [entry for entry in entries if await _is_wanted(shards, number, job, host, entry, wanted)]
        if due:
            await shards.run("hasten", shard, [host, [as_text(entry) for entry in due]])
        hastened += len(due)
        start += len(entries) - len(due)
        if len(entries) < _PORTION:
            return hastened


async def _is_wanted(
    shards: Shards, number: int, job: str, host: str, entry: bytes, wanted: Mapping[int, float]
) -> bool:
    later = decode_delayed(entry)
    if not later.revisit or later.line // LANES_PER_JOB != number:
        return False
    lane = await shards.lane(shards.of_host(host), later.line % LANES_PER_JOB)
    return is_wanted(await shards.task(number, later.item, job, host, lane, later.priority), wanted)
