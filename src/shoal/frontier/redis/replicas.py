"""Waits until what was written has reached so many replicas of every server, if the address asks for it (`?wait=1`).

A replica that takes its server's place then knows what workers believe, so that fewer pages are fetched again. There is
no such wait for the disk: with `appendfsync everysec` Valkey 9.1 answers WAITAOF in 0.1 ms, long before it syncs, and
with `always` every answer is on disk by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from redis.asyncio import Redis

from shoal.events import event
from shoal.frontier.redis.faults import FAULTS
from shoal.frontier.redis.keys import NAMES
from shoal.frontier.redis.link import Link

_PATIENCE = 1.0  # seconds; then work goes on
_TELL_LATE = 60.0


class Replicas:
    def __init__(self, link: Link, tags: Sequence[str], wanted: int) -> None:
        self._link = link
        self._tags = tags
        self._wanted = wanted
        self._servers: list[tuple[Redis, str]] = []  # a connection of our own to each, and a tag that it has
        self._round = asyncio.Lock()
        self._asked = 0
        self._covered = 0
        self._late = 0  # rounds that ended without an answer, and nobody was told of yet
        self._told = -_TELL_LATE

    async def close(self) -> None:
        servers, self._servers = self._servers, []
        for client, _ in servers:
            with suppress(*FAULTS):
                await client.aclose()

    async def reached(self) -> None:
        """Returns when all that was written before is there, or after a second: what is lost then is fetched again, as
        it would be without. One round is for all who asked before it began."""
        if not self._wanted:
            return
        self._asked += 1
        asked = self._asked
        async with self._round:
            if self._covered >= asked:
                return
            covers = self._asked
            if not await self._wait():
                self._tell_late()
            self._covered = covers

    async def _wait(self) -> bool:
        try:
            async with asyncio.timeout(2 * _PATIENCE):
                self._servers = self._servers or list(self._link.own_clients(self._tags))
                answers = await asyncio.gather(*(self._ask(*server) for server in self._servers))
        except (*FAULTS, TimeoutError):  # also a cluster of which a part has no server at the moment
            answers = [None]
        if None in answers:
            await self.close()  # another server may have taken the place of one of them
        return all(answers)

    async def _ask(self, client: Redis, tag: str) -> bool | None:
        """None: it does not answer."""
        # The server waits for the last write of the connection that asks; it stands for all that were made before it.
        try:
            await client.execute_command("SET", f"{tag}:{NAMES['SYNCED']}", 1)  # type: ignore[no-untyped-call]
            return bool(await client.wait(self._wanted, int(_PATIENCE * 1000)) >= self._wanted)
        except FAULTS:
            return None

    def _tell_late(self) -> None:
        self._late += 1
        now = asyncio.get_running_loop().time()
        if now - self._told >= _TELL_LATE:
            event("replicas_late", store=str(self._link.address), wanted=self._wanted, times=self._late)
            self._told, self._late = now, 0
