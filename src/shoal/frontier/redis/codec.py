"""A task as bytes in a list, as short as possible because there are very many.

    id 6 | created (ms) 6 | attempt 1 | max_attempts 1 | losses 1 | noted 1 | noted × (attempt 1, at 8) | body

What its list says (job, host, lane, priority) is not repeated. The scripts read and write the head; `noted` counts
losses of its worker that are not in the history of the body yet. The body is a msgpack array: how the URL begins and
which fields follow (bits), the URL without its host, handler (a number), depth, parent; and, if they are not the usual
ones, fingerprint and a map of rare fields.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from shoal.admit.identity import fingerprint
from shoal.frontier.codec import rare_fields, restored, stored
from shoal.frontier.values import worker_lost
from shoal.model import DeadLetter, Snapshot, Task
from shoal.text import pack

_LOW, _HIGH = -(2**31), 2**31 - 1

_WHOLE, _HTTP, _HTTPS = 0, 1, 2  # how the URL begins
_USUAL_PRINT, _NO_PRINT, _OWN_PRINT = 0, 4, 8  # whether the fingerprint follows from the URL
_BEGINNINGS = {_HTTP: "http://", _HTTPS: "https://"}
_LOSS = struct.Struct("<Bd")
_LETTER = struct.Struct("<d6siH")
_LEASE = struct.Struct("<6siddH")
_DELAYED = struct.Struct("<6si")


class _Body(msgspec.Struct, array_like=True):
    bits: int
    url: str
    handler: int
    depth: int
    parent: int
    fingerprint: int | None = None
    rare: dict[str, Any] | None = None


_decode = msgspec.msgpack.Decoder(_Body).decode
_decode_snapshot = stored("snapshot of a page")(msgspec.msgpack.Decoder(Snapshot).decode)


def band(priority: int) -> int:
    """The priority of a list. Priorities beyond 32 bits share one."""
    return max(_LOW, min(_HIGH, priority))


def encode_rest(task: Task, handler: int) -> bytes:
    """The item after id and creation time, which the store adds to a new task."""
    losses = sum(failure.kind == "worker_lost" for failure in task.history)
    head = bytes((min(task.attempt, 255), min(task.max_attempts, 255), min(losses, 255), 0))
    return head + _encode_body(task, handler)


def encode_item(task: Task, handler: int) -> bytes:
    """The whole item, of a task that was admitted before."""
    created = int(task.created_at * 1000 + 0.5)
    return task.id.to_bytes(6, "big") + created.to_bytes(6, "big") + encode_rest(task, handler)


def _encode_body(task: Task, handler: int) -> bytes:
    bits, url = _shorten(task.url, task.host)
    if task.fingerprint is None:
        bits |= _NO_PRINT
    elif task.fingerprint != fingerprint(task.url, task.method, task.body):
        bits |= _OWN_PRINT
    rare = rare_fields(task)
    if not _LOW <= task.priority <= _HIGH:
        rare = {**(rare or {}), "priority": task.priority}
    if rare:
        own = task.fingerprint if bits & _OWN_PRINT else None
        return pack((bits, url, handler, task.depth, task.parent, own, rare))
    if bits & _OWN_PRINT:
        return pack((bits, url, handler, task.depth, task.parent, task.fingerprint))
    return pack((bits, url, handler, task.depth, task.parent))


def _shorten(url: str, host: str) -> tuple[int, str]:
    for bits, beginning in _BEGINNINGS.items():
        if url.startswith(beginning) and url.startswith(host, len(beginning)):
            return bits, url[len(beginning) + len(host) :]
    return _WHOLE, url


@stored("task")
def decode_item(
    item: bytes, job: str, host: str, lane: str, priority: int, handlers: Mapping[int, str], claimed: int = 0
) -> Task:
    """`claimed` is 1 for the item of a lease, which is stored without the attempt of its claim.

    Raises KeyError for a handler that is not among `handlers`: another process may have given it its number."""
    noted = item[15]
    start = 16 + noted * _LOSS.size
    body = _decode(memoryview(item)[start:])
    rare = restored(body.rare)
    if noted:
        losses = tuple(worker_lost(*loss) for loss in _LOSS.iter_unpack(item[16:start]))
        rare["history"] = rare.get("history", ()) + losses
    url = body.url
    if beginning := _BEGINNINGS.get(body.bits & 3):
        url = beginning + host + url
    print_of_url = body.fingerprint
    if not body.bits & (_NO_PRINT | _OWN_PRINT):
        print_of_url = fingerprint(url, rare.get("method", "GET"), rare.get("body"))
    return Task(
        url,
        handlers[body.handler],
        int.from_bytes(item[:6], "big"),
        job,
        host,
        lane,
        rare.pop("priority", priority),
        body.depth,
        item[12] + claimed,
        parent=body.parent,
        created_at=int.from_bytes(item[6:12], "big") / 1000,
        fingerprint=print_of_url,
        **rare,
    )


def as_text(data: bytes) -> msgspec.Raw:
    """Bytes as a msgpack string, whatever they hold: the scripts cannot read msgpack's type for bytes."""
    size = len(data)
    if size < 32:
        return msgspec.Raw(bytes((0xA0 | size,)) + data)
    if size < 256:
        return msgspec.Raw(bytes((0xD9, size)) + data)
    if size < 65536:
        return msgspec.Raw(b"\xda" + size.to_bytes(2, "big") + data)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + data)


