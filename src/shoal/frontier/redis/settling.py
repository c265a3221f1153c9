"""settle: ends leases in the shards that gave them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf

from msgspec import Raw
from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.errors import StoreFull
from shoal.frontier.protocol import Journal
from shoal.frontier.redis import outbox, rows
from shoal.frontier.redis.adding import Flat, by_shard, grouped
from shoal.frontier.redis.codec import as_text, band, encode_item, encode_rest, encode_snapshot
from shoal.frontier.redis.filelock import FileTurns, Turn
from shoal.frontier.redis.link import SetBack
from shoal.frontier.redis.outbox import encode_payload
from shoal.frontier.redis.rows import Part
from shoal.frontier.redis.shards import Shards
from shoal.frontier.values import Added, Settled, total
from shoal.model import Dead, Done, Failure, Moved, Retry, Revisit, Settlement, Task

_AGAIN = b"again"
_AT_ONCE = 1000  # pages and the tasks they found


class Settler:
    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._turns = FileTurns()
        self._writing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Waits for rows that are being written."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def settle(
        self, batch: Sequence[Settlement], journal: Journal | None, epoch: str | None
    ) -> Settled:
        words = await words_of(self._shards, batch)
        expiring = {number for number in words if await self._shards.expires(number)}
        encoder = Encoder(self._shards, words, expiring)
        outcome = _Outcome(len(batch), epoch)
        for portion in _portions(batch):
            for parts in self._parts(portion):
                if journal is not None and any(s.rows or s.archived for part in parts for s in part.batch):
                    await self._write(encoder, parts, journal, outcome)
                else:
                    await self._without_journal(encoder, parts, outcome)
        return outcome.settled()

    def _parts(self, portion: Iterable[tuple[int, Settlement]]) -> list[list[Part]]:
        """For each job, its settlements by shard. The lease's token says which shard."""
        by_job: dict[str, dict[int, Part]] = {}
        for place, settlement in portion:
            job, shard = settlement.lease.task.job, settlement.lease.token % self._shards.count
            parts = by_job.setdefault(job, {})
            if shard not in parts:
                parts[shard] = Part(self._shards.known_number(job), shard)
            parts[shard].places.append(place)
            parts[shard].batch.append(settlement)
        return [list(parts.values()) for parts in by_job.values()]

    async def _without_journal(self, encoder: Encoder, parts: Sequence[Part], outcome: _Outcome) -> None:
        for part in parts:
            await rows.count_only(self._shards, part)
        ends = [self._end(encoder, part, outcome) for part in parts]
        for said in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(said, BaseException):
                raise said
        await self._afterwards(parts, outcome)

    async def _end(self, encoder: Encoder, part: Part, outcome: _Outcome) -> None:
        try:
            outcome.take(part, await self._run(encoder, part, False, outcome.epoch))
        except SetBack:
            outcome.outdated.update(part.places)
        except StoreFull:
            if rest := outcome.without_additions(part):
                await rows.count_only(self._shards, rest)
                await self._end(encoder, rest, outcome)

    async def _run(self, encoder: Encoder, part: Part, condition: Asked | bool, epoch: str | None) -> bytes:
        """If the part adds to the store, it does not wait for a full store: the rest can be settled, and makes room."""
        patience = 0.0 if any(map(_adds, part.batch)) else inf
        ask = self._ask(encoder, part, condition)
        answer: bytes = await self._shards.run("settle", part.shard, ask, full_patience=patience, epoch=epoch)
        return answer

    async def _write(
        self, encoder: Encoder, parts: Sequence[Part], journal: Journal, outcome: _Outcome
    ) -> None:
        """Shielded from cancellation: a thread that writes after its turn has ended would mix with another's rows."""
        writing = asyncio.create_task(self._with_journal(encoder, parts, journal, outcome))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        await asyncio.shield(writing)

    async def _with_journal(
        self, encoder: Encoder, parts: Sequence[Part], journal: Journal, outcome: _Outcome
    ) -> None:
        """Writes the rows, then commits the settlements shard by shard. If leases or lengths of a shard have changed
        meanwhile, the file is cut back to the committed length, and the rest is done again."""
        left = parts
        while left:
            async with self._turns.turn(journal) as turn:
                left = await self._take_turn(encoder, left, turn, outcome)
        await self._afterwards(parts, outcome)

    async def _take_turn(
        self, encoder: Encoder, parts: Sequence[Part], turn: Turn, outcome: _Outcome
    ) -> Sequence[Part]:
        """Returns the parts that are left."""
        conditions = await rows.write(self._shards, parts, turn)
        if conditions is None:
            return parts
        for done, (part, condition) in enumerate(zip(parts, conditions, strict=True)):
            try:
                answer = await self._run(encoder, part, condition, outcome.epoch)
            except SetBack:
                outcome.outdated.update(place for one in parts[done:] for place in one.places)
                await rows.cut(self._shards, part, turn)
                return []
            except StoreFull:
                rest = [smaller for one in parts[done:] if (smaller := outcome.without_additions(one))]
                if not rest:
                    await rows.cut(self._shards, part, turn)
                return rest
            if answer == _AGAIN:
                return parts[done:]
            outcome.take(part, answer)
        turn.clean = True
        return []

    def _ask(self, encoder: Encoder, part: Part, condition: Asked | bool) -> Asked:
        asked = [
            encoder.settlement(settlement, part.shard, plain, keys)
            for settlement, plain, keys in zip(part.batch, part.plain, part.keys, strict=True)
        ]
        hosts = {task.host for settlement in part.batch for task in settlement.found}
        own = [host for host in hosts if self._shards.of_host(host) == part.shard]
        return [asked, own, condition]

    async def _afterwards(self, parts: Sequence[Part], outcome: _Outcome) -> None:
        if self._shards.several:
            outcome.found += await asyncio.gather(
                *(outbox.deliver(self._shards, part.shard, self._targets(part)) for part in parts)
            )

    def _targets(self, part: Part) -> set[int]:
        """The other shards that its settlements have found tasks for."""
        hosts = {task.host for settlement in part.batch for task in settlement.found}
        hosts |= {s.verdict.to.host for s in part.batch if isinstance(s.verdict, Moved)}
        return {self._shards.of_host(host) for host in hosts} - {part.shard}


