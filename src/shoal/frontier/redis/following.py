"""following: which pages of a standing job wait for their next visit, and which are overdue.

Delayed tasks are in a sorted set for each host. How long these are is asked first, so that a sample is a fair one.
Everything is read in portions: the server is never blocked for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from math import inf

from msgspec import Struct

from shoal.frontier.following import FOLLOWED_SEEN, Followed, Following, overdue, stride
from shoal.frontier.redis.codec import decode_delayed
from shoal.frontier.redis.hosts import read_lists
from shoal.frontier.redis.leases import flights
from shoal.frontier.redis.shards import LANES_PER_JOB, Shards
from shoal.model import Task

_RECORD = b"\xa6record"  # how the field's name is written: only tasks that have it are decoded
_PAGE = 500
_WHOLE_PAGES = 20  # that are read at the same moment
_FIRST = 3  # entries of a host, among which the first one that waits for a visit should be
_HOSTS = 20_000  # of a shard, that are looked at


class _Host(Struct, frozen=True):
    name: str
    delayed: int  # how many tasks
    lists: Sequence[tuple[int, int, int]]  # of pending tasks of the job: line, priority, length
    first: float  # when its first page is due that waits for a visit; inf: not known


async def following(shards: Shards, job: str, limit: int = FOLLOWED_SEEN) -> Following:
    looks = [_Look(shards, shard, job, await shards.current_number(job)) for shard in shards.all]
    await asyncio.gather(*(look.find_hosts() for look in looks))
    delayed = sum(host.delayed for look in looks for host in look.hosts)
    pending = sum(1 for look in looks for host in look.hosts for _ in host.lists)
    every, each = stride(delayed, limit), max(10, limit // max(1, pending))
    pages = [page for look in looks for page in [*await look.delayed(every), *await look.pending(each)]]
    in_hand = await flights(shards, limit, job)
    pages += [page for one in in_hand if (page := overdue(one.lease.task))]
    first = min((host.first for look in looks for host in look.hosts), default=inf)
    dues = [page.due for page in pages if page.waits]
    next_due = min([first, *dues])
    whole = every == 1 and len(in_hand) < limit and all(look.whole for look in looks)
    return Following(pages, None if next_due == inf else next_due, whole)


class _Look:
    """At one shard."""

    def __init__(self, shards: Shards, shard: int, job: str, number: int) -> None:
        self._shards, self._shard, self._job, self._number = shards, shard, job, number
        self.hosts: list[_Host] = []
        self.whole = True

    async def find_hosts(self) -> None:
        cursor: object = "0"
        while cursor not in (b"0", None) and len(self.hosts) < _HOSTS:
            scan = ("HSCAN", f"jobhosts:{self._number}", cursor, "COUNT", _PAGE)
            [_, [cursor, flat]] = await self._shards.look(self._shard, scan)
            if names := flat[::2]:
                self.hosts += await self._some_hosts(names)
        self.whole = self.whole and cursor in (b"0", None)

    async def _some_hosts(self, names: Sequence[bytes]) -> list[_Host]:
        keys = [f"later:{name.decode()}" for name in names]
        looks = [
            look for key in keys for look in (("ZCARD", key), ("ZRANGE", key, 0, _FIRST - 1, "WITHSCORES"))
        ]
        [_, records, *answers] = await self._shards.look(self._shard, ("HMGET", "hosts", *names), *looks)
        found = []
        for name, record, card, flat in zip(names, records, answers[::2], answers[1::2], strict=True):
            lists = [one for one in read_lists(record) if self._is_ours(one[0])] if record else []
            pairs = zip(flat[::2], flat[1::2], strict=True)
            firsts = [float(due) for entry, due in pairs if self._waits(entry)]
            if card or lists:
                found.append(_Host(name.decode(), int(card), lists, min(firsts, default=inf)))
        return found

    def _waits(self, entry: bytes) -> bool:
        one = decode_delayed(entry)
        return one.revisit and self._is_ours(one.line)

    def _is_ours(self, line: int) -> bool:
        return line // LANES_PER_JOB == self._number

    async def delayed(self, every: int) -> list[Followed]:
        """Every so manieth delayed page of this shard."""
        found: list[Followed] = []
        looks = list(self._ranges(every))
        portion = _PAGE if every > 1 else _WHOLE_PAGES
        for start in range(0, len(looks), portion):
            page = looks[start : start + portion]
            asked = [("ZRANGE", f"later:{name}", first, last, "WITHSCORES") for name, first, last in page]
            [_, *answers] = await self._shards.look(self._shard, *asked)
            for (name, *_), flat in zip(page, answers, strict=True):
                for entry, due in zip(flat[::2], flat[1::2], strict=True):
                    if one := await self._delayed_page(name, entry, float(due)):
                        found.append(one)
        return found

    def _ranges(self, every: int) -> Iterator[tuple[str, int, int]]:
        """The places in the sorted sets: all of them in pages, or single ones that are equally far apart."""
        passed = 0
        for host in self.hosts:
            length = _PAGE if every == 1 else 1
            for first in range(-passed % every, host.delayed, length * every):
                yield host.name, first, first + length - 1
            passed += host.delayed

    async def _delayed_page(self, host: str, entry: bytes, due: float) -> Followed | None:
        one = decode_delayed(entry)
        if not self._is_ours(one.line) or _RECORD not in entry:
            return None
        task = await self._task(host, one.line, one.priority, one.item)
        return Followed(task, due, True) if one.revisit else overdue(task)

    async def pending(self, each: int) -> list[Followed]:
        """Of the first tasks of each list. Pages that are visited again were admitted long ago, and come first."""
        found: list[Followed] = []
        async for host, line, priority, item in self._items(each):
            if _RECORD in item and (page := overdue(await self._task(host, line, priority, item))):
                found.append(page)
        return found

    async def _items(self, each: int) -> AsyncIterator[tuple[str, int, int, bytes]]:
        lists = [(host.name, *one) for host in self.hosts for one in host.lists]
        self.whole = self.whole and all(length <= each for *_, length in lists)
        portion = max(1, _PAGE // each)
        for start in range(0, len(lists), portion):
            page = lists[start : start + portion]
            looks = [("LRANGE", f"q:{line}:{rank}:{host}", 0, each - 1) for host, line, rank, _ in page]
            [_, *answers] = await self._shards.look(self._shard, *looks)
            for (host, line, priority, _), items in zip(page, answers, strict=True):
                for item in items:
                    yield host, line, priority, item

    async def _task(self, host: str, line: int, priority: int, item: bytes) -> Task:
        lane = await self._shards.lane(self._shard, line % LANES_PER_JOB)
        return await self._shards.task(self._number, item, self._job, host, lane, priority)
