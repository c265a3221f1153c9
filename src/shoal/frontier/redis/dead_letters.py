"""Dead letters: found page by page, the newest first; replayed and dropped in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.frontier.redis.codec import decode_letter
from shoal.frontier.redis.hosts import job_names
from shoal.frontier.redis.jobs import revive
from shoal.frontier.redis.shards import LANES_PER_JOB, Shards
from shoal.frontier.values import DeadFilter, matches
from shoal.model import DeadLetter

_PAGE = 500
_SCAN = 500  # letters that one call reads, so that the server is not blocked

Place = tuple[float, int, int, int]  # time of death, id, shard, job's number
Found = tuple[int, int, DeadLetter]  # shard, job's number, letter


async def dead(shards: Shards, query: DeadFilter) -> Sequence[DeadLetter]:
    return [letter for _, _, letter in await _find(shards, query)]


async def _find(shards: Shards, query: DeadFilter) -> list[Found]:
    """Finds the places of the letters first, then reads only those that are asked for: letters are long."""
    names = {number: name for number, name in (await job_names(shards)).items() if query.job in (None, name)}
    places: list[Place] = []
    for number in names:
        for shard in shards.all:
            if query.ids is not None:
                places += [(0.0, id, shard, number) for id in query.ids]
            else:
                places += await _places(shards, shard, number, query)
    if query.ids is None:
        places = sorted(places, reverse=True)[: query.limit]
    found = [one for one in await _read(shards, names, places) if matches(query, one[2])]
    found.sort(key=lambda one: (one[2].at, one[2].task.id), reverse=True)
    return found[: query.limit]


async def _places(shards: Shards, shard: int, number: int, query: DeadFilter) -> list[Place]:
    """The newest of a shard, of one host and kind if the query says so; all of the moment of the last one."""
    low = "-inf" if query.since is None else repr(query.since)
    high = "+inf" if query.until is None else f"({query.until!r}"
    if query.before is not None and (query.until is None or query.before[0] < query.until):
        high = repr(query.before[0])
    found: list[Place] = []
    seen, met, more = 0, 0, True
    # A call that reached its limit may have left out some letters of the last moment.
    while more and (query.limit is None or len(found) < query.limit or met == _SCAN):
        ask = [number, low, high, seen, _SCAN, query.limit or _SCAN, query.host or "", query.kind or ""]
        [met, more, flat] = await shards.run("letters", shard, ask)
        pairs = zip(map(int, flat[::2]), map(float, flat[1::2]), strict=True)
        found += [
            (at, id, shard, number) for id, at in pairs if query.before is None or (at, id) < query.before
        ]
        seen += met
    return found


async def _read(shards: Shards, names: Mapping[int, str], places: Sequence[Place]) -> list[Found]:
    by_place: dict[tuple[int, int], list[str]] = {}
    for _, id, shard, number in places:
        by_place.setdefault((shard, number), []).append(str(id))
    found: list[Found] = []
    for (shard, number), ids in by_place.items():
        for at in range(0, len(ids), _PAGE):
            [_, letters] = await shards.look(shard, ("HMGET", f"dead:{number}", *ids[at : at + _PAGE]))
            for data in letters:
                if data is not None:
                    raw = decode_letter(data)
                    lane = await shards.lane(shard, raw.line % LANES_PER_JOB)
                    task = await shards.task(number, raw.item, names[number], raw.host, lane, raw.priority)
                    found.append((shard, number, raw.letter(task)))
    return found


async def replay(shards: Shards, query: DeadFilter) -> int:
    found = await _find(shards, query)
    numbers = {number for _, number, _ in found}
    for number in numbers:
        await revive(shards, number)
    replayed = await _do(shards, "replay", found)
    for number in numbers:  # another process may have marked it as finished meanwhile
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
