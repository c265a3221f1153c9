"""The server restarts, forgets its scripts, drops connections while workers are at it: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from shoal.errors import StoreFull
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.script_loader import script
from shoal.frontier.values import Cursor
from shoal.model import Done, Row, Settlement
from shoal.sink.jsonl import JsonLines
from shoal.testing.conformance.tools import balanced, claim, make_task, settle, spec
from shoal.testing.servers import ValkeyServer

PAGES = 250


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path, appendonly=True, fsync="always") as server:
        yield server


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_crawl_outlives_restarts_and_lost_connections(
    server: ValkeyServer, shards: int, tmp_path: Path
) -> None:
    store = f"{server.url}?shards={shards}"
    path, ended = tmp_path / "rows", asyncio.Event()

    async def work(name: str) -> None:
        journal = JsonLines(path)
        async with RedisFrontier(store) as frontier:
            while not ended.is_set():
                leases = (await claim(frontier, 5, worker=name, lease_seconds=60)).leases
                if not leases:
                    await frontier.wait(0.05)
                for lease in leases:
                    number = int(lease.task.url.rpartition("/")[2])
                    links = [n for n in (2 * number + 1, 2 * number + 2) if n < PAGES]
                    found = tuple(make_task(f"http://h{n % 7}.test/{n}") for n in links)
                    row = Row(f"{number}\n".encode())
                    await frontier.settle([Settlement(lease, Done(), found, (row,))], journal)
        journal.close()

    async def disturb() -> None:
        for _ in range(2):
            await asyncio.sleep(0.1)
            server.command("SCRIPT", "FLUSH")
            server.command("CLIENT", "KILL", "TYPE", "normal")
            await asyncio.sleep(0.1)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)

    async with RedisFrontier(store) as frontier:
        await frontier.open_job(spec())
        # Not the spider's own start, which would be fed again after a restart: nobody feeds here.
        await frontier.add("job", [make_task("http://h0.test/0")], Cursor("list", fed_all=True))
        async with asyncio.timeout(240), asyncio.TaskGroup() as group:
            group.create_task(disturb())
            for n in range(3):
                group.create_task(work(f"w{n}"))
            while not (job := await balanced(frontier)).exhausted:
                await frontier.wait(0.05)
            ended.set()
        assert (job.counters.done, job.counters.admitted, job.counters.dead) == (PAGES, PAGES, 0)
        assert sorted(path.read_bytes().split()) == sorted(str(n).encode() for n in range(PAGES))
        record = await frontier.host("h0.test")
        assert record is not None
        assert record.valve.in_flight == 0


async def test_a_full_store_fails_adds_loudly_and_takes_what_frees_memory(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as server:
        async with RedisFrontier(server.url) as frontier:
            await frontier.open_job(spec())
            await frontier.add("job", [make_task("http://a.test/1")])
            [lease] = (await claim(frontier)).leases
            server.command("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(StoreFull):
                await frontier.add("job", [make_task("http://a.test/2")])
            settling = asyncio.create_task(settle(frontier, lease))
            done, _ = await asyncio.wait([settling], timeout=0.5)
            if not done:
                server.command("CONFIG", "SET", "maxmemory", "0")
            assert await settling
            server.command("CONFIG", "SET", "maxmemory", "0")
            assert (await frontier.add("job", [make_task("http://a.test/2")])).new == 1


@pytest.fixture
async def quiet(server: ValkeyServer) -> AsyncIterator[RedisFrontier]:
    async with RedisFrontier(server.url) as frontier:
        yield frontier


async def test_idle_claims_cost_next_to_nothing(server: ValkeyServer, quiet: RedisFrontier) -> None:
    """Many hosts, none due: a claim looks at the first one and no further."""
    await quiet.open_job(spec())
    await quiet.add("job", [make_task(f"http://h{n}.test/{k}") for n in range(2000) for k in range(2)])
    while (await claim(quiet, 1000)).leases:
        pass
    server.command("CONFIG", "RESETSTAT")
    for _ in range(20):
        got = await claim(quiet, 1000)
        assert got.leases == []
        assert got.next_due < math.inf
    stats = server.command("INFO", "commandstats")
    calls = sum(
        entry["calls"] for name, entry in stats.items() if name not in ("cmdstat_evalsha", "cmdstat_info")
    )
    assert calls / 20 < 30


def test_every_script_says_what_it_asks_for_and_what_it_uses() -> None:
    folder = Path(__file__).parents[2] / "src" / "shoal" / "frontier" / "redis" / "scripts"
    for path in folder.glob("*.lua"):
        text = path.read_text()
        assert text.startswith(f"-- {path.stem}: "), path
        assert "\n-- asks " in text, path
        assert "\n-- answers " in text, path
        assert script(path.stem).source


WRITES = re.compile(r"finish\(|call\('(H?SET|HSETNX|HINCRBY|HDEL|SADD|SREM|ZADD|ZREM|RPUSH|LPOP|DEL|UNLINK)'")


def test_every_script_that_writes_says_whether_it_runs_in_a_full_store() -> None:
    """One that is forgotten waits there for ever, and whoever calls it with it."""
    folder = Path(__file__).parents[2] / "src" / "shoal" / "frontier" / "redis" / "scripts"
    for path in folder.glob("*.lua"):
        text = path.read_text()
        upgrades = re.search(r"^-- uses .*\b(bare|upgrading)\b", text, re.MULTILINE)
        if WRITES.search(text) and not upgrades:
            assert "though_full()" in text or "needs_room()" in text, path.name
