"""Writes the rows of settlements to the journal, and says under which condition they may be committed.

A row with a key is written once per job. With one shard, the settlement adds the key to a set. With several shards, the
key is reserved for its task before the row is written, in the shard that the key belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from shoal.frontier.redis.filelock import Turn
from shoal.frontier.redis.shards import Shards
from shoal.model import Row, Settlement


class Part(Struct):
    """The settlements of one job in one shard."""

    number: int  # of the job
    shard: int
    places: list[int] = field(default_factory=list)  # in the batch that was handed in
    batch: list[Settlement] = field(default_factory=list)
    plain: list[int] = field(default_factory=list)  # for each settlement: rows that are counted in any case
    keys: list[list[str]] = field(default_factory=list)  # for each settlement: keys that it adds to the set


async def count_only(shards: Shards, part: Part) -> None:
    """Counts the rows, which are not written here."""
    met: set[int] = set()
    may = await _reserve(shards, part, range(len(part.batch)))
    part.plain, part.keys = [], []
    for settlement in part.batch:
        fresh = _fresh(settlement, met, may)
        keys = [str(row.key) for row in fresh if row.key is not None and not shards.several]
        part.plain.append(len(fresh) - len(keys))
        part.keys.append(keys)


async def write(shards: Shards, parts: Sequence[Part], turn: Turn) -> list[list[object] | bool] | None:
    """Appends the rows; returns for each part the condition under which it may be settled, or None if the turn is over.
    What an earlier turn of ours has left is cut off even if there are no rows."""
    number = parts[0].number
    prepared = await _prepare(shards, parts, turn)
    committed = max(0, *(int(position) for _, _, position in prepared.values()))
    rows = [await _writable(shards, part, *prepared[part.shard][:2]) for part in parts]
    positions: Sequence[int] = [committed] * len(parts)
    if any(rows) or not turn.clean:
        turn.clean = False
        written = await turn.append(committed, rows)
        if written is None:
            return None
        positions = written
    conditions: list[list[object] | bool] = []
    for part, added, position in zip(parts, rows, positions, strict=True):
        held, _, known = prepared[part.shard]
        condition = [number, turn.journal.key, int(known), position, held, turn.name]
        conditions.append(condition if added else False)
    return conditions


async def cut(shards: Shards, part: Part, turn: Turn) -> None:
    """Removes rows that were written and will not be committed now."""
    await write(shards, [Part(part.number, part.shard)], turn)


async def _prepare(shards: Shards, parts: Sequence[Part], turn: Turn) -> dict[int, Any]:
    """For every shard: which leases are held (once), which keys are new, and the committed position there."""
    asks: dict[int, list[object]] = {
        shard: [[], [], parts[0].number, turn.journal.key, turn.name] for shard in shards.all
    }
    for part in parts:
        keys = (
            []
            if shards.several
            else [[part.number, str(row.key)] for s in part.batch for row in s.rows if row.key is not None]
        )
        asks[part.shard][:2] = [[s.lease.token for s in part.batch], keys]
    answers = await shards.run_many("prepare", asks)
    prepared = dict(zip(asks, answers, strict=True))
    for part in parts:
        held, fresh, position = prepared[part.shard]
        prepared[part.shard] = _once(part, held.decode()), fresh.decode(), position
    return prepared


def _once(part: Part, held: str) -> str:
    """Which leases are held, each counted once, however often it is in the batch."""
    met: set[int] = set()
    flags = []
    for settlement, flag in zip(part.batch, held, strict=True):
        flags.append(flag if settlement.lease.token not in met else "0")
        met.add(settlement.lease.token)
    return "".join(flags)


async def _writable(shards: Shards, part: Part, held: str, fresh: str) -> list[Row]:
    """The rows of leases that are held, without those whose key was written before. Notes them in the part."""
    valid = [place for place, flag in enumerate(held) if flag == "1"]
    may = await _reserve(shards, part, valid)
    if not shards.several:
        keyed = [row.key for s in part.batch for row in s.rows if row.key is not None]
        may = {key for key, flag in zip(keyed, fresh, strict=True) if flag == "1"}
    met: set[int] = set()
    rows: list[Row] = []
    part.plain, part.keys = [], []
    for place, settlement in enumerate(part.batch):
        chosen = _fresh(settlement, met, may) if held[place] == "1" else []
        keys = [str(row.key) for row in chosen if row.key is not None and not shards.several]
        part.plain.append(len(chosen) - len(keys))
        part.keys.append(keys)
        rows += chosen
        if held[place] == "1":
            rows += settlement.archived
    return rows


def _fresh(settlement: Settlement, met: set[int], may: set[int] | None) -> list[Row]:
    rows = []
    for row in settlement.rows:
        if row.key is not None:
            if row.key in met or (may is not None and row.key not in may):
                continue
            met.add(row.key)
        rows.append(row)
    return rows


async def _reserve(shards: Shards, part: Part, places: Sequence[int]) -> set[int] | None:
    """The keys that these settlements may write; None: the settlement decides."""
    wanted: dict[int, int] = {}
    for place in places:
        settlement = part.batch[place]
        for row in settlement.rows:
            if row.key is not None:
                wanted.setdefault(row.key, settlement.lease.task.id)
    if not shards.several or not wanted:
        return None
    asks: dict[int, tuple[int, list[Any]]] = {}
    for key, id in wanted.items():
        asks.setdefault(key % shards.count, (part.number, []))[1].extend((str(key), id))
    answers = await shards.run_many("reserve", asks)
    return {
        int(key)
        for (_, pairs), flags in zip(asks.values(), answers, strict=True)
        for key, flag in zip(pairs[::2], flags.decode(), strict=True)
        if flag == "1"
    }
