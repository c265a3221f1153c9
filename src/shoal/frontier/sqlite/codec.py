"""How a task is written into a row: what most tasks share is a short array, the rare rest a map behind it.

What a row's columns and its queue already say (id, job, host, lane, priority, attempt) is not repeated. New fields
go into the map, so an older file stays readable.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.model import DeadLetter, Failure, Task

_RARE = ("max_attempts", "method", "headers", "body", "pool", "meta", "hops", "cookies", "history")
_DEFAULTS = {name: getattr(Task(""), name) for name in _RARE}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str, int, int, float, int | None, dict[str, Any] | None]).decode

encode_letter = msgspec.msgpack.Encoder().encode
decode_letter = msgspec.msgpack.Decoder(DeadLetter).decode


def encode_task(task: Task, created_at: float) -> bytes:
    rare: dict[str, object] | None = None
    # One look at the fields that plain links never set, before the loop that asks about each.
    if (
        task.meta is not None
        or task.history
        or task.hops
        or task.method != "GET"
        or task.headers is not None
        or task.max_attempts
        or task.body is not None
        or task.pool is not None
        or task.cookies
    ):
        rare = {name: value for name in _RARE if (value := getattr(task, name)) != _DEFAULTS[name]}
    return _encode((task.url, task.handler, task.depth, task.parent, created_at, task.fingerprint, rare))


def decode_task(body: bytes, *, id: int, job: str, host: str, lane: str, rank: int, attempt: int) -> Task:
    url, handler, depth, parent, created_at, fingerprint, rare = _decode(body)
    if rare:
        rare["hops"] = tuple(rare.get("hops", ()))
        rare["cookies"] = tuple(rare.get("cookies", ()))
        rare["history"] = msgspec.convert(rare.get("history", ()), tuple[Failure, ...])
    return Task(
        url=url,
        handler=handler,
        id=id,
        job=job,
        host=host,
        lane=lane,
        priority=-rank,
        depth=depth,
        attempt=attempt,
        parent=parent,
        created_at=created_at,
        fingerprint=fingerprint,
        **(rare or {}),
    )
