"""A task as bytes in a row: an array of the fields that all tasks have, and a map of the rare ones.

What the row's columns and its queue say (id, job, host, lane, priority, attempt) is not repeated. New fields go into
the map, so that older files stay readable.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.frontier.codec import rare_fields, restored, stored
from shoal.model import DeadLetter, Task
from shoal.text import pack

_decode = msgspec.msgpack.Decoder(tuple[str, str, int, int, float, int | None, dict[str, Any] | None]).decode

encode_letter = pack
decode_letter = stored("dead letter")(msgspec.msgpack.Decoder(DeadLetter).decode)


def encode_task(task: Task, created_at: float) -> bytes:
    return pack(
        (task.url, task.handler, task.depth, task.parent, created_at, task.fingerprint, rare_fields(task))
    )


@stored("task")
def decode_task(body: bytes, *, id: int, job: str, host: str, lane: str, rank: int, attempt: int) -> Task:
    url, handler, depth, parent, created_at, fingerprint, rare = _decode(body)
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
        **restored(rare),
    )
