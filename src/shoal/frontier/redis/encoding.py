"""Settlements as the scripts read them: verdicts with their arguments, found tasks by list and by shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Raw
from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.frontier.redis.adding import Flat, by_shard, grouped
from shoal.frontier.redis.codec import as_text, band, encode_item, encode_snapshot
from shoal.frontier.redis.outbox import encode_payload
from shoal.frontier.redis.shards import Shards
from shoal.model import Dead, Done, Failure, Moved, Retry, Settlement, Task

Words = Mapping[int, Mapping[str, int]]  # job's number → handler → its number
Asked = list[object]


class Encoder:
    def __init__(self, shards: Shards, words: Words) -> None:
        self._shards = shards
        self._words = words

    def settlement(self, settlement: Settlement, shard: int, rows: int, keys: Sequence[str]) -> Asked:
        lease = settlement.lease
        number = self._shards.known_number(lease.task.job)
        if not number:  # a job that this process never met cannot have leases here
            return [lease.token, 0, "done", False, 0, False, False, False, 0]
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
                return "done", []
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
    # If this was the last attempt, the letter holds the task as it was tried.
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


def _last(task: Task, failure: Failure, words: Mapping[str, int]) -> Raw:
    return as_text(encode_item(task.failed(failure), words[task.handler]))


async def words_of(shards: Shards, batch: Iterable[Settlement]) -> Words:
    """The numbers of all handlers that a batch speaks of."""
    handlers: dict[int, set[str]] = {}
    for settlement in batch:
        number = shards.known_number(settlement.lease.task.job)
        if number:
            own = handlers.setdefault(number, set())
            own.add(settlement.lease.task.handler)
            own.update(task.handler for task in settlement.found)
            if isinstance(settlement.verdict, Moved):
                own.add(settlement.verdict.to.handler)
    return {number: await shards.learn_words(number, names) for number, names in handlers.items()}
