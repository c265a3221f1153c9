"""What is mended when a shard may have gone back, before anything else is asked of the store.

Each shard keeps what it said in step with itself: a page that is done there has its links and rows there. But what one
shard keeps about another may be ahead of it. So when the epoch of a shard changes, every process

  - tells the home shard which number stands for which handler, as its tasks in other shards have them;
  - drops jobs from shards of which the home shard knows nothing;
  - brings links to a shard again that had crossed to it from another;
  - lets a job run on that was finished, if that brought something.

That all shards have the home shard's jobs, and that the home shard knows of every page of a budget that was granted,
is part of how an epoch begins (`begin.lua`). So is that the sources of start URLs
are where they were when a shard went back.
"""

from __future__ import annotations

from shoal.frontier.redis import jobs, outbox
from shoal.frontier.redis.shards import Shards


async def mend(shards: Shards) -> None:
    await shards.tell_words()
    if not shards.several:
        return
    for shard, name, number in shards.take_orphans():
        await jobs.clear_orphan(shards, shard, number, name)
    await outbox.bring_again(shards)
    await jobs.revive_unfinished(shards)