def encode_snapshot(snapshot: Snapshot | None) -> bytes:
    return b"" if snapshot is None else pack(snapshot)


class RawLetter(msgspec.Struct, frozen=True):
    """A dead letter as stored. Its task is decoded only if needed."""

    at: float
    line: int
    priority: int
    kind: str
    host: str
    item: bytes
    snapshot: bytes

    def letter(self, task: Task) -> DeadLetter:
        return DeadLetter(
            task, self.kind, self.at, _decode_snapshot(self.snapshot) if self.snapshot else None
        )


@stored("dead letter")
def decode_letter(data: bytes) -> RawLetter:
    at, line, priority, length = _LETTER.unpack_from(data)
    position = _LETTER.size
    kind = data[position : position + length].decode()
    position += length
    (length,) = struct.unpack_from("<H", data, position)
    host = data[position + 2 : position + 2 + length].decode()
    position += 2 + length
    (length,) = struct.unpack_from("<I", data, position)
    item = data[position + 4 : position + 4 + length]
    return RawLetter(
        at, int.from_bytes(line, "little"), priority, kind, host, item, data[position + 4 + length :]
    )


_REVISIT = 1 << 47  # in the line of a delayed task: it waits for its next visit


class RawDelayed(msgspec.Struct, frozen=True):
    """A delayed task as stored."""

    line: int
    priority: int
    item: bytes
    revisit: bool


@stored("delayed task")
def decode_delayed(data: bytes) -> RawDelayed:
    line, priority = _DELAYED.unpack_from(data)
    number = int.from_bytes(line, "little")
    return RawDelayed(number & ~_REVISIT, priority, data[_DELAYED.size :], bool(number & _REVISIT))


class RawLease(msgspec.Struct, frozen=True):
    line: int
    priority: int
    since: float
    deadline: float  # unless the worker's heartbeat moved it
    host: str
    worker: str
    item: bytes


@stored("lease")
def decode_lease(data: bytes) -> RawLease:
    line, priority, since, deadline, length = _LEASE.unpack_from(data)
    position = _LEASE.size + length
    host = data[_LEASE.size : position].decode()
    (length,) = struct.unpack_from("<H", data, position)
    worker = data[position + 2 : position + 2 + length].decode()
    item = data[position + 2 + length :]
    return RawLease(int.from_bytes(line, "little"), priority, since, deadline, host, worker, item)