def _portions(batch: Sequence[Settlement]) -> Iterator[list[tuple[int, Settlement]]]:
    """Settlements with their places, in portions that do not block the server for long."""
    portion: list[tuple[int, Settlement]] = []
    found = 0
    for place, settlement in enumerate(batch):
        portion.append((place, settlement))
        found += 1 + len(settlement.found) + len(settlement.rejected)
        if found >= _AT_ONCE:
            yield portion
            portion, found = [], 0
    if portion:
        yield portion


class _Outcome:
    def __init__(self, size: int, epoch: str | None) -> None:
        self.epoch = epoch
        self.accepted = [False] * size
        self.found: list[Added] = []
        self.buried = 0
        self.no_room: set[int] = set()
        self.outdated: set[int] = set()

    def without_additions(self, part: Part) -> Part | None:
        """The part without settlements that add to the store, which are noted; None: there are no others."""
        rest = Part(part.number, part.shard)
        for place, settlement in zip(part.places, part.batch, strict=True):
            if _adds(settlement):
                self.no_room.add(place)
            else:
                rest.places.append(place)
                rest.batch.append(settlement)
        return rest if rest.batch else None

    def take(self, part: Part, answer: bytes) -> None:
        accepted, *numbers = answer.split()
        for place, letter in zip(part.places, accepted.decode(), strict=True):
            self.accepted[place] = letter == "1"
        new, duplicates, over_budget, buried = (int(number) for number in numbers)
        self.found.append(Added(new, duplicates, over_budget))
        self.buried += buried

    def settled(self) -> Settled:
        return Settled(
            self.accepted,
            total(self.found),
            self.buried,
            frozenset(self.no_room),
            frozenset(self.outdated),
        )


def _adds(settlement: Settlement) -> bool:
    """Whether it adds to the store. The script has the same rule."""
    verdict = settlement.verdict
    first_visit = isinstance(verdict, Revisit) and settlement.lease.task.record is None
    return bool(settlement.found or settlement.rejected) or first_visit or isinstance(verdict, Dead)


Words = Mapping[int, Mapping[str, int]]  # job's number → handler → its number
Asked = list[object]


