"""Rejected items, as people look at them: why, and how many for the same reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.frontier.protocol import DeadLetters
from shoal.frontier.values import DeadFilter
from shoal.inspect.json_form import visible
from shoal.model import REJECTED, DeadLetter, items_of, page_host

MOST_COUNTED = 50_000  # items, the newest, whose reasons are counted
_PAGE = 500  # items that are in memory at once


class Reason(Struct, frozen=True):
    """A reason for which items were rejected."""

    text: str
    handler: str
    table: str
    count: int


def rejected_query(query: DeadFilter) -> DeadFilter:
    """The query of a person who means rejected items, and by a host that of their pages."""
    return replace(query, kind=REJECTED, host=None if query.host is None else items_of(query.host))


async def reasons(frontier: DeadLetters, query: DeadFilter) -> list[Reason]:
    """The most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    query = replace(query, limit=_PAGE)
    while counts.total() < MOST_COUNTED and (page := await frontier.dead(query)):
        counts.update((reason_of(one), handler_of(one), table_of(one)) for one in page)
        query = replace(query, before=(page[-1].at, page[-1].task.id))
    return [Reason(*key, count) for key, count in counts.most_common()]


def reason_of(letter: DeadLetter) -> str:
    return letter.task.history[-1].detail if letter.task.history else ""


def handler_of(letter: DeadLetter) -> str:
    return (letter.task.item.handler if letter.task.item is not None else "") or letter.task.handler


def table_of(letter: DeadLetter) -> str:
    return letter.task.item.table if letter.task.item is not None else ""


def item_of(letter: DeadLetter) -> Any:
    """The item as it was yielded; text, if it is not JSON."""
    body = letter.task.body or b""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return visible(body.decode("utf-8", "replace"))


def is_whole(letter: DeadLetter) -> bool:
    """Whether it can be replayed."""
    return letter.task.item is not None and letter.task.item.is_json


class RejectedItem(Struct, frozen=True):
    """A rejected item, as code and --json see it."""

    id: int
    job: str
    url: str  # of its page
    host: str
    handler: str
    table: str
    reason: str
    at: float
    times: int  # how often it was rejected
    whole: bool  # whether it can be replayed
    item: Any


def rejected_item(letter: DeadLetter) -> RejectedItem:
    task = letter.task
    return RejectedItem(
        task.id,
        task.job,
        task.url,
        page_host(task.host),
        handler_of(letter),
        table_of(letter),
        reason_of(letter),
        letter.at,
        len(task.history),
        is_whole(letter),
        item_of(letter),
    )
