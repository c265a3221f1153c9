"""What is written to a store and read from it: tasks, letters, notes; also when the bytes are no such thing."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from shoal.admit.identity import fingerprint, host_key
from shoal.errors import StoreError
from shoal.frontier.redis import codec as redis
from shoal.frontier.sqlite import codec as sqlite
from shoal.frontier.values import HostRecord, JobSpec, WorkerRecord
from shoal.hosts.host_state import state_of
from shoal.jobs.note import note_of, settings_of
from shoal.jobs.worker_status import status_of
from shoal.model import DeadLetter, Failure, Snapshot, Task
from shoal.policy.compose import HostPolicies
from shoal.settings import Settings
from shoal.testing.fuzz.target import Reader
from shoal.text import pack, writable
from shoal.valve import Valve

_policies = HostPolicies(Settings())
_BIG = 2**63 - 1


def task_of(reader: Reader) -> Task:
    """A task with anything in it that a page, a header or a handler may have put there."""
    host = reader.choice("a.example", "b.example:8080", "xn--bcher-kva.example", "[::1]:80")
    url = f"{reader.choice('http', 'https')}://{host}/{quote(reader.raw())}"  # a canonical URL is ASCII
    kind = reader.byte()
    task = Task(
        url,
        reader.choice("", "page", "bücher", "item"),
        id=reader.number() % 2**40 if kind & 1 else kind + 1,
        job="job",
        host=host_key(url),
        lane=reader.choice("normal", "urgent", "lane ✓"),
        priority=max(-_BIG, min(_BIG, reader.number())),
        depth=abs(reader.number()) % 2**31,
        attempt=reader.byte() % 10,
        parent=abs(reader.number()) % 2**40,
        created_at=float(abs(reader.number()) % 2**37),
    )
    if kind & 2:
        task = replace(task, **_rare_fields(reader))
    choose = kind >> 6
    prints = (None, fingerprint(task.url, task.method, task.body), abs(reader.number()) % 2**63, 0)
    return replace(task, fingerprint=prints[choose])


def _rare_fields(reader: Reader) -> dict[str, object]:
    return {
        "max_attempts": reader.byte(),
        "method": reader.choice("GET", "POST", "HEAD", "ODD"),
        "headers": {reader.text(): reader.text() for _ in range(reader.byte() % 4)} or None,
        "body": reader.raw() if reader.byte() & 1 else None,
        "pool": reader.choice("", "pool", "päule") or None,
        "meta": {reader.text(): [reader.number() % 2**60, reader.text(), None, 1.5]}
        if reader.byte() & 1
        else None,
        "hops": tuple(reader.texts(5)),
        "cookies": tuple(reader.texts(5)),
        "history": tuple(failure_of(reader) for _ in range(reader.byte() % 4)),
    }


def failure_of(reader: Reader) -> Failure:
    kind = reader.choice("timeout", "worker_lost", "http_503", "handler")
    return Failure(kind, reader.text(), at=1.5, status=reader.byte() or None, attempt=reader.byte() % 8)


def as_stored(task: Task) -> Task:
    """The task as it comes back: half characters cannot be written."""
    plain = writable(msgspec.to_builtins(task, builtin_types=(bytes,)))
    return msgspec.convert(plain, Task)


def sqlite_codec(data: bytes) -> None:
    """A task comes back from a row as it was, and junk instead of a row is a StoreError of one line."""
    task = task_of(Reader(data))
    row = sqlite.encode_task(task, task.created_at)
    again = _from_row(row, task)
    assert again == as_stored(task), f"{again} instead of {task}"
    letter = DeadLetter(task, "timeout", 1.5, Snapshot(200, {"A": Reader(data).text()}, data[:100]))
    assert sqlite.decode_letter(sqlite.encode_letter(letter)).task == as_stored(task)
    for junk in (data, row[: len(row) // 2], data[:8] + row, row + data):
        refuses_junk(lambda: _from_row(junk, task))  # noqa: B023
        refuses_junk(lambda: sqlite.decode_letter(junk))  # noqa: B023


def _from_row(row: bytes, task: Task) -> Task:
    return sqlite.decode_task(
        row,
        id=task.id,
        job=task.job,
        host=task.host,
        lane=task.lane,
        rank=-task.priority,
        attempt=task.attempt,
    )


def redis_codec(data: bytes) -> None:
    """A task comes back from its item as it was, and junk instead of an item, letter or lease is a StoreError."""
    task = task_of(Reader(data))
    words = _AnyHandler({7: task.handler})
    item = redis.encode_item(task, 7)
    again = redis.decode_item(item, task.job, task.host, task.lane, task.priority, words)
    expected = as_stored(task)
    assert again == expected, f"{again} instead of {expected}"
    for junk in (data, item[: len(item) // 2], data[:15] + item[15:], item[:16] + data):
        refuses_junk(lambda: redis.decode_item(junk, "job", task.host, "normal", 0, words))  # noqa: B023
        refuses_junk(lambda: redis.decode_letter(junk))  # noqa: B023
        refuses_junk(lambda: redis.decode_lease(junk))  # noqa: B023


class _AnyHandler(dict[int, str]):
    """Handlers by number; one that is not known is looked up elsewhere, and is no junk."""

    def __missing__(self, number: int) -> str:
        return "another"


def refuses_junk(decode: Callable[[], object]) -> None:
    """Bytes that are no such value are refused in one line; some junk happens to be a value."""
    try:
        decode()
    except StoreError as error:
        message = str(error)
    else:
        message = "none"
    assert len(message.splitlines()) == 1, message


def packing(data: bytes) -> None:
    """Any value of texts, bytes and numbers is packed, and comes back with its half characters replaced."""
    reader = Reader(data)
    value = {
        reader.text(): [
            reader.text(),
            reader.raw(),
            reader.number() % 2**63,
            None,
            True,
            {"a": reader.text()},
        ]
    }
    assert msgspec.msgpack.decode(pack(value)) == writable(value)
    failure = failure_of(reader)
    assert msgspec.msgpack.decode(pack(failure), type=Failure).kind == failure.kind


def notes(data: bytes) -> None:
    """Junk where a note, a worker's status or a host's state should be counts as none, and stops nobody."""
    state_of(HostRecord("a.example", Valve(), data))
    _policies.limits(_policies.decode(data), 1_700_000_000.0)
    spec = JobSpec("job", settings=data)
    note_of(spec)
    settings_of(spec)
    status_of(WorkerRecord("w", 0.0, 1.0, data))
