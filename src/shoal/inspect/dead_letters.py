"""What a person may decide about dead letters: back into the queue, or away."""

from __future__ import annotations

from typing import Literal

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.inspect.event_log import tell

Decider = Literal[
    "shoal dead", "dashboard", "retention"
]  # where the person sat; retention: nobody, they are old


async def replay(frontier: Frontier, query: DeadFilter, by: Decider) -> int:
    if count := await frontier.replay(query):
        job, host, kind = query.job, query.host, query.kind
        await tell(frontier, "letters_replayed", count=count, job=job, host=host, kind=kind, by=by)
    return count


async def drop(frontier: Frontier, query: DeadFilter, by: Decider) -> int:
    if count := await frontier.drop(query):
        job, host, kind = query.job, query.host, query.kind
        await tell(frontier, "letters_dropped", count=count, job=job, host=host, kind=kind, by=by)
    return count
