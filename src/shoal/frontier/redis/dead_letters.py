"""Dead letters: found page by page in the order of their death, replayed and dropped in batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from shoal.frontier.redis.codec import decode_letter
from shoal.frontier.redis.hosts import job_names
from shoal.frontier.redis.jobs import revive
from shoal.frontier.redis.shards import LANES_PER_JOB, Shards
from shoal.frontier.values import DeadFilter, matches
from shoal.model import DeadLetter

_PAGE = 500

Found = tuple[int, int, DeadLetter]  # shard, job's number, letter


async def dead(shards: Shards, query: DeadFilter) -> Sequence[DeadLetter]:
    return [letter for _, _, letter in await _find(shards, query)]


async def _find(shards: Shards, query: DeadFilter) -> list[Found]:
    names = await job_names(shards)
    found: list[Found] = []
    for number, name in names.items():
        if query.job not in (None, name):
            continue
        for shard in shards.all:
            found += await _of_shard(shards, shard, number, name, query)
    found.sort(key=lambda entry: (entry[2].at, entry[2].task.id))
    return found[: query.limit]


async def _of_shard(shards: Shards, shard: int, number: int, name: str, query: DeadFilter) -> list[Found]:
    """No more than asked for: what comes later in this shard comes later in the whole."""
    found: list[Found] = []
    async for page in _pages(shards, shard, number, query):
        for data in page:
            raw = decode_letter(data)
            if query.host not in (None, raw.host) or query.kind not in (None, raw.kind):
                continue
            lane = await shards.lane(shard, raw.line % LANES_PER_JOB)
            task = await shards.task(number, raw.item, name, raw.host, lane, raw.priority)
            letter = raw.letter(task)
            if matches(query, letter):
                found.append((shard, number, letter))
        if query.limit is not None and len(found) >= query.limit:
            break
    return found


async def _pages(
    shards: Shards, shard: int, number: int, query: DeadFilter
) -> AsyncIterator[Sequence[bytes]]:
    low = "-inf" if query.since is None else repr(query.since)
    high = "+inf" if query.until is None else f"({query.until!r}"
    at = 0
    while True:
        if query.ids is None:
            look = ("ZRANGEBYSCORE", f"deadat:{number}", low, high, "LIMIT", at, _PAGE)
            [_, ids] = await shards.look(shard, look)
        else:
            ids = [str(id) for id in query.ids[at : at + _PAGE]]
        if not ids:
            return
        [_, letters] = await shards.look(shard, ("HMGET", f"dead:{number}", *ids))
        yield [letter for letter in letters if letter is not None]
        at += _PAGE


async def replay(shards: Shards, query: DeadFilter) -> int:
    found = await _find(shards, query)
    numbers = {number for _, number, _ in found}
    for number in numbers:
        await revive(shards, number)
    replayed = await _do(shards, "replay", found)
    for number in numbers:  # somebody may have marked it as finished meanwhile
        await revive(shards, number)
    return replayed


async def drop(shards: Shards, query: DeadFilter) -> int:
    return await _do(shards, "drop", await _find(shards, query))


async def _do(shards: Shards, script: str, found: Sequence[Found]) -> int:
    by_place: dict[tuple[int, int], list[str]] = {}
    for shard, number, letter in sorted(found, key=lambda entry: entry[2].task.id):
        by_place.setdefault((shard, number), []).append(str(letter.task.id))
    count = 0
    for (shard, number), ids in by_place.items():
        for at in range(0, len(ids), _PAGE):
            count += int(await shards.run(script, shard, [number, ids[at : at + _PAGE]]))
    return count
