"""claim: one script on one shard; with several shards, a fair share of the room from each."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.frontier.redis import jobs, outbox
from shoal.frontier.redis.keys import HOME
from shoal.frontier.redis.shards import Shards
from shoal.frontier.values import Claim, Claimed, JobSpec
from shoal.model import Lease
from shoal.valve import FOREVER, UNTIMED

_SERVED = struct.Struct("<6sdIHHiH")
_TIMES = struct.Struct("<ddd")
_ROUNDS = 8  # rounds over all shards in one claim
_PRIORITIES_OLD = 1.0  # seconds
_APART = 0.5  # seconds between two claims, not asked for, of all processes that wait for the same
_LEAST_REST, _MOST_REST = 1.0, 30.0  # … of one of them
_BEGINNING = -UNTIMED  # the time of a line in which no host was served yet

_decode_spec = msgspec.msgpack.Decoder(JobSpec).decode


class _Line(NamedTuple):
    """The line of a job and lane in one shard."""

    front: float  # its time before other hosts joined
    first: float  # the place of its first host then; FOREVER: none
    places: Sequence[float]  # of all hosts in it now


class _Peek(msgspec.Struct, frozen=True):
    """What one shard could serve now."""

    now: float
    next_due: float  # a moment, or FOREVER
    look: float  # see `_Round._rest`
    short: list[int]  # jobs that have due tasks here, but no permit of their page budget
    outs: list[int]  # shards that have not got what this one sent them for long
    lines: list[_Line]  # for each job and lane


class Claimer:
    """Claims for one process, and what it remembers between claims."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._turn = 0
        self._epoch = ""  # in which this was read
        self._floors: dict[
            tuple[int, str], float
        ] = {}  # job's number and lane → the time of the line, of all shards
        self._created: dict[int, float] = {}  # job's number → when it was made
        self._priorities: dict[str, int] = {}
        self._priorities_at = float("-inf")

    async def claim(self, claim: Claim) -> Claimed:
        self._turn += 1
        if self._epoch != self._shards.epoch:
            self._epoch = self._shards.epoch
            self._floors.clear()
            self._priorities.clear()
        jobs = await self._meant(claim, await self._numbers(claim.jobs))
        lanes = list(dict.fromkeys([*claim.lanes, *claim.spare]))
        if not jobs or not lanes:
            return Claimed([], FOREVER, await self._shards.now())
        ordered = self._in_turn([name for name in claim.jobs if name in jobs])
        round_ = _Round(self._shards, claim, {name: jobs[name] for name in ordered}, lanes, self._floors)
        if self._shards.several:
            await round_.share()
        else:
            await round_.take()
        return round_.claimed()

    def forget_priorities(self) -> None:
        self._priorities.clear()

    async def _numbers(self, names: Sequence[str]) -> dict[str, int]:
        """The numbers of the jobs that exist. Reads their priorities once a second."""
        for name in [name for name in names if not self._shards.known_number(name)]:
            await self._shards.find_number(name)
        if len(names) > 1:
            await self._learn_priorities(names)
        return {name: number for name in names if (number := self._shards.known_number(name))}

    async def _meant(self, claim: Claim, jobs: dict[str, int]) -> dict[str, int]:
        """The jobs without those that were made again since the worker met them. A number is never given twice."""
        unknown = [jobs[name] for name in claim.made if name in jobs and jobs[name] not in self._created]
        if unknown:
            [_, *told] = await self._shards.look(HOME, *(("HGET", f"job:{n}", "created") for n in unknown))
            self._created |= {n: float(at) for n, at in zip(unknown, told, strict=True) if at is not None}
        return {name: n for name, n in jobs.items() if claim.means(name, self._created.get(n, 0.0))}

    async def _learn_priorities(self, names: Sequence[str]) -> None:
        known = all(name in self._priorities for name in names)
        now = asyncio.get_running_loop().time()
        if known and now - self._priorities_at < _PRIORITIES_OLD:
            return
        present = [name for name in names if self._shards.known_number(name)]
        looks = [("HGET", f"job:{self._shards.known_number(name)}", "spec") for name in present]
        [_, *specs] = await self._shards.look(HOME, *looks)
        self._priorities = {
            name: _decode_spec(spec).priority if spec else 0
            for name, spec in zip(present, specs, strict=True)
        }
        self._priorities_at = now

    def _in_turn(self, names: Sequence[str]) -> list[str]:
        """By priority. Jobs of equal priority take turns."""
        start = self._turn % len(names) if names else 0
        return sorted([*names[start:], *names[:start]], key=lambda name: -self._priorities.get(name, 0))


