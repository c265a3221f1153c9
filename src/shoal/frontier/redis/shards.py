"""All shards of a store: which one a host belongs to, running scripts on one or all of them, jobs by name.

Every call that changes something has the name of its caller and a number, so that a call whose answer got lost can be
repeated without taking effect twice. A caller makes one call at a time; there are as many callers as calls at once.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from math import inf
from typing import Any

import msgspec

from shoal.clock import Clock
from shoal.errors import StoreError, StoreVersionError, UsageError
from shoal.frontier.clock import Timebase
from shoal.frontier.codec import damaged
from shoal.frontier.redis.codec import as_text, decode_item
from shoal.frontier.redis.keys import HOME, LAYOUT, shard_of, tag
from shoal.frontier.redis.link import Argument, Link, SetBack
from shoal.frontier.redis.script_loader import script
from shoal.frontier.redis.upgrading import OLDEST, UPGRADING, upgrade
from shoal.frontier.values import Job
from shoal.model import Task
from shoal.text import command

LANES_PER_JOB = 1024
FULL = 1.0  # seconds that new data waits for a full store; then the caller gets an error

_encode = msgspec.msgpack.Encoder().encode
Look = Sequence[object]  # a command, a key without its tag, arguments
# Waits for a process to tell a home shard that went back which number a handler has.
_WORDS_COME = (0.0, 1.0, 2.0, 3.0)
_in_mending: ContextVar[bool] = ContextVar("in_mending", default=False)


class Shards:
    def __init__(self, link: Link, prefix: str, count: int, clock: Clock | None) -> None:
        self.link = link
        self.count = count
        self.tags = [tag(prefix, shard) for shard in range(count)]
        self._time = Timebase(clock) if clock is not None else None
        # Scripts see by the "~" that this is a cluster, where no server knows all subscribers.
        self.name = ("~" if link.address.kind == "cluster" else "") + os.urandom(6).hex()
        self._numbers = itertools.count(1)
        self._callers = itertools.count(1)
        self._idle: list[str] = []  # callers
        self._callers_at: list[set[str]] = [
            set() for _ in range(count)
        ]  # callers whose last call a shard remembers
        self._jobs: dict[str, int] = {}  # name → number
        self._words: dict[int, dict[str, int]] = {}  # job → handler → number
        self._names: dict[int, dict[int, str]] = {}  # the same, the other way round
        self._lanes: list[dict[int, str]] = [{} for _ in range(count)]
        self.jobs_read: dict[
            int, tuple[tuple[int, ...], Job]
        ] = {}  # number → moves in every shard, and the job
        self._expiring: dict[int, bool] = {}  # number of a job → whether it has dedupe_expires
        self.over_capacity: set[int] = set()  # jobs whose Bloom filter is known to have grown
        self._epochs = [""] * count
        self._orphans: set[tuple[int, str, int]] = set()
        self._beginning = asyncio.Lock()
        self._mending: asyncio.Task[None] | None = None
        self.mend: Callable[[], Awaitable[None]] = _nothing  # what is done after a shard may have gone back

    @property
    def epoch(self) -> str:
        """The epoch of all shards."""
        return " ".join(self._epochs)

    @property
    def several(self) -> bool:
        return self.count > 1

    @property
    def all(self) -> range:
        return range(self.count)

    def of_host(self, host: str) -> int:
        return shard_of(host, self.count)

    async def open(self, *, may_upgrade: bool = True) -> None:
        """Creates the shards, or upgrades them if they have an older layout."""
        for layout in [await self._open_shard(shard) for shard in self.all]:
            if layout == str(LAYOUT):
                continue
            self._check_layout(layout, may_upgrade)
            await upgrade(self, layout)
            break
        await self._begin()
        await self.mend()

    async def _open_shard(self, shard: int) -> str:
        """Opens a shard and returns its layout."""
        shards, layout = await self.run("open", shard, [shard, self.count])  # works in any epoch
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
                f" that version, or upgrade it: {command('store upgrade')}"
            )

    # -- scripts

    async def run(
        self,
        name: str,
        shard: int,
        ask: object,
        *,
        full_patience: float = inf,
        epoch: str | None = None,
    ) -> Any:
        """Runs a script and returns its answer. Repeats the call while the store is away."""
        [answer] = await self.run_many(name, {shard: ask}, full_patience=full_patience, epoch=epoch)
        return answer

    async def run_all(self, name: str, ask: object) -> list[Any]:
        return await self.run_many(name, dict.fromkeys(self.all, ask))

    async def run_many(
        self, name: str, asks: dict[int, Any], *, full_patience: float = inf, epoch: str | None = None
    ) -> list[Any]:
        """Runs a script on several shards at once; returns the answers in the order of `asks`. If one fails, the others
        are cancelled, and may or may not have taken effect. `epoch`: raises SetBack if it is over."""
        caller = self._idle.pop() if self._idle else f"{self.name}-{next(self._callers)}"
        number = next(self._numbers)

        def call(shard: int, ask: object) -> Coroutine[None, None, Any]:
            now = repr(self._time.now()) if self._time is not None else ""
            words: list[Argument] = [now, caller, number, _encode(ask)]
            return self._run(name, shard, words, full_patience=full_patience, epoch=epoch)

        if len(asks) == 1:
            answers = [await call(*only) for only in asks.items()]
        else:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(call(*one)) for one in asks.items()]
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            answers = [task.result() for task in tasks]
        if script(name).remembers:
            for shard in asks:
                self._callers_at[shard].add(caller)
        self._idle.append(caller)  # not after an error: the call may still take effect
        return answers

    async def hang_up(self) -> None:
        """Deletes the answers that the store remembers for this process, except those of calls that may still take
        effect."""
        idle = set(self._idle)
        for shard, callers in enumerate(self._callers_at):
            if gone := callers & idle:
                await self.run("hang_up", shard, sorted(gone))
                callers -= gone

    async def _run(
        self, name: str, shard: int, words: Sequence[Argument], *, full_patience: float, epoch: str | None
    ) -> Any:
        """Makes a call for the known epoch. If that is over, the script does nothing: the new epoch is read, the store
        is repaired, and the call is made again. A call that has already taken effect gets the same answer."""
        tried = False
        while True:
            if self._mending is not None and not _in_mending.get():
                await asyncio.shield(self._mending)
            known, over = self._epochs[shard], epoch not in (None, self.epoch)
            answer = None
            if tried or not over:
                tried = True
                verb = script("said" if over else name)
                try:
                    answer = await self.link.run(
                        verb, self.tags[shard], [*words, known], full_patience=full_patience
                    )
                except SetBack:
                    await self._renew(shard, known)
                    continue
            if over and answer is None:
                raise SetBack("the store has gone back")
            return answer

    # -- epochs

    async def _renew(self, shard: int, over: str) -> None:
        async with self._beginning:
            if self._epochs[shard] == over:
                await self._begin()
                if not _in_mending.get():
                    self._mending = asyncio.create_task(self._mend())

    async def _mend(self) -> None:
        """Repairs the store. All other calls wait meanwhile."""
        _in_mending.set(True)
        try:
            epoch = ""
            while epoch != self.epoch:  # another shard may go back meanwhile
                epoch = self.epoch
                await self.mend()
        finally:
            self._mending = None

    async def _begin(self) -> None:
        """Reads the epoch of every shard, or begins one where the server was restarted. All shards get the jobs of the
        home shard, and the home shard gets what the others know."""
        _, _, jobs = await self._begin_one(HOME, False, False)
        if not self.several:
            return
        known = [
            int(jobs[0]),
            [[as_text(word) if word is not None else None for word in job] for job in jobs[1]],
        ]
        others = []
        for shard in self.all[1:]:
            epoch, _, (orphans, shares, since) = await self._begin_one(shard, known, False)
            others.append([shard, as_str(epoch), float(since), [[int(n) for n in share] for share in shares]])
            self._orphans |= {
                (shard, as_str(orphans[i]), int(orphans[i + 1])) for i in range(0, len(orphans), 2)
            }
        await self._begin_one(HOME, False, others)

    async def _begin_one(self, shard: int, jobs: object, others: object) -> Any:
        now = repr(self._time.now()) if self._time is not None else ""
        ask = [os.urandom(8).hex(), shard, self.count, jobs, others]
        words: list[Argument] = [now, self.name, next(self._numbers), _encode(ask), ""]
        answer = await self.link.run(script("begin"), self.tags[shard], words)
        epoch = as_str(answer[0])
        if epoch != self._epochs[shard]:
            self._epochs[shard] = epoch
            self._forget()
        return answer

    def _forget(self) -> None:
        """Drops what was read from the store. Numbers of jobs stay, because they are never given twice; and those of
        handlers, because the store gets them again."""
        self._names.clear()
        self.jobs_read.clear()
        for lanes in self._lanes:
            lanes.clear()

    async def tell_words(self) -> None:
        """Stores the numbers of handlers again: other processes need them to read our tasks."""
        for job, words in self._words.items():
            for handler, number in words.items():
                await self.run("word", HOME, [job, handler, number])

    def take_orphans(self) -> set[tuple[int, str, int]]:
        """Jobs of other shards (shard, name, number) that the home shard has lost."""
        orphans, self._orphans = self._orphans, set()
        return orphans

    async def look(self, shard: int, *looks: Look) -> list[Any]:
        """Runs several commands at the same moment. The first answer is the time."""
        answers: list[Any] = await self.run("read", shard, _readable(looks))
        return answers

    async def look_all(self, *looks: Look) -> list[list[Any]]:
        answers: list[list[Any]] = await self.run_all("read", _readable(looks))
        return answers

    async def now(self) -> float:
        return float((await self.look(HOME))[0])

    # -- jobs by number

    async def find_number(self, job: str) -> int | None:
        """The job's number in the store: another process may have dropped the job and made it again."""
        [_, number] = await self.look(HOME, ("HGET", "jobs", job))
        if number is None:
            self._jobs.pop(job, None)
            return None
        self._jobs[job] = int(number)
        return int(number)

    async def number(self, job: str) -> int:
        """From memory if possible. A script notices an outdated number."""
        return self._jobs.get(job) or await self.current_number(job)

    async def current_number(self, job: str) -> int:
        """As the store has it now. For reads, which would not notice an outdated number."""
        number = await self.find_number(job)
        if number is None:
            raise UsageError(f"no job named {job!r} in this store")
        return number

    def known_number(self, job: str) -> int:
        """The number, or 0 if this process has never met the job."""
        return self._jobs.get(job, 0)

    def remember(self, job: str, number: int) -> None:
        self._jobs[job] = number

    def forget(self, job: str) -> None:
        self._jobs.pop(job, None)

    # -- words: handlers and lanes

    async def expires(self, number: int) -> bool:
        """Whether what the job has seen may be seen again. That never changes."""
        if number not in self._expiring:
            [_, seconds] = await self.look(HOME, ("HGET", f"job:{number}", "expires"))
            self._expiring[number] = float(seconds or 0) > 0
        return self._expiring[number]

    async def learn_words(
        self, job: int, handlers: Iterable[str], *, full_patience: float = inf
    ) -> dict[str, int]:
        """The numbers of the handlers. New handlers get one."""
        known = self._words.setdefault(job, {})
        for handler in {name for name in handlers if name not in known}:
            answer = await self.run("word", HOME, [job, handler, 0], full_patience=full_patience)
            known[handler] = int(answer)
        return known

    async def _learn_names(self, job: int) -> None:
        [_, flat] = await self.look(HOME, ("HGETALL", f"words:{job}"))
        # A handler that got two numbers, because the shard went back, has the second in its name.
        self._names.setdefault(job, {}).update(
            {int(flat[i + 1]): flat[i].decode().partition("\0")[0] for i in range(0, len(flat), 2)}
        )

    async def task(
        self, number: int, item: bytes, job: str, host: str, lane: str, priority: int, claimed: int = 0
    ) -> Task:
        """The task that an item stands for."""
        for wait in (0.0, *_WORDS_COME):
            try:
                names = self._names.setdefault(number, {})
                return decode_item(item, job, host, lane, priority, names, claimed)
            except KeyError as error:  # another process has given the handler its number
                unknown = error
            await asyncio.sleep(wait)
            await self._learn_names(number)
        raise damaged("task", f"no handler has the number {unknown}") from None

    async def lane(self, shard: int, number: int) -> str:
        known = self._lanes[shard]
        if number not in known:
            [_, flat] = await self.look(shard, ("HGETALL", "lanes"))
            known.update({int(flat[i + 1]): flat[i].decode() for i in range(0, len(flat), 2)})
        return known[number]


async def _nothing() -> None:
    pass


def as_str(word: bytes | str) -> str:
    return word.decode() if isinstance(word, bytes) else word


def _readable(looks: Iterable[Look]) -> list[list[object]]:
    return [[as_text(word) if isinstance(word, bytes) else word for word in look] for look in looks]
