"""What the store holds, by kind. Single keys are measured; of the many others a bounded number is, and the rest is
estimated from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shoal.frontier.redis import jobs
from shoal.frontier.redis.checks import Info
from shoal.frontier.redis.keys import HOME, LAYOUT
from shoal.frontier.redis.shards import Shards, as_str
from shoal.frontier.values import Inventory, inventory

_KEYS = 20_000  # to measure, in all shards
_PAGE = 200  # keys in one script, which takes a few milliseconds
_OF = {
    "queues": "q due line places delayed later crowds crowd",
    "in hand": "leases held holders extended",
    "seen": "seen bloom merged",
    "row keys": "rows reserved",
    "dead letters": "dead deadat",
    "jobs": "jobs job jobhosts words",
    "pruned jobs": "past pastat",
    "hosts": "hosts states sites domains",
    "result positions": "journals",
    "notes": "notes",
    "workers": "alive status sleepers sleeps watch",
    "call markers": "call",
    "on the way": "out outs",
}
_KIND = {name: kind for kind, names in _OF.items() for name in names.split()}


async def take_stock(shards: Shards) -> Inventory:
    infos = await shards.link.infos()
    keys: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    whole = True
    for shard in shards.all:
        whole &= await _weigh(shards, shard, keys, sizes)
    found = await jobs.all_jobs(shards, None)
    c = [job.counters for job in found]
    names = [f"history:{job.spec.name}" for job in found]
    looks = [("HSTRLEN", "notes", name) for name in names]
    _, events, notes, past, workers, *histories = await shards.look(
        HOME, ("HSTRLEN", "notes", "events"), ("HLEN", "notes"), ("HLEN", "past"), ("ZCARD", "alive"), *looks
    )
    hosts = sum(answer[1] for answer in await shards.look_all(("HLEN", "hosts")))
    sizes["events"], sizes["history"] = events, sum(histories)
    sizes["notes"] = max(0, sizes["notes"] - events - sizes["history"])
    kept = sum(bool(length) for length in histories)
    counts: dict[str, int | None] = {
        "queues": sum(one.pending + one.delayed for one in c),
        "in hand": sum(one.leased for one in c),
        "seen": sum(one.admitted for one in c),
        "dead letters": sum(one.dead for one in c),
        "jobs": len(found),
        "pruned jobs": past,
        "hosts": hosts,
        "history": kept,
        "notes": max(0, notes - kept - bool(events)),
        "workers": workers,
        "call markers": keys["call"],
    }
    used = sum(int(info["used_memory"]) for info in infos)
    return inventory(
        f"layout {LAYOUT}",
        counts,
        sizes,
        used,
        limit=sum(int(info.get("maxmemory", 0)) for info in infos),
        durability=await _durability(shards, infos),
        estimated=not whole,
    )


async def _weigh(shards: Shards, shard: int, keys: Counter[str], sizes: Counter[str]) -> bool:
    """Adds up what the shard has; False: not every key was measured."""
    _add(await shards.run("take_stock", shard, [False, 0]), keys, sizes)
    seen_keys: Counter[str] = Counter()
    seen_sizes: Counter[str] = Counter()
    cursor, looked, total = "0", 0, 0
    while looked < _KEYS // shards.count:
        answer = await shards.run("take_stock", shard, [cursor, _PAGE])
        cursor, looked, total = as_str(answer[0]), looked + int(answer[1]), int(answer[2])
        _add(answer, seen_keys, seen_sizes)
        if cursor == "0":
            break
    factor = max(1.0, total / looked) if looked and cursor != "0" else 1.0
    keys.update({name: round(count * factor) for name, count in seen_keys.items()})
    sizes.update({kind: round(size * factor) for kind, size in seen_sizes.items()})
    return cursor == "0"


def _add(answer: Sequence[Any], keys: Counter[str], sizes: Counter[str]) -> None:
    for name, count, size in zip(answer[3::3], answer[4::3], answer[5::3], strict=True):
        keys[as_str(name)] += int(count)
        sizes[_KIND.get(as_str(name), "other")] += int(size)


async def _durability(shards: Shards, infos: Sequence[Info]) -> dict[str, str]:
    kept = all(info.get("aof_enabled") for info in infos)
    told = {
        "append-only file": "yes" if kept else "no",
        "maxmemory-policy": str(infos[0].get("maxmemory_policy", "?")),
    }
    fsync = await shards.link.config("appendfsync")
    return {**told, "appendfsync": fsync} if fsync and kept else told
