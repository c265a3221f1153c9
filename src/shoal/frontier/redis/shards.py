"""All shards behind one link: which one a host belongs to, scripts run on one or on all of them, jobs by name.

Every call that changes something carries the name of its caller and a number, so that a call whose answer got lost can
be made again without taking effect again. A caller has one call under way at a time; there are as many callers as
calls at once.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import msgspec

from shoal.clock import Clock
from shoal.errors import StoreError, StoreVersionError, UsageError
from shoal.frontier.damage import damaged
from shoal.frontier.protocol import Job
from shoal.frontier.redis.codec import as_text, decode_item
from shoal.frontier.redis.keys import HOME, LAYOUT, shard_of, tag
from shoal.frontier.redis.library import script
from shoal.frontier.redis.link import Call, Link
from shoal.frontier.redis.upgrading import OLDEST, UPGRADING, upgrade
from shoal.frontier.timebase import Timebase
from shoal.model import Task

LANES_PER_JOB = 1024
FULL = 1.0  # seconds that what is new waits for a store without memory; then whoever brings it must know

_encode = msgspec.msgpack.Encoder().encode
Look = Sequence[object]  # a command, a key without its tag, arguments


class Shards:
    def __init__(self, link: Link, prefix: str, count: int, clock: Clock | None) -> None:
        self.link = link
        self.count = count
        self.tags = [tag(prefix, shard) for shard in range(count)]
        self._time = Timebase(clock) if clock is not None else None
        self._name = os.urandom(6).hex()
        self._numbers = itertools.count(1)
        self._callers = itertools.count(1)
        self._idle: list[str] = []  # callers
        self._callers_at: list[set[str]] = [
            set() for _ in range(count)
        ]  # those that a shard remembers calls of
        self._jobs: dict[str, int] = {}  # name → number
        self._words: dict[int, dict[str, int]] = {}  # job → handler → number
        self._names: dict[int, dict[int, str]] = {}  # the same, the other way round
        self._lanes: list[dict[int, str]] = [{} for _ in range(count)]
        self.jobs_read: dict[
            int, tuple[tuple[int, ...], Job]
        ] = {}  # number → moves in every shard, and the job
        self.over_capacity: set[int] = set()  # jobs whose Bloom filter is known to have grown

    @property
    def several(self) -> bool:
        return self.count > 1

    @property
    def all(self) -> range:
        return range(self.count)

    def of_host(self, host: str) -> int:
        return shard_of(host, self.count)

    async def open(self, *, may_upgrade: bool = True) -> None:
        """Makes the shards, or brings them to the layout of this version if they have an older one."""
        for layout in [await self._open_shard(shard) for shard in self.all]:
            if layout == str(LAYOUT):
                continue
            self._check_layout(layout, may_upgrade)
            await upgrade(self, layout)
            return

    async def _open_shard(self, shard: int) -> str:
        """Its layout."""
        shards, layout = await self.run("open", shard, [shard, self.count])
        if int(shards) != self.count:
            raise StoreError(
                f"the store at {self.link.address} was made with shards={int(shards)}: open it with that number,"
                " or choose another prefix"
            )
        return str(layout.decode())

    def _check_layout(self, layout: str, may_upgrade: bool) -> None:
        at = f"the store at {self.link.address}"
        if layout == UPGRADING:
            if not may_upgrade:
                raise StoreVersionError(f"{at} is being upgraded: try again in a while")
        elif int(layout) > LAYOUT:
            raise StoreVersionError(
                f"{at} belongs to a newer version of Shoal (layout {layout}, this one knows {LAYOUT}):"
                " use that version, or choose another prefix"
            )
        elif int(layout) < OLDEST:
            raise StoreVersionError(
                f"{at} was made by a version of Shoal too old to be upgraded from (layout {layout}, this one knows"
                f" {OLDEST} to {LAYOUT}): finish the crawl with that version, or choose another prefix"
            )
        elif not may_upgrade:
            raise StoreVersionError(
                f"{at} belongs to an older version of Shoal (layout {layout}, this one needs {LAYOUT}): look at it with"
                " that version, or upgrade it: shoal store upgrade"
            )

    # -- scripts

    async def run(self, name: str, shard: int, ask: object, *, full_patience: float = inf) -> Any:
        """The script's answer. Repeated for as long as the store is away."""
        [answer] = await self.run_many(name, {shard: ask}, full_patience=full_patience)
        return answer

    async def run_all(self, name: str, ask: object) -> list[Any]:
        return await self.run_many(name, dict.fromkeys(self.all, ask))

    async def run_many(self, name: str, asks: dict[int, Any], *, full_patience: float = inf) -> list[Any]:
        """The same script on several shards at once, in the order asked."""
        caller = self._idle.pop() if self._idle else f"{self._name}-{next(self._callers)}"
        number = next(self._numbers)
        now = repr(self._time.now()) if self._time is not None else ""
        answers = await self.link.run_many(
            [
                Call(script(name), self.tags[shard], [now, caller, number, _encode(ask)])
                for shard, ask in asks.items()
            ],
            full_patience=full_patience,
        )
        if script(name).remembers:
            for shard in asks:
                self._callers_at[shard].add(caller)
        self._idle.append(caller)  # not if it was cut short: that call may still take effect
        return answers

    async def hang_up(self) -> None:
        """What the store remembers of our calls goes with us; what was cut short may still take effect, and stays."""
        idle = set(self._idle)
        for shard, callers in enumerate(self._callers_at):
            if gone := callers & idle:
                await self.run("hang_up", shard, sorted(gone))
                callers -= gone

    async def look(self, shard: int, *looks: Look) -> list[Any]:
        """What several commands answer at the same moment; the first answer is the time."""
        answers: list[Any] = await self.run("read", shard, _readable(looks))
        return answers

    async def look_all(self, *looks: Look) -> list[list[Any]]:
        answers: list[list[Any]] = await self.run_all("read", _readable(looks))
        return answers

    async def now(self) -> float:
        return float((await self.look(HOME))[0])

    # -- jobs by number

    async def find_number(self, job: str) -> int | None:
        """Asks the store: the job may have been dropped and made anew by somebody else."""
        [_, number] = await self.look(HOME, ("HGET", "jobs", job))
        if number is None:
            self._jobs.pop(job, None)
            return None
        self._jobs[job] = int(number)
        return int(number)

    async def number(self, job: str) -> int:
        """From memory if possible. A script that gets an outdated one says so."""
        return self._jobs.get(job) or await self.current_number(job)

    async def current_number(self, job: str) -> int:
        """As the store has it now, for whoever only looks: no script would say that it is outdated."""
        number = await self.find_number(job)
        if number is None:
            raise UsageError(f"no job named {job!r} in this store")
        return number

    def known_number(self, job: str) -> int:
        """0 if this process never met the job."""
        return self._jobs.get(job, 0)

    def remember(self, job: str, number: int) -> None:
        self._jobs[job] = number

    def forget(self, job: str) -> None:
        self._jobs.pop(job, None)

    # -- words: handlers and lanes

    async def learn_words(
        self, job: int, handlers: Iterable[str], *, full_patience: float = inf
    ) -> dict[str, int]:
        """The numbers of the handlers; those that have none get one."""
        known = self._words.setdefault(job, {})
        for handler in {name for name in handlers if name not in known}:
            answer = await self.run("word", HOME, [job, handler], full_patience=full_patience)
            known[handler] = int(answer)
        return known

    async def _learn_names(self, job: int) -> None:
        [_, flat] = await self.look(HOME, ("HGETALL", f"words:{job}"))
        self._names[job].update({int(flat[i + 1]): flat[i].decode() for i in range(0, len(flat), 2)})

    async def task(
        self, number: int, item: bytes, job: str, host: str, lane: str, priority: int, claimed: int = 0
    ) -> Task:
        """The task that an item stands for."""
        names = self._names.setdefault(number, {})
        try:
            return decode_item(item, job, host, lane, priority, names, claimed)
        except KeyError:  # another process has met that handler first
            await self._learn_names(number)
        try:
            return decode_item(item, job, host, lane, priority, names, claimed)
        except KeyError as error:
            raise damaged("task", f"no handler has the number {error}") from None

    async def lane(self, shard: int, number: int) -> str:
        known = self._lanes[shard]
        if number not in known:
            [_, flat] = await self.look(shard, ("HGETALL", "lanes"))
            known.update({int(flat[i + 1]): flat[i].decode() for i in range(0, len(flat), 2)})
        return known[number]


def _readable(looks: Iterable[Look]) -> list[list[object]]:
    return [[as_text(word) if isinstance(word, bytes) else word for word in look] for look in looks]