class _Round:
    """One claim: what was taken so far, and when there is more. `jobs` are in the order of serving."""

    def __init__(
        self,
        shards: Shards,
        claim: Claim,
        jobs: Mapping[str, int],
        lanes: list[str],
        floors: dict[tuple[int, str], float],
    ) -> None:
        self._shards, self._claim, self._lanes, self._floors = shards, claim, lanes, floors
        self._names, self._numbers = list(jobs), list(jobs.values())
        self._wishes = [
            (job, lanes.index(lane), most)
            for job in range(len(jobs))
            for shares in claim.rounds()
            for lane, most in shares.items()
        ]
        self._taken = [0] * len(lanes)
        self._leases: list[Lease] = []
        self._next_due = FOREVER
        self._looks: dict[int, float] = {}  # by shard
        self._now = 0.0

    @property
    def _room(self) -> int:
        return self._claim.limit - len(self._leases)

    def claimed(self) -> Claimed:
        # If a lane is full, this process wants more as soon as a page has ended, even if it is not its turn.
        full = any(
            self._taken[lane] >= max(most for _, one, most in self._wishes if one == lane)
            for lane in range(len(self._lanes))
        )
        waits = self._room > 0 and not full and all(self._looks.values())
        again = min(map(self._rest, self._looks.values()), default=None) if waits else None
        return Claimed(self._leases, self._until(self._next_due), self._now, again)

    def _until(self, moment: float) -> float:
        return FOREVER if moment >= FOREVER else max(0.0, moment - self._now)

    def _rest(self, look: float) -> float:
        """Seconds until this process claims from the shard again: at a certain moment, if it is the watcher. Otherwise
        `-look` processes wait there, and each claims now and then."""
        if look > 0:
            return self._until(look)
        return random.uniform(0.5, 1.5) * min(_MOST_REST, max(_LEAST_REST, -look * _APART))

    async def take(self) -> None:
        """From the only shard."""
        wanted = [number for job, lane, most in self._wishes for number in (job + 1, lane + 1, most)]
        await self._ask({HOME: (self._room, wanted)})

    # -- several shards

    async def share(self) -> None:
        """Reads the lines of all shards as one, and takes from each shard the share of its hosts; again while there is
        room and the hosts may have more."""
        for _ in range(_ROUNDS):
            if self._room <= 0:
                return
            peeks = await self._peek()
            if await self._deliver(peeks) or await self._fill(peeks):
                peeks = await self._peek()
            portions = self._portions(peeks)
            if not portions:
                return
            if not await self._ask(portions):
                break
        if self._room > 0:
            await self._peek()  # so that every shard knows that this process wants more

    async def _peek(self) -> list[_Peek]:
        lines = [(number, lane) for number in self._numbers for lane in self._lanes]
        floors = [self._floors.get(line, _BEGINNING) for line in lines]
        ask = [self._numbers, self._lanes, max(1, self._room), floors]
        peeks = [_read_peek(answer) for answer in await self._shards.run_all("peek", ask)]
        for shard, peek in enumerate(peeks):
            self._looks[shard] = peek.look
            self._now = max(self._now, peek.now)
            self._next_due = min(self._next_due, peek.next_due)
        for place, line in enumerate(lines):
            first = min((peek.lines[place] for peek in peeks), key=lambda there: there.first)
            if first.first < FOREVER:
                self._floors[line] = first.front
        return peeks

    async def _deliver(self, peeks: Sequence[_Peek]) -> bool:
        """Delivers what a dead worker has not; returns whether there was something."""
        waiting = {shard: peek.outs for shard, peek in enumerate(peeks) if peek.outs}
        for shard, targets in waiting.items():
            await outbox.deliver(self._shards, shard, targets)
        return bool(waiting)

    async def _fill(self, peeks: Sequence[_Peek]) -> bool:
        """Gets permits of the page budget for shards with due tasks that have none; returns whether there were some."""
        short: dict[int, list[int]] = {}
        for shard, peek in enumerate(peeks):
            for job in set(peek.short):
                short.setdefault(job, []).append(shard)
        filled = [
            await jobs.fill_budget(self._shards, job, where, self._room) for job, where in short.items()
        ]
        return any(filled)

    def _portions(self, peeks: Sequence[_Peek]) -> dict[int, tuple[int, list[int]]]:
        """For each shard, how much to take in all, and of each job and lane. The hosts of all shards stand in one line,
        and each gets a fair share. A shard that has hosts in line is told when nothing more is wanted: otherwise it
        waits for this process."""
        room = self._room
        by_lane = list(self._taken)
        allotted: list[dict[tuple[int, int], int]] = [{} for _ in peeks]
        for job, lane, most in self._wishes:
            left = max(0, min(room, most - by_lane[lane]))
            line = sorted(
                (place, shard)
                for shard, peek in enumerate(peeks)
                for place in peek.lines[job * len(self._lanes) + lane].places
            )
            share = max(1, left // len(line)) if line else 0
            for _, shard in line:
                count = min(share, left)
                allotted[shard][job, lane] = allotted[shard].get((job, lane), 0) + count
                by_lane[lane] += count
                left, room = left - count, room - count
        return {
            shard: _wanted(own)
            for shard, own in enumerate(allotted)
            if any(own.values()) or (own and not room)
        }

    async def _ask(self, portions: Mapping[int, tuple[int, list[int]]]) -> bool:
        """Takes so much from each shard; returns whether it got something."""
        asks = {
            shard: [
                self._claim.worker,
                self._claim.lease_seconds,
                limit,
                self._numbers,
                self._lanes,
                wanted,
            ]
            for shard, (limit, wanted) in portions.items()
        }
        before = len(self._leases)
        for shard, answer in zip(asks, await self._shards.run_many("claim", asks), strict=True):
            await self._took(shard, answer)
        return len(self._leases) > before

    async def _took(self, shard: int, answer: Sequence[bytes]) -> None:
        now, next_due, look = _TIMES.unpack(answer[0])
        self._looks[shard] = look
        for number in _numbers(answer[1]):
            # The job was dropped, and perhaps made again: the next claim reads its number.
            self._shards.forget(self._names[self._numbers.index(number)])
        self._now = max(self._now, now)
        self._next_due = min(self._next_due, next_due)
        self._leases += await self._read_leases(answer, now + self._claim.lease_seconds)

    async def _read_leases(self, answer: Sequence[bytes], deadline: float) -> list[Lease]:
        leases: list[Lease] = []
        at = 2
        while at < len(answer):
            first, interval, version, job_place, lane_place, priority, many = _SERVED.unpack_from(answer[at])
            host = answer[at][_SERVED.size :].decode()
            token = int.from_bytes(first, "little")
            number, job = self._numbers[job_place - 1], self._names[job_place - 1]
            lane = self._lanes[lane_place - 1]
            for item in answer[at + 1 : at + 1 + many]:
                task = await self._shards.task(number, item, job, host, lane, priority, claimed=1)
                leases.append(Lease(token, task, deadline, version, interval))
                token += self._shards.count
            self._taken[lane_place - 1] += many
            at += 1 + many
        return leases


def _wanted(portions: Mapping[tuple[int, int], int]) -> tuple[int, list[int]]:
    """The portions of one shard as the script reads them: how many in all, and of each lane up to and with each job."""
    wanted: list[int] = []
    by_lane: Counter[int] = Counter()
    for (job, lane), count in portions.items():
        by_lane[lane] += count
        wanted += (job + 1, lane + 1, by_lane[lane])
    return sum(portions.values()), wanted


def _read_peek(answer: Sequence[bytes]) -> _Peek:
    now, next_due, look = _TIMES.unpack(answer[0])
    lines = [_read_line(blob) for blob in answer[3:]]
    return _Peek(now, next_due, look, _numbers(answer[1]), _numbers(answer[2]), lines)


def _read_line(blob: bytes) -> _Line:
    front, first, *places = struct.unpack(f"<{len(blob) // 8}d", blob) if blob else (0.0, FOREVER)
    return _Line(front, first, places)


def _numbers(text: bytes) -> list[int]:
    return [int(word) for word in text.split()]
