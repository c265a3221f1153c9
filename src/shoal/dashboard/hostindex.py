"""All hosts of a store, or of a job, in memory: read in the background, sorted and searched without asking the store.

A walk over very many hosts takes a while, so it is made while somebody looks, and the rarer the longer it takes. It
never holds the loop for long. Of a host that has not changed since the last walk only the numbers that move by
themselves are taken anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, get_args

from msgspec import Struct

from shoal.engine.event_loop import in_turns
from shoal.errors import ShoalError
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import HostRecord
from shoal.hosts.host_limits import HostRules
from shoal.inspect.host import CONDITIONS, Condition, HostSight, sight_of
from shoal.inspect.inquiry import chosen_jobs, rules_for

log = logging.getLogger("shoal")

_EVERYTHING = 1 << 40
_EVERY = 3.0  # seconds between two walks, at least
_SELDOM = 15.0  # … while nobody looks at a list
_REST = 50.0  # … and so many times what the last one took
_LONGEST = 60.0  # … but no more
_WANTED = 30.0  # seconds for which interest in the numbers lasts
_LISTED = 10.0  # … and in the hosts themselves
_TRAIL = 30  # latencies of a host that are remembered
_TRAILS = 5_000  # hosts of which they are
_SORTED = 8  # orders that are kept until the next walk
_RUN = 8_000  # hosts sorted at once

Sort = Literal["name", "pending", "rate", "latency", "in_flight", "errors", "condition"]
SORTS: tuple[Sort, ...] = get_args(Sort)


class HostRow(Struct, gc=False):
    """What is shown of a host in a list."""

    host: str
    version: int
    condition: Condition
    until: float | None
    rate: float | None
    cap: int
    latency: float | None
    timeout: float | None
    errors: tuple[str, ...]
    in_flight: int = 0
    pending: int = 0


class Query(Struct, frozen=True):
    part: str = ""  # of the name
    condition: str = ""
    sort: Sort = "name"
    descending: bool = False


def row_of(sight: HostSight, version: int) -> HostRow:
    return HostRow(
        sight.name,
        version,
        sight.condition,
        sight.until,
        sight.rate,
        sight.valve.cap,
        sight.latency,
        sight.limits.timeout,
        sight.state.errors,
        sight.valve.in_flight,
        sight.pending,
    )


class HostIndex:
    def __init__(self, frontier: Frontier, job: str | None = None) -> None:
        self._frontier = frontier
        self._job = job
        self._rows: dict[str, HostRow] = {}
        self._orders: OrderedDict[Query, list[HostRow]] = OrderedDict()
        self._trails = Trails()
        self._complete = asyncio.Event()
        self._wanted = asyncio.Event()
        self._wanted_until = 0.0
        self._listed = asyncio.Event()
        self._listed_at = float("-inf")
        self._scanned_at: float | None = None
        self.conditions: Mapping[str, int] | None = None  # how many hosts are in which; None: not known yet

    def __repr__(self) -> str:
        return f"<HostIndex of {self._job or 'all jobs'}: {len(self._rows):,} hosts>"

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def idle(self) -> bool:
        return _now() > self._wanted_until

    @property
    def age(self) -> float | None:
        """Seconds since the last walk ended; None: the first one is under way."""
        return None if self._scanned_at is None else _now() - self._scanned_at

    def want(self) -> None:
        """Somebody is looking: keep it fresh for a while."""
        self._wanted_until = _now() + _WANTED
        self._wanted.set()

    async def find(self, query: Query, patience: float) -> Sequence[HostRow]:
        """The hosts that match, in order. If the first walk takes longer than `patience`, those it has met so far."""
        self.want()
        self._listed_at = _now()
        self._listed.set()
        try:
            async with asyncio.timeout(patience):
                await self._complete.wait()
        except TimeoutError:
            return await _ordered(self._rows.values(), query)
        if query not in self._orders:
            self._orders[query] = await _ordered(self._rows.values(), query)
            if len(self._orders) > _SORTED:
                self._orders.popitem(last=False)
        return self._orders[query]

    def trail(self, host: str) -> Sequence[float]:
        return self._trails.of(host)

    # -- walking

    async def keep(self) -> None:
        """For ever: walks over the hosts while they are wanted."""
        while True:
            if self.idle:
                self._wanted.clear()
                await self._wanted.wait()
            began = _now()
            try:
                await self.walk()
            except ShoalError as error:
                log.debug("cannot look at the hosts: %s", error)
            except Exception:
                log.exception("a bug in Shoal, met while looking at the hosts")
            await asyncio.sleep(min(_LONGEST, max(_EVERY, _REST * (_now() - began))))
            await self._until_listed(_SELDOM - _EVERY)

    async def _until_listed(self, most: float) -> None:
        """Who only wants to know how many there are can wait until somebody wants to see them."""
        if _now() - self._listed_at < _LISTED:
            return
        self._listed.clear()
        try:
            async with asyncio.timeout(most):
                await self._listed.wait()
        except TimeoutError:
            pass

    async def walk(self) -> None:
        jobs = await chosen_jobs(self._frontier, self._job)
        rules, now = rules_for(jobs[0] if jobs else None), await self._frontier.now()
        pending = dict(await self._frontier.queues(self._job, limit=_EVERYTHING))
        met: dict[str, HostRow] = {}
        async for record in in_turns(self._frontier.hosts(self._job)):
            met[record.name] = row = self._seen(record, rules, now)
            row.pending = pending.get(record.name, 0)
            if not self._complete.is_set():
                self._rows[record.name] = row
        self._rows = met
        self._orders.clear()
        self._scanned_at = _now()
        self.conditions = Counter(row.condition for row in met.values())
        self._complete.set()

    def _seen(self, record: HostRecord, rules: HostRules, now: float) -> HostRow:
        """Time alone changes the condition of a host that is not well, and of no other."""
        known = self._rows.get(record.name)
        if known is not None and known.version == record.version and known.condition == "healthy":
            known.in_flight = record.valve.in_flight
            return known
        row = row_of(sight_of(record, rules, now), record.version)
        if known is not None and known.version != row.version:
            self._trails.add(row.host, known.latency, row.latency)
        return row


def _now() -> float:
    return time.monotonic()


class Trails:
    """The latest latencies of hosts that were seen to change; of the others there is nothing to draw."""

    def __init__(self, most: int = _TRAILS) -> None:
        self._most = most
        self._by_host: OrderedDict[str, deque[float]] = OrderedDict()  # the one longest unchanged first

    def __len__(self) -> int:
        return len(self._by_host)

    def add(self, host: str, before: float | None, latency: float | None) -> None:
        if latency is None or latency == before:
            return
        trail = self._by_host.get(host)
        if trail is None:
            trail = self._by_host[host] = deque([] if before is None else [before], _TRAIL)
        trail.append(latency)
        self._by_host.move_to_end(host)
        if len(self._by_host) > self._most:
            self._by_host.popitem(last=False)

    def of(self, host: str) -> Sequence[float]:
        return list(self._by_host.get(host, ()))


# -- sorting


def _key(sort: Sort) -> Callable[[HostRow], float | str]:
    keys: dict[Sort, Callable[[HostRow], float | str]] = {
        "name": lambda row: row.host,
        "pending": lambda row: row.pending,
        "rate": lambda row: float("inf") if row.rate is None else row.rate,
        "latency": lambda row: -1.0 if row.latency is None else row.latency,
        "in_flight": lambda row: row.in_flight,
        "errors": lambda row: len(row.errors),
        "condition": lambda row: CONDITIONS.index(row.condition),
    }
    return keys[sort]


async def _ordered(rows: Iterable[HostRow], query: Query) -> list[HostRow]:
    """By the query, and those that are equal in it by name."""
    part = query.part.lower()
    found = [
        row
        for row in list(rows)
        if part in row.host and (not query.condition or row.condition == query.condition)
    ]
    found = await _sorted(found, _key("name"), query.sort == "name" and query.descending)
    return found if query.sort == "name" else await _sorted(found, _key(query.sort), query.descending)


async def _sorted(
    rows: list[HostRow], key: Callable[[HostRow], float | str], descending: bool
) -> list[HostRow]:
    """Runs that are in order are joined in far less time than it takes to sort them, and nothing else of this loop has
    to wait for all of them at once."""
    runs: list[HostRow] = []
    for at in range(0, len(rows), _RUN):
        runs += sorted(rows[at : at + _RUN], key=key, reverse=descending)
        await asyncio.sleep(0)
    runs.sort(key=key, reverse=descending)
    return runs


# -- one for each job that is looked at


class HostIndexes:
    """The index of all hosts, and those of the jobs that somebody looks at."""

    def __init__(self, frontier: Frontier, most: int = 4) -> None:
        self._frontier = frontier
        self._most = most
        self._by_job: OrderedDict[str | None, tuple[HostIndex, asyncio.Task[None]]] = OrderedDict()

    def of(self, job: str | None = None) -> HostIndex:
        if job not in self._by_job:
            index = HostIndex(self._frontier, job)
            self._by_job[job] = index, asyncio.create_task(index.keep())
            if len(self._by_job) > self._most:
                _, (_, oldest) = self._by_job.popitem(last=False)
                oldest.cancel()
        self._by_job.move_to_end(job)
        if None in self._by_job:
            self._by_job.move_to_end(None)  # never the one that has to go
        return self._by_job[job][0]

    async def close(self) -> None:
        tasks = [task for _, task in self._by_job.values()]
        self._by_job.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def host_indexes(frontier: Frontier) -> AsyncIterator[HostIndexes]:
    indexes = HostIndexes(frontier)
    try:
        yield indexes
    finally:
        await indexes.close()