class Encoder:
    """Settlements as the scripts read them: verdicts with their arguments, found tasks by list and by shard."""

    def __init__(self, shards: Shards, words: Words, expiring: Set[int] = frozenset()) -> None:
        self._shards = shards
        self._words = words
        self._expiring = expiring  # numbers of jobs with dedupe_expires

    def settlement(self, settlement: Settlement, shard: int, rows: int, keys: Sequence[str]) -> Asked:
        lease = settlement.lease
        number = self._shards.known_number(lease.task.job)
        if not number:  # this process has never met the job, so it has no leases of it
            return [lease.token, 0, "done", False, 0, False, False, False, 0, False, False, False, False]
        verdict, arguments = self._verdict(settlement, shard, self._words[number])
        here, others = self._found(settlement.found, shard, self._words[number])
        return [
            lease.token,
            number,
            verdict,
            arguments or False,
            rows,
            keys or False,
            here or False,
            others or False,
            settlement.links_cut,
            [part for pair in settlement.counts for part in pair] or False,
            self._rejected(settlement, self._words[number]) or False,
            settlement.unsent,
            number in self._expiring and _page(lease.task),
        ]

    def _rejected(self, settlement: Settlement, words: Mapping[str, int]) -> list[Asked]:
        return [
            [item.host, item.lane, band(item.priority), as_text(encode_rest(item, words[item.handler]))]
            for item in settlement.rejected
        ]

    def _found(self, found: Sequence[Task], shard: int, words: Mapping[str, int]) -> tuple[Flat, list[Asked]]:
        if not found:
            return [], []
        parts = by_shard(self._shards, (replace(task, attempt=0) if task.attempt else task for task in found))
        here = grouped(parts.pop(shard, []), words)
        others: list[Asked] = [
            [target, len(tasks), as_text(encode_payload(grouped(tasks, words)))]
            for target, tasks in parts.items()
        ]
        return here, others

    def _verdict(self, settlement: Settlement, shard: int, words: Mapping[str, int]) -> tuple[str, Asked]:
        task = settlement.lease.task
        match settlement.verdict:
            case Done():
                return "done" if task.item is None else "item", []
            case Revisit(after) as revisit:
                item = as_text(encode_item(revisit.task(task), words[task.handler]))
                return "revisit", [after, item, task.record is None]
            case Dead(failure, snapshot):
                return "dead", [_last(task, failure, words), failure.kind, as_text(encode_snapshot(snapshot))]
            case Retry() as retry:
                return "retry", _retry(task, retry, settlement, words)
            case Moved() as moved:
                return self._moved(task, moved, shard, words)

    def _moved(self, task: Task, moved: Moved, shard: int, words: Mapping[str, int]) -> tuple[str, Asked]:
        # A redirect is not a failure: the fetch that met it does not count as an attempt.
        to = replace(moved.to, id=task.id, attempt=task.attempt - 1, created_at=task.created_at)
        fingerprint = "" if to.fingerprint is None else str(to.fingerprint)
        item = as_text(encode_item(to, words[to.handler]))
        returns = moved.returns_to(task)
        domain = registrable_domain(to.host)
        variant = "" if to.variant is None else str(to.variant)
        pages = [str(page) for page in task.pages]
        arguments = [
            to.host,
            to.lane,
            band(to.priority),
            item,
            fingerprint,
            returns,
            domain,
            variant,
            to.url,
            pages,
        ]
        target = self._shards.of_host(to.host)
        if target == shard:
            return "moved", arguments
        return "away", [target, as_text(encode_payload(arguments))]


def _retry(task: Task, retry: Retry, settlement: Settlement, words: Mapping[str, int]) -> Asked:
    again = retry.task(task)
    item = as_text(encode_item(again, words[task.handler]))
    # After the last attempt, the dead letter holds the task as it was tried.
    last = _last(task, retry.failure, words) if retry.lane or retry.pool else False
    return [
        retry.after,
        again.lane,
        band(again.priority),
        item,
        task.max_attempts,
        retry.failure.kind,
        as_text(encode_snapshot(settlement.snapshot)),
        last,
        retry.counts,
    ]


def _page(task: Task) -> str | bool:
    return str(task.fingerprint) if task.fingerprint is not None else False


def _last(task: Task, failure: Failure, words: Mapping[str, int]) -> Raw:
    return as_text(encode_item(task.failed(failure), words[task.handler]))


async def words_of(shards: Shards, batch: Iterable[Settlement]) -> Words:
    """The numbers of all handlers in a batch."""
    handlers: dict[int, set[str]] = {}
    for settlement in batch:
        number = shards.known_number(settlement.lease.task.job)
        if number:
            own = handlers.setdefault(number, set())
            own.add(settlement.lease.task.handler)
            own.update(task.handler for task in (*settlement.found, *settlement.rejected))
            if isinstance(settlement.verdict, Moved):
                own.add(settlement.verdict.to.handler)
    return {number: await shards.learn_words(number, names) for number, names in handlers.items()}
