"""add: groups tasks by list, and sends them to their shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Raw
from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.errors import UsageError
from shoal.frontier.redis.codec import as_text, band, encode_rest
from shoal.frontier.redis.jobs import bring_back
from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.link import SetBack
from shoal.frontier.redis.outbox import added_of
from shoal.frontier.redis.shards import FULL, Shards
from shoal.frontier.values import Added, Cursor, Fate, total
from shoal.model import Task

_FATES: Mapping[str, Fate] = {"n": "new", "d": "duplicate", "o": "over_budget"}
_AT_ONCE = 500  # tasks in one script, which takes a few milliseconds of the server

Flat = list[str | int | Raw]  # for each list: host, domain, lane, priority, n, then n × (fingerprint, rest)


def grouped(tasks: Iterable[Task], words: Mapping[str, int]) -> Flat:
    return arranged(tasks, words)[0]


def arranged(tasks: Iterable[Task], words: Mapping[str, int]) -> tuple[Flat, list[int]]:
    """The tasks of one shard grouped by list, and their places in the input. If a URL occurs twice, the second comes
    after the first, whatever list it is in."""
    groups: dict[tuple[str, str, int, bool], list[str | Raw]] = {}
    places: dict[tuple[str, str, int, bool], list[int]] = {}
    met: set[int] = set()
    for place, task in enumerate(tasks):
        again = task.fingerprint is not None and task.fingerprint in met
        key = (task.host, task.lane, band(task.priority), again)
        if task.fingerprint is not None:
            met.add(task.fingerprint)
        content = groups.get(key)
        if content is None:
            content = groups[key] = []
            places[key] = []
        places[key].append(place)
        content.append(_marks(task))
        content.append(as_text(encode_rest(task, words[task.handler])))
    ordered = sorted(groups.items(), key=lambda entry: entry[0][3])
    flat: Flat = []
    for (host, lane, priority, _), content in ordered:
        flat += (host, registrable_domain(host), lane, priority, len(content) // 2, *content)
    return flat, [place for key, _ in ordered for place in places[key]]


def _marks(task: Task) -> str:
    """The fingerprints of the task as the script reads them."""
    if task.fingerprint is None:
        return ""
    return str(task.fingerprint) if task.variant is None else f"{task.fingerprint} {task.variant}"


def by_shard(shards: Shards, tasks: Iterable[Task]) -> dict[int, list[Task]]:
    parts: dict[int, list[Task]] = {}
    for task in tasks:
        parts.setdefault(shards.of_host(task.host), []).append(task)
    return parts


async def add(
    shards: Shards, job: str, tasks: Sequence[Task], cursor: Cursor | None, epoch: str | None
) -> Added:
    tasks = [replace(task, attempt=0) if task.attempt else task for task in tasks]
    try:
        for _ in range(2):
            number = await shards.number(job)
            words = await shards.learn_words(number, (task.handler for task in tasks), full_patience=FULL)
            adding = _Adding(shards, number, words, epoch)
            if await adding.add(tasks, cursor):
                if adding.found_finished:
                    await bring_back(shards, number)
                return adding.added()
            shards.forget(job)
    except SetBack:
        return Added(outdated=True)
    raise UsageError(f"no job named {job!r} in this store")


class _Adding:
    """One call of `add`, in as many scripts as it takes."""

    def __init__(self, shards: Shards, number: int, words: Mapping[str, int], epoch: str | None) -> None:
        self._shards = shards
        self._epoch = epoch
        self._number = number
        self._words = words
        self._parts: list[Added] = []
        self._each: dict[int, Fate] = {}
        self.found_finished = False

    def added(self) -> Added:
        return replace(total(self._parts), each=[self._each[place] for place in sorted(self._each)])

    async def add(self, tasks: Sequence[Task], cursor: Cursor | None) -> bool:
        """False if there is no such job. The home shard comes last, even without tasks: the cursor moves with its
        tasks, so that after a crash the same start URLs are read again; and its call keeps the job from being marked as
        finished (`jobs._finish`)."""
        parts: dict[int, list[int]] = {}  # shard → places of its tasks
        for place, task in enumerate(tasks):
            parts.setdefault(self._shards.of_host(task.host), []).append(place)
        home = list(_batches(parts.pop(HOME, []))) or [[]]
        queues = {shard: _batches(part) for shard, part in parts.items()}
        while queues:
            batches = {shard: batch for shard, part in queues.items() if (batch := next(part, None))}
            queues = {shard: queues[shard] for shard in batches}
            if batches and not await self._run(batches, tasks):
                return False
        for batch in home[:-1]:
            if not await self._run({HOME: batch}, tasks):
                return False
        return await self._run({HOME: home[-1]}, tasks, cursor)

    async def _run(
        self, batches: Mapping[int, list[int]], tasks: Sequence[Task], cursor: Cursor | None = None
    ) -> bool:
        moved = False if cursor is None else _words(cursor)
        sent = {shard: arranged([tasks[p] for p in batch], self._words) for shard, batch in batches.items()}
        asks = {shard: [self._number, flat, moved] for shard, (flat, _) in sent.items()}
        answers = await self._shards.run_many("add", asks, full_patience=FULL, epoch=self._epoch)
        for (shard, batch), answer in zip(batches.items(), answers, strict=True):
            if answer == b"gone":
                return False
            *counts, state, fates = answer.split(b" ")
            self._parts.append(added_of(b" ".join(counts)))
            self.found_finished |= state == b"finished"
            for place, fate in zip(sent[shard][1], fates.decode(), strict=True):
                self._each[batch[place]] = _FATES[fate]
        return True


def _words(cursor: Cursor) -> list[str | int | bool]:
    return [cursor.source, -1 if cursor.fed is None else cursor.fed, cursor.fed_all]


def _batches(places: Iterable[int]) -> Iterator[list[int]]:
    source = iter(places)
    while batch := list(islice(source, _AT_ONCE)):
        yield batch
