"""Upgrades a store from one layout to the next.

A step is a function that brings one shard from layout N to N + 1, by scripts that use the part `upgrading`. During an
upgrade every other script fails, and one process at a time holds a shard. That process may be killed at any moment, and
the next one repeats the shard's last step: so a step must give the same result if it was done before, or in part.

A step that reads much of the store does so in many short scripts. Each of them renews the hold on the shard.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.errors import StoreVersionError
from shoal.events import event
from shoal.frontier.redis.faults import Taken
from shoal.frontier.redis.keys import HOME, LAYOUT

if TYPE_CHECKING:
    from shoal.frontier.redis.shards import Shards

UPGRADING = "upgrading"  # stands for the layout until all is done
HOLD_SECONDS = 15.0  # after which another process may take the shard of a silent upgrader
_LOOK_AGAIN = 0.2
_SHOWN = 3  # workers that are named


class Upgrader:
    """One process that upgrades. Runs scripts in its name."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.name = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"

    async def run(self, script: str, shard: int, *ask: object) -> Any:
        """Runs a script with our name, how long we hold the shard, and `ask`."""
        return await self.shards.run(script, shard, [self.name, int(HOLD_SECONDS * 1000), *ask])


Step = Callable[[Upgrader, int], Awaitable[None]]


async def _give_cursors_to_sources(upgrader: Upgrader, shard: int) -> None:
    if shard == HOME:
        await upgrader.run("cursors", shard)


async def _give_leases_deadlines(upgrader: Upgrader, shard: int) -> None:
    await upgrader.run("upgrade_deadlines", shard)


# By the layout that they start from, in this order. 3 had no counters for merged pages; missing ones count as 0. Since
# 5 the facts about a shard have another name, which `take` has already given them. 5 had no pages that wait
# for their next visit, and takes a task with a record for damaged.
STEPS: Mapping[int, Sequence[Step]] = {3: (), 4: (_give_cursors_to_sources, _give_leases_deadlines), 5: ()}
OLDEST = min(STEPS)


async def upgrade(shards: Shards, layout: str) -> None:
    """Upgrades all shards, or waits until another process has. Raises while workers of the old layout are alive."""
    upgrader = Upgrader(shards)
    while True:
        try:
            await _upgrade(upgrader, layout)
            return
        except Taken:  # this process was silent for too long
            continue


async def _upgrade(upgrader: Upgrader, layout: str) -> None:
    taken = await _take_all(upgrader, layout)
    for shard, found in taken.items():
        for before in range(found, LAYOUT):
            for step in STEPS[before]:
                await step(upgrader, shard)
            await upgrader.run("upgraded", shard, before + 1, False)
    for shard in taken:
        await upgrader.run("upgraded", shard, LAYOUT, True)
    if taken:
        event(
            "store_upgraded",
            store=str(upgrader.shards.link.address),
            before=min(taken.values()),
            layout=LAYOUT,
        )


async def _take_all(upgrader: Upgrader, layout: str) -> dict[int, int]:
    """Takes all shards on which something is left to do; returns their layouts.

    While another process has one, those before it are taken again and again: else our hold on them would be over when
    the other's is. All processes begin with the same shard, so whoever has that gets the others.
    """
    told = False
    while True:
        taken = {}
        for shard in upgrader.shards.all:
            word, *rest = [part.decode() for part in await upgrader.run("take", shard)]
            if word == "taken":
                taken[shard] = int(rest[0])
            elif word == "used":
                raise _in_use(upgrader.shards, layout, rest)
            elif word == "held":
                by = rest[0].rpartition(":")[0]
                break
        else:
            return taken
        if not told:
            told = True
            event("store_upgrading", store=str(upgrader.shards.link.address), by=by)
        await asyncio.sleep(_LOOK_AGAIN)


def _in_use(shards: Shards, layout: str, workers: Sequence[str]) -> StoreVersionError:
    more = f" and {len(workers) - _SHOWN} more" if len(workers) > _SHOWN else ""
    return StoreVersionError(
        f"the store at {shards.link.address} is in use by workers of an older version of Shoal"
        f" ({', '.join(workers[:_SHOWN])}{more}; layout {layout}, this one needs {LAYOUT}):"
        " stop them all, then start this again, which upgrades the store"
    )
