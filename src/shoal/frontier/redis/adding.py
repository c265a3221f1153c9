"""add: tasks sorted into groups, one for each list, and sent to their shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Raw, Struct
from msgspec.structs import replace

from shoal.admit.suffixes import registrable_domain
from shoal.errors import UsageError
from shoal.frontier.protocol import Added, total
from shoal.frontier.redis.codec import as_text, band, encode_rest
from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.shards import FULL, Shards
from shoal.model import Task

_AT_ONCE = 500  # tasks in one script: a few milliseconds in which the server does nothing else

Flat = list[str | int | Raw]  # for each list: host, domain, lane, priority, n, then n × (fingerprint, rest)


class Cursor(Struct, frozen=True):
    """Where a source of start URLs is to be set; it lives in the home shard."""

    source: str
    fed: int | None = None  # None: where it is
    fed_all: bool = False

    def words(self) -> list[str | int | bool]:
        return [self.source, -1 if self.fed is None else self.fed, self.fed_all]


def grouped(tasks: Iterable[Task], words: Mapping[str, int]) -> Flat:
    """Tasks of one shard by list, in the order they came. A URL's second coming is judged after its first, wherever
    that one went."""
    groups: dict[tuple[str, str, int, bool], list[str | Raw]] = {}
    met: set[int] = set()
    for task in tasks:
        again = task.fingerprint is not None and task.fingerprint in met
        key = (task.host, task.lane, band(task.priority), again)
        if task.fingerprint is not None:
            met.add(task.fingerprint)
        content = groups.get(key)
        if content is None:
            content = groups[key] = []
        content.append(_marks(task))
        content.append(as_text(encode_rest(task, words[task.handler])))
    ordered = sorted(groups.items(), key=lambda entry: entry[0][3])
    flat: Flat = []
    for (host, lane, priority, _), content in ordered:
        flat += (host, registrable_domain(host), lane, priority, len(content) // 2, *content)
    return flat


def _marks(task: Task) -> str:
    """What the task is known by."""
    if task.fingerprint is None:
        return ""
    return str(task.fingerprint) if task.variant is None else f"{task.fingerprint} {task.variant}"


def by_shard(shards: Shards, tasks: Iterable[Task]) -> dict[int, list[Task]]:
    parts: dict[int, list[Task]] = {}
    for task in tasks:
        parts.setdefault(shards.of_host(task.host), []).append(task)
    return parts


def added_of(text: bytes) -> Added:
    new, duplicates, over_budget = (int(number) for number in text.split())
    return Added(new, duplicates, over_budget)


async def add(shards: Shards, job: str, tasks: Sequence[Task], cursor: Cursor | None) -> Added:
    tasks = [replace(task, attempt=0) if task.attempt else task for task in tasks]
    for _ in range(2):
        number = await shards.number(job)
        added = await _add(shards, number, tasks, cursor)
        if added is not None:
            return added
        shards.forget(job)
    raise UsageError(f"no job named {job!r} in this store")


async def _add(shards: Shards, number: int, tasks: Sequence[Task], cursor: Cursor | None) -> Added | None:
    """None if there is no such job. The cursor moves last, with the tasks of the home shard: after a crash the same
    start URLs are read again, and most are known then."""
    words = await shards.learn_words(number, (task.handler for task in tasks), full_patience=FULL)
    parts = by_shard(shards, tasks)
    home = list(_batches(parts.pop(HOME, [])))
    added: list[Added] = []
    queues = {shard: _batches(part) for shard, part in parts.items()}
    while queues:
        asks = {
            shard: [number, grouped(batch, words), False]
            for shard, batches in queues.items()
            if (batch := next(batches, None))
        }
        queues = {shard: queues[shard] for shard in asks}
        for answer in await shards.run_many("add", asks, full_patience=FULL) if asks else []:
            if answer == b"gone":
                return None
            added.append(added_of(answer))
    if not home and (cursor is not None or not added):
        home = [[]]
    for place, batch in enumerate(home, 1):
        last = place == len(home)
        ask = [number, grouped(batch, words), cursor.words() if last and cursor is not None else False]
        answer = await shards.run("add", HOME, ask, full_patience=FULL)
        if answer == b"gone":
            return None
        added.append(added_of(answer))
    return total(added)


def _batches(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    source = iter(tasks)
    while batch := list(islice(source, _AT_ONCE)):
        yield batch
