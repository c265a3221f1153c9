"""After any use, the keys of a shard agree: lists with records, records with lines, leases with hosts and domains."""

from __future__ import annotations

import asyncio
import itertools
import random
import struct
from collections import Counter, defaultdict
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.frontier.redis.codec import decode_lease
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.hosts import domain_number, read_lists, read_valve
from shoal.frontier.redis.shards import LANES_PER_JOB
from shoal.model import Dead, Done, Lease, Moved, Retry, Settlement, Verdict
from shoal.testing.conformance.tools import FAILED, balanced, claim, make_task, spec
from shoal.testing.servers import ValkeyServer
from shoal.valve import FOREVER, DomainLimit, Valve

HOSTS = [*(f"h{n}.test" for n in range(7)), *(f"h{n}.shared.test" for n in range(5))]
_number = itertools.count()


class Books:
    """All keys of one shard."""

    def __init__(self, server: ValkeyServer, tag: str) -> None:
        self._server, self._tag = server, tag
        self.keys = [key.decode().removeprefix(f"{tag}:") for key in server.command("KEYS", f"{tag}:*")]
        self.hosts = {name.decode(): record for name, record in self.hash("hosts").items()}

    def ask(self, command: str, key: str, *arguments: object) -> Any:
        return self._server.command(command, f"{self._tag}:{key}", *arguments)

    def hash(self, key: str) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self.ask("HGETALL", key)
        return found

    def scores(self, key: str) -> dict[str, float]:
        flat = self.ask("ZRANGE", key, 0, -1, "WITHSCORES")
        return {name.decode(): float(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}

    def named(self, beginning: str) -> list[str]:
        return [key.removeprefix(beginning) for key in self.keys if key.startswith(beginning)]

    def check(self) -> Counter[str]:
        """Answers what the shard's jobs have in all, by state."""
        self._check_lists()
        self._check_lines()
        held = self._check_leases()
        totals: Counter[str] = Counter()
        for number in self.named("job:"):
            fields = self.hash(f"job:{number}")
            totals.update({name.decode(): int(n) for name, n in fields.items() if name in _COUNTED})
        delayed = sum(self.ask("ZCARD", f"later:{host}") for host in self.named("later:"))
        assert (totals["delayed"], totals["leased"]) == (delayed, held)
        totals["pending"] = self._check_lanes()
        return totals

    def _check_lanes(self) -> int:
        """What a job says is pending in a lane is what its lists hold there."""
        lines: Counter[int] = Counter()
        for record in self.hosts.values():
            for line, _, length in read_lists(record):
                lines[line] += length
        told = {
            int(number) * LANES_PER_JOB + int(name.removeprefix(b"pending:")): int(n)
            for number in self.named("job:")
            for name, n in self.hash(f"job:{number}").items()
            if name.startswith(b"pending:") and int(n)
        }
        assert told == lines
        return lines.total()

    def _check_lists(self) -> None:
        told = {
            f"{line}:{priority}:{host}": length
            for host, record in self.hosts.items()
            for line, priority, length in read_lists(record)
        }
        assert told == {name: self.ask("LLEN", f"q:{name}") for name in self.named("q:")}

    def _check_lines(self) -> None:
        """A host with tasks waits until it is due, or stands in line, or is about to go from one to the other."""
        now = float(self.hash("facts")[b"time"])
        expected: dict[str, dict[str, float]] = defaultdict(dict)
        for host, record in self.hosts.items():
            for line, _, _ in read_lists(record):
                expected[str(line)][host] = read_valve(record)[0].due()
        for line in {*self.named("due:"), *self.named("line:"), *expected}:
            due, in_line, crowd = self.scores(f"due:{line}"), self.scores(f"line:{line}"), self._crowd(line)
            assert due.keys() | in_line.keys() | crowd.keys() == expected[line].keys()
            assert not crowd.keys() & (due.keys() | in_line.keys())
            for host, at in due.items():
                at_least = expected[line][host]
                assert at >= at_least if domain_number(self.hosts[host]) else at == at_least
            assert all(expected[line][host] <= now for host in in_line | crowd)
            self._check_crowds(line, crowd, in_line)

    def _crowd(self, line: str) -> dict[str, float]:
        """The hosts that wait for their domains."""
        crowd: dict[str, float] = {}
        for name in self.named(f"crowd:{line}:"):
            waiting = self.scores(f"crowd:{line}:{name}")
            assert {domain_number(self.hosts[host]) for host in waiting} == {int(name)}
            crowd |= waiting
        return crowd

    def _check_crowds(self, line: str, crowd: dict[str, float], in_line: dict[str, float]) -> None:
        """Somebody will look at those who wait: when the domain is due, or when one that came forward has gone."""
        told = self.scores(f"crowds:{line}")
        for number in {domain_number(self.hosts[host]) for host in crowd}:
            forward = any(domain_number(self.hosts[host]) == number for host in in_line)
            assert told[str(number)] < FOREVER or forward or self._domain(number)[1]

    def _domain(self, number: int) -> tuple[float, int]:
        next_at, _, in_flight = struct.unpack_from("<ddI", self.hash("domains")[str(number).encode()])
        return next_at, in_flight

    def _check_leases(self) -> int:
        leases = {int(token): decode_lease(data) for token, data in self.hash("leases").items()}
        in_flight = Counter(lease.host for lease in leases.values())
        assert in_flight == +Counter({host: read_valve(r)[0].in_flight for host, r in self.hosts.items()})
        shared = Counter(domain_number(self.hosts[lease.host]) for lease in leases.values())
        for number in {domain_number(record) for record in self.hosts.values()} - {0}:
            assert self._domain(number)[1] == shared[number]
        held = {
            worker: {int(token) for token in self.ask("ZRANGE", f"held:{worker}", 0, -1)}
            for worker in self.named("held:")
        }
        by_worker: dict[str, set[int]] = defaultdict(set)
        for token, lease in leases.items():
            by_worker[lease.worker].add(token)
        assert held == by_worker
        assert set(held) <= set(self.scores("holders"))
        return len(leases)


_COUNTED = {b"admitted", b"delayed", b"leased", b"done", b"dead", b"merged"}


def some_url(dice: random.Random) -> str:
    return f"http://{dice.choice(HOSTS)}/{dice.randrange(60)}"


def some_verdict(dice: random.Random, lease: Lease) -> Verdict:
    match dice.randrange(8):
        case 0:
            return Retry(dice.choice([0.0, 0.01, 0.05]), FAILED, lane=dice.choice([None, "urgent"]))
        case 1:
            return Dead(FAILED)
        case 2:
            return Moved(replace(make_task(some_url(dice)), hops=(*lease.task.hops, lease.task.url)))
    return Done()


async def misuse(store: str, seed: int) -> None:
    """A worker that finishes, forgets, hands back and is cut short."""
    dice = random.Random(seed)
    async with RedisFrontier(store) as frontier:
        for _ in range(60):
            seconds = dice.choice([0.01, 0.05, 5.0])
            leases = (
                await claim(
                    frontier,
                    dice.randrange(1, 9),
                    worker=f"w{seed}",
                    lanes=("urgent", "normal"),
                    lease_seconds=seconds,
                )
            ).leases
            batch = [
                Settlement(
                    lease,
                    some_verdict(dice, lease),
                    tuple(
                        make_task(some_url(dice), priority=dice.randrange(-1, 2))
                        for _ in range(dice.randrange(3))
                    ),
                )
                for lease in leases
                if dice.random() < 0.8
            ]
            settling = asyncio.create_task(frontier.settle(batch))
            if dice.random() < 0.1:
                await asyncio.sleep(0)
                settling.cancel()
            await asyncio.wait([settling])
            await frontier.release([lease for lease in leases if dice.random() < 0.2])
            await frontier.add("job", [make_task(some_url(dice), lane=dice.choice(["normal", "urgent"]))])
            if dice.random() < 0.2:
                await frontier.extend(f"w{seed}", 0.05)
            if (record := await frontier.host(dice.choice(HOSTS))) and dice.random() < 0.2:
                valve = Valve(interval=dice.choice([0.0, 0.005]), cap=dice.randrange(1, 6), burst=2)
                await frontier.update_host(replace(record, valve=valve))


@pytest.mark.parametrize("shards", [1, 3])
async def test_the_books_agree_after_any_use(valkey_server: ValkeyServer, shards: int) -> None:
    prefix = f"b{next(_number)}"
    store = f"{valkey_server.url}?prefix={prefix}&shards={shards}"
    async with RedisFrontier(store) as frontier:
        limit = DomainLimit(interval=0.002, cap=3)
        await frontier.open_job(spec(valve=Valve(interval=0.001, cap=3), max_attempts=3, domain=limit))
        await frontier.add("job", [make_task(f"http://{HOSTS[n % len(HOSTS)]}/{n}") for n in range(100)])
        await asyncio.gather(*(misuse(store, seed) for seed in range(5)))
        await asyncio.sleep(0.1)
        await frontier.reap()
        await balanced(frontier)
    totals: Counter[str] = Counter()
    for shard in range(shards):
        totals += Books(valkey_server, f"{{{prefix}:{shard}}}").check()
    on_their_way = sum(
        valkey_server.command("LLEN", f"{{{prefix}:{a}}}:out:{b}")
        for a in range(shards)
        for b in range(shards)
    )
    assert min(totals["done"], totals["dead"]) > 0
    assert totals["admitted"] > 200
    if not on_their_way:
        assert totals["admitted"] == sum(
            totals[name] for name in ("pending", "delayed", "leased", "done", "dead", "merged")
        )
