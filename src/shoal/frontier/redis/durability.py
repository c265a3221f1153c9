"""Whether written data is on the server's disk, and on the replicas that may take its place.

With `appendfsync everysec`, the usual setting, the server answers before the data is on disk: a power cut loses the
last second or two. WAITAOF is the command that waits for the disk. But some servers (Valkey 9.1) answer it at once if
the last sync is less than a second old, whatever was written since. So the sync itself is watched too: once a second
the server hands unsynced data to a thread, unless a sync is still under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from redis import exceptions as said
from redis.asyncio import Redis

from shoal.events import event
from shoal.frontier.redis.faults import FAULTS
from shoal.frontier.redis.keys import NAMES

if TYPE_CHECKING:
    from shoal.frontier.redis.link import Link

_QUIET = 1.3  # seconds without a sync under way: time enough for one to begin and end
_LOOK_EVERY = 0.1
_PATIENCE = 1.0  # seconds to wait for replicas; then work goes on
_TELL_LATE = 60.0


async def in_file(client: Redis, tag: str, seconds: float) -> bool | None:
    """Waits up to `seconds` until everything written before is in the append-only file on disk, and on every connected
    replica. None: there is no such file, or it is not known when it is synced. `client` must have one connection, and
    is closed."""
    async with aclosing(client):  # not `async with client`, which leaves it open if it cannot connect
        policy = await _policy(client)
        if policy == "no":
            return None
        try:
            async with asyncio.timeout(seconds):
                # The server waits for the last write of the connection that asks. Writes reach the file and the
                # replicas in one order, so it waits for all earlier writes too.
                await client.execute_command("SET", f"{tag}:{NAMES['SYNCED']}", 1)  # type: ignore[no-untyped-call]
                replicas = (await client.info("replication")).get("connected_slaves", 0)
                if replicas and await client.wait(replicas, int(seconds * 1000)) < replicas:
                    return False
                return policy == "always" or await _wait(client, seconds)
        except TimeoutError:
            return False


async def _policy(client: Redis) -> str:
    """ "no": there is no such file, or the operating system syncs it. "everysec" if the user may not ask."""
    if not (await _persistence(client)).get("aof_enabled"):
        return "no"
    try:
        found = await client.config_get("appendfsync")
    except said.NoPermissionError:
        return "everysec"
    return str(found.get("appendfsync", "everysec"))


async def _wait(client: Redis, seconds: float) -> bool:
    try:
        here, _ = await client.execute_command("WAITAOF", 1, 0, int(seconds * 1000))  # type: ignore[no-untyped-call]
        if not here:
            return False
    except said.ResponseError as error:
        if "unknown command" not in str(error).lower():
            raise
    quiet = 0.0
    while quiet < _QUIET:
        await asyncio.sleep(_LOOK_EVERY)
        under_way = (await _persistence(client)).get("aof_pending_bio_fsync")
        quiet = 0.0 if under_way else quiet + _LOOK_EVERY
    return True


async def _persistence(client: Redis) -> dict[str, Any]:
    found: dict[str, Any] = await client.info("persistence")
    return found


class Replicas:
    """Waits until written data has reached so many replicas of every server, if the address asks for it (`?wait=1`).

    A replica that takes its server's place then knows what the workers know, and fewer pages are fetched again. There
    is no such wait for the disk: with `everysec` Valkey 9.1 answers WAITAOF in 0.1 ms, long before it syncs, and with
    `always` every answer is on disk.
    """

    def __init__(self, link: Link, tags: Sequence[str], wanted: int) -> None:
        self._link = link
        self._tags = tags
        self._wanted = wanted
        self._servers: list[tuple[Redis, str]] = []  # a connection of our own to each, and a tag that it has
        self._round = asyncio.Lock()
        self._asked = 0
        self._covered = 0
        self._late = 0  # rounds that ended without an answer, since the last log line
        self._told = -_TELL_LATE

    async def close(self) -> None:
        servers, self._servers = self._servers, []
        for client, _ in servers:
            with suppress(*FAULTS):
                await client.aclose()

    async def reached(self) -> None:
        """Returns when everything written before is there, or after a second; what is lost then is fetched again. One
        round serves all callers that asked before it began."""
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
