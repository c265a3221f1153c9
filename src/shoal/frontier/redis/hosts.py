"""Hosts: their records, walked page by page, and how long their queues are."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from shoal.admit.identity import registrable_domain
from shoal.errors import UsageError
from shoal.frontier.redis.codec import as_text, decode_delayed
from shoal.frontier.redis.jobs import MOST, VALVE
from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.shards import LANES_PER_JOB, Shards
from shoal.frontier.values import HostPage, HostQueue, HostRecord, Turn
from shoal.model import is_items_host
from shoal.valve import Domain, Valve

_DOMAIN = struct.Struct("<ddI")
_LIST = struct.Struct("<6siI")
_TURN = struct.Struct("<ddIB")
_PAGE = 1000

Lists = Sequence[tuple[int, int, int]]  # line, priority, length


def read_valve(record: bytes) -> tuple[Valve, int]:
    """The valve and the record's version."""
    interval, next_at, blocked_until, hold, burst, cap, in_flight, version, _ = VALVE.unpack_from(record)
    return Valve(interval, burst, cap, blocked_until, in_flight, next_at, hold), version


def domain_number(record: bytes) -> int:
    """Of the domain that the host shares with others; 0: there are no others."""
    number: int = VALVE.unpack_from(record)[8]
    return number


def read_lists(record: bytes) -> Lists:
    return [
        (int.from_bytes(line, "little"), priority, length)
        for line, priority, length in _LIST.iter_unpack(record[VALVE.size :])
    ]


async def find_host(shards: Shards, name: str) -> HostRecord | None:
    [_, record, state] = await shards.look(
        shards.of_host(name), ("HGET", "hosts", name), ("HGET", "states", name)
    )
    if record is None:
        return None
    domain = None
    if number := domain_number(record):
        [_, domain] = await shards.look(shards.of_host(name), ("HGET", "domains", number))
    return _host(name, record, state, domain)


def _host(name: str, record: bytes, state: bytes | None, domain: bytes | None) -> HostRecord:
    valve, version = read_valve(record)
    shared = None
    if domain is not None:
        next_at, _, in_flight = _DOMAIN.unpack_from(domain)
        shared = Domain(registrable_domain(name), in_flight, next_at)
    return HostRecord(name, valve, state or b"", version, shared)


async def all_hosts(shards: Shards, job: str | None) -> AsyncIterator[HostRecord]:
    met: set[str] = set()
    page = await host_page(shards, job, "", _PAGE)
    while True:
        for record, _ in page.hosts:
            if record.name not in met:
                met.add(record.name)
                yield record
        if not page.after:
            return
        page = await host_page(shards, job, page.after, _PAGE)


async def host_page(shards: Shards, job: str | None = None, after: str = "", limit: int = 1000) -> HostPage:
    """What a scan of a shard's hash answers at once. A scan meets a field twice at times, while the hash grows."""
    number = None if job is None else await shards.current_number(job)
    key = "hosts" if number is None else f"jobhosts:{number}"
    shard, _, cursor = (after or "0:0").partition(":")
    place = min(int(shard), len(shards.all) - 1)
    [_, [scanned, flat]] = await shards.look(place, ("HSCAN", key, cursor, "COUNT", limit))
    names = [name for name in flat[::2] if not is_items_host(name.decode(errors="replace"))]
    found = await _records_of(shards, place, number, names) if names else []
    if scanned != b"0":
        return HostPage(found, f"{place}:{scanned.decode()}")
    return HostPage(found, f"{place + 1}:0" if place + 1 < len(shards.all) else "")


async def _records_of(
    shards: Shards, shard: int, job: int | None, names: Sequence[bytes]
) -> list[tuple[HostRecord, int]]:
    [_, records, states] = await shards.look(shard, ("HMGET", "hosts", *names), ("HMGET", "states", *names))
    numbers = {number for record in records if record and (number := domain_number(record))}
    domains = await _domains(shards, shard, numbers)
    return [
        (_host(name.decode(), record, state, domains.get(domain_number(record))), _length(record, job))
        for name, record, state in zip(names, records, states, strict=True)
        if record is not None
    ]


async def _domains(shards: Shards, shard: int, numbers: set[int]) -> dict[int, bytes]:
    if not numbers:
        return {}
    [_, records] = await shards.look(shard, ("HMGET", "domains", *numbers))
    return dict(zip(numbers, records, strict=True))


def _length(record: bytes, job: int | None) -> int:
    """How many tasks are pending for the host, of one job or of all."""
    return sum(length for line, _, length in read_lists(record) if job in (None, line // LANES_PER_JOB))


async def update_host(shards: Shards, record: HostRecord) -> bool:
    valve = record.valve
    ask = [
        record.name,
        record.version,
        valve.interval,
        min(valve.burst, MOST),
        min(valve.cap, MOST),
        valve.blocked_until,
        as_text(record.state),
    ]
    return bool(int(await shards.run("update_host", shards.of_host(record.name), ask)))


async def reserve(shards: Shards, job: str, host: str, most: float) -> Turn:
    for _ in range(2):
        ask = [await shards.number(job), host, registrable_domain(host), most]
        answer = await shards.run("turn", shards.of_host(host), ask)
        if answer != b"gone":
            wait, interval, version, taken = _TURN.unpack(answer)
            return Turn(wait, bool(taken), interval, version)
        shards.forget(job)  # it was dropped, and perhaps made again
    raise UsageError(f"no job named {job!r} in this store")


async def longest_queues(
    shards: Shards, job: str | None = None, limit: int = 10
) -> Sequence[tuple[str, int]]:
    number = None if job is None else await shards.current_number(job)
    lengths: Counter[str] = Counter()
    for shard in shards.all:
        async for name, record in _records(shards, shard):
            if length := _length(record, number):
                lengths[name.decode()] = length
    return sorted(lengths.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]


async def _records(shards: Shards, shard: int) -> AsyncIterator[tuple[bytes, bytes]]:
    cursor: object = "0"
    while cursor not in (b"0", None):
        [_, [cursor, flat]] = await shards.look(shard, ("HSCAN", "hosts", cursor, "COUNT", _PAGE))
        for pair in zip(flat[::2], flat[1::2], strict=True):
            yield pair


async def host_queues(shards: Shards, host: str) -> Sequence[HostQueue]:
    shard = shards.of_host(host)
    [_, record, delayed] = await shards.look(
        shard, ("HGET", "hosts", host), ("ZRANGE", f"later:{host}", 0, _PAGE * 10)
    )
    if record is None:
        return []
    pending: Counter[int] = Counter()
    for line, _, length in read_lists(record):
        pending[line] += length
    later = list(map(decode_delayed, delayed))
    delayed_by = Counter(one.line for one in later)
    waiting = Counter(one.line for one in later if one.revisit)
    jobs = await job_names(shards)
    found = [
        (number, HostQueue(jobs[number], lane, pending[line], delayed_by[line], waiting[line]))
        for line in {*pending, *delayed_by}
        if (number := line // LANES_PER_JOB) in jobs
        and (lane := await shards.lane(shard, line % LANES_PER_JOB))
    ]
    return [queue for _, queue in sorted(found, key=lambda pair: (pair[0], pair[1].lane))]


async def job_names(shards: Shards) -> dict[int, str]:
    [_, flat] = await shards.look(HOME, ("HGETALL", "jobs"))
    return {int(flat[i + 1]): flat[i].decode() for i in range(0, len(flat), 2)}
