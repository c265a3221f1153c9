"""Dead letters for a page: the newest first, and what is in them as plain text."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shoal.frontier.protocol import DeadLetters, Frontier
from shoal.frontier.values import DeadFilter
from shoal.html.charset import codec_of
from shoal.html.decoding import decode
from shoal.inspect.json_form import attempt_dict
from shoal.model import DeadLetter, Snapshot
from shoal.policy.outcomes import rule_for

MOST = 1_000  # letters that can be looked through; a filter finds others
MOST_TEXT = 64 * 1024  # characters of a body
_PAGE = 200  # letters read at once: each has a part of its page's body
_FIRST_SPAN = 600.0  # seconds
_LEAST_SPAN = 0.01  # letters of one moment are read together, however many
_BEGINNING = 0.0
_EVERY = 2.0  # seconds for which a list may be shown again
_REST = 50.0  # … or so many times what it took to read
_LONGEST = 30.0
_MOST_LISTS = 16


class Head(Struct, frozen=True):
    """What a list shows of a letter."""

    id: int
    job: str
    url: str
    host: str
    handler: str
    kind: str
    at: float
    attempts: int


def head_of(letter: DeadLetter) -> Head:
    task = letter.task
    return Head(
        task.id, task.job, task.url, task.host, task.handler, letter.kind, letter.at, len(task.history)
    )


async def newest(
    frontier: Frontier, query: DeadFilter, now: float, most: int = MOST
) -> tuple[list[Head], bool]:
    """The newest first, and whether there are more. They are read job by job: that is how they are kept."""
    if query.job is not None:
        return await _newest_of_job(frontier, query, now, most)
    heads: list[Head] = []
    for job in await frontier.jobs():
        if job.counters.dead:
            heads += (await _newest_of_job(frontier, replace(query, job=job.spec.name), now, most + 1))[0]
    heads.sort(key=lambda head: head.at, reverse=True)
    return heads[:most], len(heads) > most


async def _newest_of_job(
    frontier: DeadLetters, query: DeadFilter, now: float, most: int
) -> tuple[list[Head], bool]:
    """A frontier gives the oldest first, so they are read in spans of time that go back from now, longer ones the
    fewer there are."""
    first = query.since if query.since is not None else _BEGINNING
    end = min(now + 1, query.until) if query.until is not None else now + 1
    span, heads = end - first, list[Head]()  # most often a page of them is all there is
    while end > first and len(heads) <= most:
        begin = max(first, end - span)
        limit = _PAGE if span > _LEAST_SPAN else None
        page = await frontier.dead(replace(query, since=begin, until=end, limit=limit))
        if len(page) == limit:
            span = min(span / 4, _FIRST_SPAN)
            continue
        heads += [head_of(letter) for letter in reversed(page)]
        end = begin
        span *= 16 if not page else 4 if len(page) < _PAGE / 8 else 1
    return heads[:most], len(heads) > most


class _List(Struct):
    heads: list[Head]
    more: bool
    until: float  # then it has to be read again (monotonic)


class Shelf:
    """What was read lately, for all viewers. What has died since is read every time; whether the others are still
    there, the rarer the longer that takes."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._lists: OrderedDict[DeadFilter, _List] = OrderedDict()
        self._reading = asyncio.Lock()

    async def newest(self, query: DeadFilter, now: float) -> tuple[list[Head], bool]:
        async with self._reading:
            known = self._lists.get(query)
            if known is None or not await self._grown(known, query, now):
                began = time.monotonic()
                heads, more = await newest(self._frontier, query, now)
                took = time.monotonic() - began
                known = _List(heads, more, time.monotonic() + min(_LONGEST, max(_EVERY, _REST * took)))
            self._lists[query] = known
            self._lists.move_to_end(query)
            if len(self._lists) > _MOST_LISTS:
                self._lists.popitem(last=False)
            return known.heads, known.more

    async def _grown(self, known: _List, query: DeadFilter, now: float) -> bool:
        """Adds what is new; False: it has to be read again."""
        if time.monotonic() > known.until:
            return False
        since = known.heads[0].at if known.heads else query.since
        met = {head.id for head in known.heads}
        found, more = await newest(self._frontier, replace(query, since=since), now, _PAGE)
        new = [head for head in found if head.id not in met]
        known.more = known.more or len(known.heads) + len(new) > MOST
        known.heads = [*new, *known.heads][:MOST]
        return not more

    def forget(self) -> None:
        """Something was done about them."""
        self._lists.clear()


def letter_dict(letter: DeadLetter) -> dict[str, Any]:
    task = letter.task
    return {
        "id": task.id,
        "job": task.job,
        "url": task.url,
        "host": task.host,
        "handler": task.handler,
        "depth": task.depth,
        "hops": task.hops,
        "kind": letter.kind,
        "meaning": rule_for(letter.kind).meaning,
        "at": letter.at,
        "attempts": len(task.history),
        "history": [attempt_dict(failure) for failure in task.history],
        "snapshot": None if letter.snapshot is None else _snapshot_dict(letter.snapshot),
    }


def _snapshot_dict(snapshot: Snapshot) -> dict[str, Any]:
    headers = snapshot.headers or {}
    said = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    body = snapshot.body[: 4 * MOST_TEXT]
    text = decode(body, codec_of(body, said))
    return {
        "status": snapshot.status,
        "headers": headers,
        "body": visible(text[:MOST_TEXT]),
        "cut": len(text) > MOST_TEXT,
        "traceback": visible(snapshot.traceback),
    }


def visible(text: str) -> str:
    """Control characters as their pictures, and those that reorder or hide text as U+FFFD."""
    return "".join(c if c.isprintable() or c in "\n\t" else _picture(c) for c in text.replace("\r\n", "\n"))


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
