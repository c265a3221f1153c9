"""extend, release, reap, and which workers are alive."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Collection, Mapping, Sequence

from shoal.frontier.redis import outbox
from shoal.frontier.redis.codec import as_text, decode_lease
from shoal.frontier.redis.hosts import job_names
from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.shards import LANES_PER_JOB, Shards
from shoal.frontier.values import FLIGHTS_SEEN, Flight, WorkerRecord
from shoal.model import Lease

_PAGE = 500


async def extend(
    shards: Shards, worker: str, seconds: float, status: bytes, tokens: Collection[int] | None
) -> int:
    asks: dict[int, list[object]] = {
        shard: [
            worker,
            seconds,
            as_text(status) if shard == HOME else False,
            [token for token in tokens if token % shards.count == shard] if tokens is not None else False,
        ]
        for shard in shards.all
    }
    return sum(await shards.run_many("extend", asks))


async def workers(shards: Shards) -> Sequence[WorkerRecord]:
    now, flat, records = await shards.look(
        HOME, ("ZRANGE", "alive", 0, -1, "WITHSCORES"), ("HGETALL", "status")
    )
    said = dict(zip(records[::2], records[1::2], strict=True))
    alive = zip(flat[::2], map(float, flat[1::2]), strict=True)
    return [
        WorkerRecord(name.decode(), struct.unpack_from("<d", said[name])[0], until, said[name][8:])
        for name, until in alive
        if until > float(now)
    ]


async def held(shards: Shards, worker: str) -> Sequence[Lease]:
    names = await job_names(shards)
    found: list[Lease] = []
    for shard in shards.all:
        [_, tokens] = await shards.look(shard, ("ZRANGE", f"held:{worker}", 0, -1))
        for start in range(0, len(tokens), _PAGE):
            page = tokens[start : start + _PAGE]
            [_, records] = await shards.look(shard, ("HMGET", "leases", *page))
            for token, data in zip(page, records, strict=True):
                if data is not None and (lease := await _lease(shards, shard, names, int(token), data)):
                    found.append(lease)
    return found


async def flights(shards: Shards, limit: int, job: str | None = None) -> Sequence[Flight]:
    """Leases are in a hash without an order: reads some of each shard, and returns those that were claimed first."""
    names = await job_names(shards)
    seen = await asyncio.gather(*(_seen(shards, shard) for shard in shards.all))
    raw = [
        (one.since, token, shard, data, one.worker)
        for shard, found in enumerate(seen)
        for token, data in found
        if (one := decode_lease(data)) and job in (None, names.get(one.line // LANES_PER_JOB))
    ]
    told: list[Flight] = []
    for since, token, shard, data, worker in sorted(raw)[:limit]:
        if (lease := await _lease(shards, shard, names, token, data)) is not None:
            told.append(Flight(lease, worker, since))
    return told


async def _seen(shards: Shards, shard: int) -> list[tuple[int, bytes]]:
    found: dict[int, bytes] = {}
    cursor: bytes | int = 0
    while len(found) < FLIGHTS_SEEN:
        [_, (cursor, flat)] = await shards.look(shard, ("HSCAN", "leases", cursor, "COUNT", _PAGE))
        found |= {int(flat[i]): flat[i + 1] for i in range(0, len(flat), 2)}
        if int(cursor) == 0:
            break
    return sorted(found.items())[:FLIGHTS_SEEN]


async def _lease(
    shards: Shards, shard: int, names: Mapping[int, str], token: int, data: bytes
) -> Lease | None:
    raw = decode_lease(data)
    number = raw.line // LANES_PER_JOB
    job = names.get(number)
    if job is None:  # it was dropped
        return None
    shards.remember(job, number)
    lane = await shards.lane(shard, raw.line % LANES_PER_JOB)
    task = await shards.task(number, raw.item, job, raw.host, lane, raw.priority, claimed=1)
    return Lease(token, task, raw.deadline, host_version=0)


async def rest(shards: Shards) -> None:
    """This process wants no tasks for now."""
    await shards.run_all("rest", [])


async def leave(shards: Shards, names: Collection[str]) -> None:
    await shards.run("leave", HOME, list(names))


async def release(shards: Shards, leases: Sequence[Lease]) -> int:
    asks: dict[int, list[int]] = {}
    for lease in sorted(leases, key=lambda lease: lease.task.id):
        asks.setdefault(lease.token % shards.count, []).append(lease.token)
    return sum(int(answer) for answer in await shards.run_many("release", asks)) if asks else 0


async def reap(shards: Shards) -> int:
    """In portions, so that the server is never blocked for long."""
    count = 0
    left = list(shards.all)
    while left:
        answers = await shards.run_many("reap", {shard: [] for shard in left})
        for shard, (taken, outs) in zip(list(left), answers, strict=True):
            count += taken
            if outs:
                await outbox.deliver(shards, shard, [int(target) for target in outs.split()])
            if not taken:
                left.remove(shard)
    return count
