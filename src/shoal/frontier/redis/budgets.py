"""A job's page budget, shared out among several shards: each is granted a part, and gives back what it does not use.

All numbers are sums over the job's life and only grow, so a message that comes late or twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.shards import Shards


async def fill(shards: Shards, job: int, short: Sequence[int], wanted: int) -> bool:
    """Gets permits for shards that lack them; what others do not use is taken back if there are none left."""
    portion = max(1, wanted // len(short))
    granted = [await _grant(shards, job, shard, portion) for shard in short]
    if any(granted):
        return True
    await take_back(shards, job)
    return await _grant(shards, job, short[0], wanted)


async def _grant(shards: Shards, job: int, shard: int, wanted: int) -> bool:
    [_, before] = await shards.look(HOME, ("HGET", f"job:{job}", f"to:{shard}"))
    granted = int(await shards.run("grant", HOME, [job, shard, wanted]))
    await shards.run("allow", shard, [job, granted, False])
    return granted > int(before or 0)


async def take_back(shards: Shards, job: int) -> None:
    """Every shard gives back what it does not use, also what it was granted without hearing of it."""
    fields = [f"to:{shard}" for shard in shards.all]
    [_, granted] = await shards.look(HOME, ("HMGET", f"job:{job}", *fields))
    asks = {shard: [job, int(granted[shard] or 0), True] for shard in shards.all}
    returned = await shards.run_many("allow", asks)
    for shard, total in zip(asks, returned, strict=True):
        await shards.run("regain", HOME, [job, shard, int(total)])
