"""Jobs: every shard has their spec and its part of their counters."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil

import msgspec
from msgspec.structs import replace

from shoal.errors import UsageError
from shoal.events import event
from shoal.frontier.codec import stored
from shoal.frontier.redis.codec import as_text
from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.shards import FULL, Shards, as_str
from shoal.frontier.values import PAST_JOBS, Counters, Job, JobSpec, JobState, PastJob, Source, fed_of
from shoal.model.counts import within_limits
from shoal.valve import Valve

_TURN = "turn of "  # beside a journal's length: who asked for it last (prepare.lua)

_COUNTED = Counters.__struct_fields__
_PENDING = b"pending:"  # + lane's number: a field of a job
_OWN = b"own:"  # + name: a counter of the spider
_FED = b"fed:"  # + name of a source: how far it was read, and whether to its end
VALVE = struct.Struct("<ddddIIIII")
_LIMIT = struct.Struct("<dI")
MOST = 2**31  # of a valve's cap and burst
_TRIES = 10
_RECENTLY = 60.0  # seconds: longer than a shard goes back
_BITS_A_URL, _BITS_A_BLOCK = 16, 2**20

_encode_spec = _encode_past = msgspec.msgpack.Encoder().encode
_decode_spec = msgspec.msgpack.Decoder(JobSpec).decode
_decode_past = stored("past job")(msgspec.msgpack.Decoder(PastJob).decode)
_PAGE = 100  # jobs read by one script
_REMEMBERED = 5_000  # jobs; more than retention leaves
_NEVER: tuple[tuple[int, ...], Job | None] = ((), None)

Fields = Mapping[bytes, bytes]


def pack_valve(valve: Valve) -> bytes:
    """The record of a new host."""
    burst, cap = min(valve.burst, MOST), min(valve.cap, MOST)
    times = (valve.interval, valve.next_at, valve.blocked_until, valve.hold)
    return VALVE.pack(*times, burst, cap, valve.in_flight, 0, 0)


async def open_job(shards: Shards, spec: JobSpec, source: str | None = None, *, again: bool = False) -> Job:
    words = [
        as_text(_encode_spec(spec)),
        spec.max_attempts,
        spec.max_pages,
        spec.max_pages_per_host,
        as_text(pack_valve(spec.valve)),
        _blocks(spec, shards.count),
        as_text(_LIMIT.pack(spec.domain.interval, min(spec.domain.cap, MOST))),
    ]
    opened: list[object] = [False if source is None else source, again]
    opened.append(spec.dedupe_expires)
    number = int(await shards.run("open_job", HOME, [spec.name, 0, *words, 0, *opened], full_patience=FULL))
    shards.remember(spec.name, number)
    if shards.several:
        created = await _created(shards, number)
        others = {
            shard: [spec.name, number, *words, created, False, False, spec.dedupe_expires]
            for shard in shards.all
            if shard != HOME
        }
        await shards.run_many("open_job", others, full_patience=FULL)
        await take_back_budget(shards, number)  # it may have become smaller
    await _finish(shards, number, -1.0)
    return await _existing(shards, spec.name)


def _blocks(spec: JobSpec, shards: int) -> int:
    """Blocks of the first Bloom filter in each shard; 0: none, the seen-set is exact."""
    if spec.dedupe == "exact":
        return 0
    return ceil(max(1, spec.capacity) * _BITS_A_URL / _BITS_A_BLOCK / shards)


async def _created(shards: Shards, number: int) -> float:
    [_, created] = await shards.look(HOME, ("HGET", f"job:{number}", "created"))
    return float(created)


async def _existing(shards: Shards, name: str) -> Job:
    job = await find_job(shards, name)
    if job is None:
        raise UsageError(f"no job named {name!r} in this store")
    return job


async def find_job(shards: Shards, name: str) -> Job | None:
    number = await shards.find_number(name)
    return None if number is None else await _read(shards, number)


async def all_jobs(shards: Shards, state: JobState | None = None) -> Sequence[Job]:
    """Every process reads the jobs all the time, so a job that has not changed is not read again."""
    listed = await shards.run_all("list_jobs", [state or ""])
    moves = [dict(zip(map(int, flat[::2]), map(int, flat[1::2]), strict=True)) for flat in listed]
    numbers = sorted(moves[HOME])
    seen = {number: tuple(of_shard.get(number, 0) for of_shard in moves) for number in numbers}
    known = {number: shards.jobs_read[number] for number in numbers if number in shards.jobs_read}
    await _read_many(shards, [number for number in numbers if known.get(number, _NEVER)[0] != seen[number]])
    found = [shards.jobs_read[number][1] for number in numbers if number in shards.jobs_read]
    if len(shards.jobs_read) > _REMEMBERED:
        shards.jobs_read.clear()
    return [job for job in found if state in (None, job.state)]


async def _read_many(shards: Shards, numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), _PAGE):
        page = numbers[start : start + _PAGE]
        answers = await shards.look_all(*(("HGETALL", f"job:{number}") for number in page))
        for place, number in enumerate(page):
            parts = [_paired(answer[1 + place]) for answer in answers]
            job = _job(parts) if parts[HOME] else None
            if job is not None and not _is_certain(shards, job):
                job = await _read(shards, number)
            if job is None:
                shards.jobs_read.pop(number, None)
            else:
                _tell_if_over(shards, number, job, sum(int(part.get(b"seen", 0)) for part in parts))
                shards.jobs_read[number] = (_moves(parts), job)


def _moves(parts: Sequence[Fields]) -> tuple[int, ...]:
    """For each shard, a number that grows with every change of the job there."""
    return tuple(int(part.get(b"moves", 0)) for part in parts)


async def _numbers(shards: Shards) -> list[int]:
    [_, flat] = await shards.look(HOME, ("HGETALL", "jobs"))
    return sorted(int(number) for number in flat[1::2])


async def _read(shards: Shards, number: int) -> Job | None:
    """A job that seems to have nothing left is read again, until two reads find all shards unchanged: between the reads
    of two shards, a task may have moved from the second to the first."""
    moves: tuple[int, ...] | None = None
    while True:
        parts = await _fields(shards, number)
        if not parts[HOME]:
            return None
        job = _job(parts)
        _tell_if_over(shards, number, job, sum(int(part.get(b"seen", 0)) for part in parts))
        if _is_certain(shards, job):
            return job
        before, moves = moves, _moves(parts)
        if before == moves:
            return job


def _tell_if_over(shards: Shards, number: int, job: Job, seen: int) -> None:
    """Logs once that the job has more URLs than its Bloom filter was made for."""
    name, capacity = job.spec.name, job.spec.capacity
    if job.spec.dedupe == "bloom" and seen > capacity and number not in shards.over_capacity:
        shards.over_capacity.add(number)
        event("dedupe_grows", job=name, seen=seen, capacity=capacity)


def _is_certain(shards: Shards, job: Job) -> bool:
    return not shards.several or not job.exhausted or not _may_be_wrong(job)


def _may_be_wrong(job: Job) -> bool:
    """Whether a read over several shards may be wrong about the end. A used-up page budget is certain: it stays used
    up."""
    return not job.spec.max_pages or job.counters.done < job.spec.max_pages


async def _fields(shards: Shards, number: int) -> list[Fields]:
    return [_paired(flat) for _, flat in await shards.look_all(("HGETALL", f"job:{number}"))]


def _paired(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _job(parts: Sequence[Fields]) -> Job:
    def total(field: str) -> int:
        return sum(int(part.get(field.encode(), 0)) for part in parts)

    home = parts[HOME]
    counters = Counters(*(total(field) for field in _COUNTED))
    pending = sum(int(n) for part in parts for field, n in part.items() if field.startswith(_PENDING))
    found, moved = total("out_found"), total("out_moved")  # sent to another shard, and not there yet
    sources = _sources(home)
    return Job(
        _decode_spec(home[b"spec"]),
        home[b"state"].decode(),  # type: ignore[arg-type]
        replace(
            counters,
            admitted=counters.admitted + found,
            pending=pending + found + moved,
        ),
        float(home[b"created"]),
        float(home.get(b"finished", 0)),
        *fed_of(sources),
        sources=sources,
        counts=_counts(parts),
    )


def _counts(parts: Sequence[Fields]) -> dict[str, int]:
    """The sums over all shards. Each shard keeps the limit on names, so together they may have more."""
    sums: Counter[str] = Counter()
    for part in parts:
        for field, number in part.items():
            if field.startswith(_OWN):
                sums[field.removeprefix(_OWN).decode(errors="replace")] += int(number)
    return within_limits(sums)


def _sources(home: Fields) -> dict[str, Source]:
    sources = {}
    for field, value in home.items():
        if field.startswith(_FED):
            fed, through = value.split()
            sources[field.removeprefix(_FED).decode(errors="replace")] = Source(int(fed), through == b"1")
    return sources


async def lanes(shards: Shards, job: str | None = None) -> Mapping[str, int]:
    """Tasks that are sent to another shard, and not there yet, are in no lane."""
    numbers = await _numbers(shards) if job is None else [await shards.current_number(job)]
    parts = await asyncio.gather(*(_lanes_of_shard(shards, shard, numbers) for shard in shards.all))
    return {lane: length for lane, length in sum(parts, Counter()).items() if length}


async def _lanes_of_shard(shards: Shards, shard: int, numbers: Sequence[int]) -> Counter[str]:
    [_, flat] = await shards.look(shard, ("HGETALL", "lanes"))
    fields = {lane.decode(): _PENDING + number for lane, number in zip(flat[::2], flat[1::2], strict=True)}
    pending: Counter[str] = Counter()
    if fields:
        _, *found = await shards.look(shard, *(("HMGET", f"job:{n}", *fields.values()) for n in numbers))
        for lengths in found:
            pending.update({lane: int(length or 0) for lane, length in zip(fields, lengths, strict=True)})
    return pending


async def set_state(shards: Shards, name: str, state: JobState) -> None:
    number = await shards.current_number(name)
    finished = await shards.now() if state in ("finished", "cancelled") else 0.0
    await shards.run_all("set_state", [number, state, finished, "", -1])


async def finish(shards: Shards, name: str) -> bool:
    number = await shards.find_number(name)
    return number is not None and await _finish(shards, number, await shards.now())


async def _finish(shards: Shards, number: int, at: float) -> bool:
    """Marks the job as finished in the home shard, if the job has not changed there since before all shards were read.
    A process that adds tasks to another shard calls the home shard afterwards: either before the mark, which is then
    not made, or after it, and then it removes the mark."""
    for _ in range(_TRIES):
        [_, moves] = await shards.look(HOME, ("HGET", f"job:{number}", "moves"))
        job = await _read(shards, number)
        if job is None or job.state != "running" or not job.exhausted:
            return False
        unmoved = int(moves or 0) if _may_be_wrong(job) else -1
        if int(await shards.run("set_state", HOME, [number, "finished", at, "running", unmoved])):
            return True
    return False  # other processes work on it, and the last of them will finish it


async def revive(shards: Shards, number: int) -> None:
    """Makes a finished job run again. The home shard comes last: if this is interrupted, the job is still finished and
    has something left to do, which the next call sees."""
    others = {shard: [number] for shard in shards.all if shard != HOME}
    if others:
        await shards.run_many("revive", others)
    await shards.run("revive", HOME, [number])


async def bring_back(shards: Shards, number: int) -> None:
    """Makes a finished job run again if something is left to do."""
    job = await _read(shards, number)
    if job is not None and not job.exhausted and job.state in ("running", "finished"):
        await revive(shards, number)


async def revive_unfinished(shards: Shards) -> None:
    """Makes jobs run again that were finished a moment ago, if a shard that went back has something left to do."""
    numbers = await _numbers(shards)
    now, *found = await shards.look(HOME, *(("HMGET", f"job:{n}", "state", "finished") for n in numbers))
    for number, (state, at) in zip(numbers, found, strict=True):
        if state == b"finished" and float(now) - float(at or 0) < _RECENTLY:
            job = await _read(shards, number)
            if job is not None and not job.exhausted:
                await revive(shards, number)


async def drop_job(shards: Shards, name: str) -> None:
    await shards.run("drop_past", HOME, [name])
    number = await shards.find_number(name)
    if number is not None:
        shards.forget(name)
        await _clear(shards, number, name)


async def prune_job(shards: Shards, job: Job, summary: bytes = b"") -> bool:
    name = job.spec.name
    number = await shards.find_number(name)
    if number is None or job.state not in ("finished", "cancelled"):
        return False
    past = _encode_past(PastJob(job, await shards.now(), summary))
    ask = [name, number, [job.state, job.created_at, job.finished_at, as_text(past), PAST_JOBS]]
    if not await shards.run("forget_job", HOME, ask):
        return False
    shards.forget(name)
    await _clear(shards, number, name)
    return True


async def past_job(shards: Shards, name: str) -> PastJob | None:
    [_, past] = await shards.look(HOME, ("HGET", "past", name))
    return None if past is None else _decode_past(past)


async def past_jobs(shards: Shards) -> Sequence[PastJob]:
    [_, flat] = await shards.look(HOME, ("HGETALL", "past"))
    return sorted(map(_decode_past, flat[1::2]), key=lambda past: past.pruned_at)


async def clear_dropped(shards: Shards) -> None:
    """Finishes the dropping of jobs that was interrupted."""
    answers = await shards.look_all(("SMEMBERS", "dropped"))
    for number in {int(member) for _, members in answers for member in members}:
        await _clear(shards, number)


async def _clear(shards: Shards, number: int, name: str = "") -> None:
    await shards.run_all("forget_job", [name, number, False])
    for shard in shards.all:
        await _clear_shard(shards, shard, number)


async def clear_orphan(shards: Shards, shard: int, number: int, name: str) -> None:
    """Drops a job that the home shard does not have from another shard."""
    await shards.run("forget_job", shard, [name, number, False])
    await _clear_shard(shards, shard, number)


async def _clear_shard(shards: Shards, shard: int, number: int) -> None:
    cursor = "0"
    while (cursor := as_str(await shards.run("clear_leases", shard, [number, cursor]))) != "0":
        pass
    await _clear_later(shards, shard, number)
    while await shards.run("clear_hosts", shard, [number]):
        pass
    while await shards.run("clear_sets", shard, [number]):
        pass


async def _clear_later(shards: Shards, shard: int, number: int) -> None:
    cursor: object = "0"
    while cursor != b"0":
        [_, [cursor, flat]] = await shards.look(
            shard, ("HSCAN", f"jobhosts:{number}", cursor, "COUNT", _PAGE * 5)
        )
        names, at = list(map(as_str, flat[::2])), 0
        while names:
            done, at = map(int, await shards.run("clear_later", shard, [number, names, at]))
            del names[:done]


async def journal_length(shards: Shards, job: str, key: str) -> int | None:
    """The longest of the lengths that the shards have committed."""
    number = await shards.number(job)
    answers = await shards.look_all(("HGET", f"journals:{number}", key))
    lengths = [int(length) for _, length in answers if length is not None]
    return max(lengths, default=None)


async def journals(shards: Shards, job: str) -> Mapping[str, int]:
    number = await shards.number(job)
    longest: dict[str, int] = {}
    for _, fields in await shards.look_all(("HGETALL", f"journals:{number}")):
        for key, length in zip(map(as_str, fields[::2]), fields[1::2], strict=True):
            if not key.startswith(_TURN):
                longest[key] = max(longest.get(key, 0), int(length))
    return longest


# -- the page budget of a job on several shards
#
# Each shard is granted a part and gives back what it does not use. All numbers are totals since the job was made and
# only grow, so a message that comes late or twice does no harm.


async def fill_budget(shards: Shards, job: int, short: Sequence[int], wanted: int) -> bool:
    """Gets permits for shards that lack them. If none are left, it takes back what other shards do not use."""
    portion = max(1, wanted // len(short))
    granted = [await _grant_pages(shards, job, shard, portion) for shard in short]
    if any(granted):
        return True
    await take_back_budget(shards, job)
    return await _grant_pages(shards, job, short[0], wanted)


async def _grant_pages(shards: Shards, job: int, shard: int, wanted: int) -> bool:
    [_, before] = await shards.look(HOME, ("HGET", f"job:{job}", f"to:{shard}"))
    granted = int(await shards.run("grant", HOME, [job, shard, wanted]))
    await shards.run("allow", shard, [job, granted, False])
    return granted > int(before or 0)


async def take_back_budget(shards: Shards, job: int) -> None:
    """Every shard gives back what it does not use, including what it was granted but never heard of."""
    fields = [f"to:{shard}" for shard in shards.all]
    [_, granted] = await shards.look(HOME, ("HMGET", f"job:{job}", *fields))
    asks = {shard: [job, int(granted[shard] or 0), True] for shard in shards.all}
    returned = await shards.run_many("allow", asks)
    for shard, total in zip(asks, returned, strict=True):
        await shards.run("regain", HOME, [job, shard, int(total)])
