"""find: where the task of one URL is. Reads page by page, so that the server is never blocked for long."""

from __future__ import annotations

from collections.abc import AsyncIterator

from shoal.frontier.redis.codec import RawLease, decode_delayed, decode_lease
from shoal.frontier.redis.dead_letters import dead
from shoal.frontier.redis.hosts import read_lists
from shoal.frontier.redis.shards import LANES_PER_JOB, Shards
from shoal.frontier.values import SCAN, DeadFilter, Whereabouts, concerns
from shoal.model import Task

_PAGE = 1000


async def find(shards: Shards, job: str, task: Task, scan: int = SCAN) -> Whereabouts:
    number = await shards.number(job)
    place = _Place(shards, job, number, task, scan)
    return (
        await place.leased()
        or await place.pending()
        or await place.delayed()
        or await place.dead()
        or await place.admitted()
    )


class _Place:
    def __init__(self, shards: Shards, job: str, number: int, task: Task, scan: int) -> None:
        self._shards, self._job, self._number = shards, job, number
        self._task, self._scan = task, scan
        self._shard = shards.of_host(task.host)
        self._passed = 0  # the length of the longest queue

    async def leased(self) -> Whereabouts | None:
        """Searches every shard: a redirect may have led to another host."""
        for shard in self._shards.all:
            async for token, data in self._leases(shard):
                lease = decode_lease(data)
                if lease.line // LANES_PER_JOB != self._number:
                    continue
                lane = await self._shards.lane(shard, lease.line % LANES_PER_JOB)
                task = await self._shards.task(
                    self._number, lease.item, self._job, lease.host, lane, lease.priority, claimed=1
                )
                if concerns(task, self._task):
                    deadline = await self._deadline(shard, int(token), lease)
                    return Whereabouts(
                        "leased", task, worker=lease.worker, since=lease.since, deadline=deadline
                    )
        return None

    async def _deadline(self, shard: int, token: int, lease: RawLease) -> float:
        [_, deadline] = await self._shards.look(shard, ("ZSCORE", f"held:{lease.worker}", token))
        return float(deadline or lease.deadline)

    async def _leases(self, shard: int) -> AsyncIterator[tuple[bytes, bytes]]:
        cursor: object = "0"
        while cursor != b"0":
            [_, [cursor, flat]] = await self._shards.look(shard, ("HSCAN", "leases", cursor, "COUNT", _PAGE))
            for pair in zip(flat[::2], flat[1::2], strict=True):
                yield pair

    async def pending(self) -> Whereabouts | None:
        host = self._task.host
        [_, record] = await self._shards.look(self._shard, ("HGET", "hosts", host))
        ahead: dict[int, int] = {}  # by line: tasks in lists of higher priority
        for line, priority, length in read_lists(record) if record is not None else ():
            if line // LANES_PER_JOB != self._number:
                continue
            lane = await self._shards.lane(self._shard, line % LANES_PER_JOB)
            before = ahead.get(line, 0)
            key = f"q:{line}:{priority}:{host}"
            for start in range(0, max(0, min(length, self._scan - before)), _PAGE):
                end = min(start + _PAGE, self._scan - before) - 1
                [_, items] = await self._shards.look(self._shard, ("LRANGE", key, start, end))
                for offset, item in enumerate(items):
                    task = await self._shards.task(self._number, item, self._job, host, lane, priority)
                    if concerns(task, self._task):
                        return Whereabouts("pending", task, ahead=before + start + offset)
            ahead[line] = before + length
        self._passed = max(ahead.values(), default=0)
        return None

    async def delayed(self) -> Whereabouts | None:
        start = 0
        while start < self._scan:
            look = ("ZRANGE", f"later:{self._task.host}", start, start + _PAGE - 1, "WITHSCORES")
            [_, flat] = await self._shards.look(self._shard, look)
            for entry, due in zip(flat[::2], flat[1::2], strict=True):
                if found := await self._delayed_task(entry):
                    return Whereabouts("delayed", found, due=float(due))
            if len(flat) < 2 * _PAGE:
                return None
            start += _PAGE
        return None

    async def _delayed_task(self, entry: bytes) -> Task | None:
        later = decode_delayed(entry)
        if later.line // LANES_PER_JOB != self._number:
            return None
        lane = await self._shards.lane(self._shard, later.line % LANES_PER_JOB)
        host = self._task.host
        task = await self._shards.task(self._number, later.item, self._job, host, lane, later.priority)
        return task if concerns(task, self._task) else None

    async def dead(self) -> Whereabouts | None:
        letters = await dead(self._shards, DeadFilter(job=self._job, host=self._task.host))
        for letter in letters:
            if concerns(letter.task, self._task):
                return Whereabouts("dead", letter.task, since=letter.at)
        return None

    async def admitted(self) -> Whereabouts:
        """Of a task that was not found: done, unless a queue is longer than the part that was searched."""
        print_of_url = self._task.fingerprint
        looks = await self._shards.look_all(("HGET", f"merged:{self._number}", str(print_of_url)))
        for _, into in looks:
            if into is not None:
                return Whereabouts("merged", into=into.decode())
        if print_of_url is None or not await self._shards.run(
            "is_seen", self._shard, [self._number, str(print_of_url)]
        ):
            return Whereabouts("unknown")
        if self._passed > self._scan:
            return Whereabouts("pending", ahead=self._scan)
        return Whereabouts("done")
