"""The home of a fleet's frontier: Valkey or Redis, one script a verb, hosts spread over shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from math import inf
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from shoal.clock import Clock
from shoal.errors import StoreError
from shoal.frontier.news import News
from shoal.frontier.protocol import Journal
from shoal.frontier.redis import adding, dead_letters, finding, hastening, leases, outbox
from shoal.frontier.redis import hosts as stored_hosts
from shoal.frontier.redis import jobs as stored
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.checks import room_of
from shoal.frontier.redis.claiming import Claimer
from shoal.frontier.redis.codec import as_text
from shoal.frontier.redis.durability import Replicas
from shoal.frontier.redis.following import following
from shoal.frontier.redis.inventory import take_stock
from shoal.frontier.redis.keys import HOME, wake_channel
from shoal.frontier.redis.link import OPEN_PATIENCE, Link
from shoal.frontier.redis.settling import Settler
from shoal.frontier.redis.shards import Shards
from shoal.frontier.values import (
    Added,
    Claim,
    Claimed,
    Cursor,
    HostRecord,
    Job,
    JobSpec,
    Note,
    Room,
    Settled,
)
from shoal.model import Settlement, Task

_LOOK_IN = b"in "  # + seconds: the store tells a process when to claim
_LEAVE = 2.0
_NOTES = 500  # that are looked at together
_LOOK_AROUND = 30.0  # seconds; the subscription may be down without notice


P = ParamSpec("P")
T = TypeVar("T")


def _verb(
    function: Callable[Concatenate[Shards, P], Awaitable[T]], *, wakes: bool = False
) -> Callable[Concatenate[RedisFrontier, P], Coroutine[Any, Any, T]]:
    """A verb that calls the function with the shards. `wakes`: there may be work after it."""

    async def verb(self: RedisFrontier, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = await function(self._shards, *args, **kwargs)
        if wakes:
            self.wake()
        return result

    return verb


class RedisFrontier:
    """`store` is an address, such as redis://host:6379/0. A store with an older layout is upgraded if `may_upgrade`."""

    def __init__(
        self,
        store: str | Address,
        clock: Clock | None = None,
        *,
        may_upgrade: bool = True,
        patient: bool = False,
    ) -> None:
        self.address = Address.parse(store) if isinstance(store, str) else store
        self._link = Link(
            self.address,
            open_patience=inf if patient else OPEN_PATIENCE,
            # A crawl waits while the store is full; a person who asks gets an error at once.
            full_patience=inf if may_upgrade else 0.0,
            warns=may_upgrade,
        )
        self._shards = Shards(self._link, self.address.prefix, self.address.shards, clock)
        self._may_upgrade = may_upgrade
        self._shards.mend = self._mend
        self._claimer = Claimer(self._shards)
        self._settler = Settler(self._shards)
        self._replicas = Replicas(self._link, self._shards.tags, self.address.wait)
        self._changed = asyncio.Event()
        self.news = News()
        self._woken = False  # by this process
        self._called = False  # something may have changed
        self._look_at = inf  # when this process is to claim, as the store has told it
        self._unheeded = False  # it was told to claim, and did not
        self._has_claimed = False
        self._alive: set[str] = set()  # workers that sent heartbeats through this frontier

    def __repr__(self) -> str:
        return f"<RedisFrontier {self.address}>"

    @property
    def epoch(self) -> str:
        return self._shards.epoch

    async def open(self) -> None:
        await self._link.open()
        try:
            await self._shards.open(may_upgrade=self._may_upgrade)
            await stored.clear_dropped(self._shards)
            prefix = self.address.prefix
            channels = wake_channel(prefix), wake_channel(prefix, self._shards.name)
            await self._link.subscribe(self._hear, *channels)
        except BaseException:
            await self._link.close()
            raise

    async def _mend(self) -> None:
        """Repairs the store after a shard may have gone back, before anything else is asked of it.

        What one shard stores is consistent: a page that is done there has its links and rows there. But what it stores
        about another shard may be ahead of that one. `begin.lua` has already given all shards the home shard's jobs,
        told the home shard about every granted page of a budget, and set the sources of start URLs back."""
        await self._shards.tell_words()
        if not self._shards.several:
            return
        for shard, name, number in self._shards.take_orphans():
            await stored.clear_orphan(self._shards, shard, number, name)
        await outbox.bring_again(self._shards)
        await stored.revive_unfinished(self._shards)

    async def close(self) -> None:
        try:
            await self._settler.close()
            await self._leave()
        finally:
            await self._replicas.close()
            await self._link.close()

    async def _leave(self) -> None:
        """Removes this process's workers, so that nobody waits until they count as gone. Gives up soon if the store is
        away."""
        try:
            async with asyncio.timeout(_LEAVE):
                if self._has_claimed:
                    await leases.rest(self._shards)
                if self._alive:
                    await leases.leave(self._shards, self._alive)
                await self._shards.hang_up()
        except (TimeoutError, StoreError):
            pass

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- jobs

    async def open_job(self, spec: JobSpec, source: str | None = None, *, again: bool = False) -> Job:
        self._claimer.forget_priorities()
        return await stored.open_job(self._shards, spec, source, again=again)

    job = _verb(stored.find_job)
    jobs = _verb(stored.all_jobs)
    set_state = _verb(stored.set_state)
    finish = _verb(stored.finish)
    drop_job = _verb(stored.drop_job)
    prune_job = _verb(stored.prune_job)
    past_job = _verb(stored.past_job)
    past_jobs = _verb(stored.past_jobs)
    lanes = _verb(stored.lanes)

    async def durable(self, seconds: float) -> bool | None:
        return await self._link.durable(self._shards.tags, seconds)

    # -- the path of a URL

    async def add(
        self, job: str, tasks: Sequence[Task], cursor: Cursor | None = None, *, epoch: str | None = None
    ) -> Added:
        added = await adding.add(self._shards, job, tasks, cursor, epoch)
        await self._replicas.reached()
        self.wake()
        return added

    async def claim(self, claim: Claim) -> Claimed:
        self._has_claimed = True
        self._forget_calls()  # before the claim: what the store says during it may be news
        return await self._claimer.claim(claim)

    reserve = _verb(stored_hosts.reserve)
    hasten = _verb(hastening.hasten)

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None = None, *, epoch: str | None = None
    ) -> Settled:
        settled = await self._settler.settle(batch, journal, epoch)
        await self._replicas.reached()
        return settled

    async def extend(
        self,
        worker: str,
        lease_seconds: float,
        status: bytes = b"",
        tokens: Collection[int] | None = None,
    ) -> int:
        self._alive.add(worker)
        return await leases.extend(self._shards, worker, lease_seconds, status, tokens)

    workers = _verb(leases.workers)
    held = _verb(leases.held)
    flights = _verb(leases.flights)

    def loss_file(self, worker: str) -> str:
        return ""

    release = _verb(leases.release, wakes=True)
    reap = _verb(leases.reap)

    async def wait(self, seconds: float) -> bool:
        if self._unheeded:
            # It was told to claim and did not, because it has no room. Another process may.
            self._forget_calls()
            await leases.rest(self._shards)
        until = time.monotonic() + min(seconds, _LOOK_AROUND)
        while not (self._woken or self._called):
            left = min(until, self._look_at) - time.monotonic()
            if left <= 0:
                break
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                pass
        now = time.monotonic()
        self._unheeded = now >= self._look_at
        look = self._called or now >= min(until, self._look_at)
        self._woken = self._called = False
        return look

    def _hear(self, message: bytes) -> None:
        """A message: when this process is to claim; or that there is, or may be, news of jobs."""
        if message.startswith(_LOOK_IN):
            self._look_at = min(self._look_at, time.monotonic() + float(message.removeprefix(_LOOK_IN)))
        else:
            self._called = True
            self.news.tell()
        self._changed.set()

    def _forget_calls(self) -> None:
        self._called = self._unheeded = False
        self._look_at = inf

    def wake(self) -> None:
        self._woken = True
        self._changed.set()

    # -- hosts

    host = _verb(stored_hosts.find_host)

    def hosts(self, job: str | None = None) -> AsyncIterator[HostRecord]:
        return stored_hosts.all_hosts(self._shards, job)

    host_page = _verb(stored_hosts.host_page)
    update_host = _verb(stored_hosts.update_host, wakes=True)
    queues = _verb(stored_hosts.longest_queues)
    host_queues = _verb(stored_hosts.host_queues)

    # -- looking for one URL

    now = _verb(Shards.now)
    find = _verb(finding.find)
    following = _verb(following)

    # -- room

    async def room(self) -> Room:
        return max(map(room_of, await self._link.infos("memory")), key=lambda room: (room.share, room.used))

    take_stock = _verb(take_stock)

    async def compact(self) -> int:
        return 0  # the server does it by itself

    # -- notes

    async def note(self, key: str) -> Note | None:
        [_, data] = await self._shards.look(HOME, ("HGET", "notes", key))
        return None if data is None else Note(data[6:], int.from_bytes(data[:6], "little"))

    async def set_note(self, key: str, value: bytes, version: int) -> bool:
        return bool(int(await self._shards.run("set_note", HOME, [key, as_text(value), version])))

    async def drop_note(self, key: str) -> None:
        await self._shards.run("drop_note", HOME, [key])

    async def drop_notes(self, prefix: str) -> int:
        first, cursor, dropped = prefix.encode(), b"0", 0
        while True:
            [_, [cursor, flat]] = await self._shards.look(HOME, ("HSCAN", "notes", cursor, "COUNT", _NOTES))
            keys = [key.decode() for key in flat[::2] if key.startswith(first)]
            if keys:
                dropped += int(await self._shards.run("drop_note", HOME, keys))
            if cursor == b"0":
                return dropped

    # -- journals

    journal_length = _verb(stored.journal_length)
    journals = _verb(stored.journals)

    # -- dead letters

    dead = _verb(dead_letters.dead)
    replay = _verb(dead_letters.replay, wakes=True)
    drop = _verb(dead_letters.drop)
