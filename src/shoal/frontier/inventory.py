"""What a store is made of: how much of each kind, in round numbers that are cheap to have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

KINDS = {
    "queues": "tasks that wait, and the lines of their hosts",
    "in hand": "tasks that workers have",
    "seen": "what dedupe remembers of URLs",
    "row keys": "keys of rows that were written",
    "dead letters": "tasks that were given up, with their snapshots",
    "jobs": "specs and counters",
    "pruned jobs": "what is left of them",
    "hosts": "their pace, and what policies remember of them",
    "history": "what happened over time, by job",
    "events": "the latest of the store",
    "result positions": "how long result files are",
    "notes": "small values that processes agree on",
    "workers": "their last signs of life",
    "call markers": "answers kept in case they got lost on the way",
    "on the way": "found tasks between shards",
    "unused": "room in the file that is used again",
    "other": "indexes, and what the store needs for itself",
}


class Stock(Struct, frozen=True):
    kind: str  # one of KINDS
    count: int | None  # how many; None: it is not counted
    size: int  # bytes, about


class Inventory(Struct, frozen=True):
    format: str  # such as "schema 6"
    stocks: Sequence[Stock]
    used: int  # bytes
    limit: int = 0  # bytes; 0: none
    free: int | None = None  # bytes of the disk; None: not known
    durability: Mapping[str, str] = {}
    estimated: bool = False  # not all was looked at


def inventory(
    format: str, counts: Mapping[str, int | None], sizes: Mapping[str, int], used: int, **rest: object
) -> Inventory:
    """Whatever is not accounted for is `other`."""
    known = {kind: sizes.get(kind, 0) for kind in KINDS if kind != "other"}
    other = max(0, used - sum(known.values()))
    stocks = [Stock(kind, counts.get(kind), size) for kind, size in (*known.items(), ("other", other))]
    shown = [stock for stock in stocks if stock.size or stock.count]
    return Inventory(format, shown, used, **rest)  # type: ignore[arg-type]
