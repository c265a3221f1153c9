"""`shoal store`: what a store holds, in cheap and roughly right numbers, and making room in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from shoal.cli import run
from shoal.errors import StoreError
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.redis import inventory
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.keys import LAYOUT
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite import inventory as sqlite_stocktaking
from shoal.frontier.values import KINDS, Inventory
from shoal.inspect.retention import prune
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.model import Dead, Done, Failure, Row, Settlement, Snapshot
from shoal.testing.conformance.tools import ListJournal, claim, make_task, spec
from shoal.testing.servers import ValkeyServer

PAGES, HOSTS = 3_000, 300


async def fill(frontier: Frontier) -> None:
    for name in ("old", "now"):
        await frontier.open_job(spec(name))
        tasks = [make_task(f"http://h{n % HOSTS}.test/a/path/{n}") for n in range(PAGES)]
        await frontier.add(name, tasks)
    leases = (await claim(frontier, 400, jobs=["now"])).leases
    dead = Dead(Failure("http_404", "gone"), Snapshot(body=b"x" * 5_000))
    batch = [Settlement(lease, dead) for lease in leases[:50]]
    batch += [
        Settlement(lease, Done(), rows=(Row(b"{}\n", key=n),)) for n, lease in enumerate(leases[50:300])
    ]
    await frontier.settle(batch, ListJournal("file"))
    await frontier.set_note("events", b"e" * 2_000, 0)
    await frontier.set_note("history:now", b"h" * 9_000, 0)
    await frontier.set_state("old", "cancelled")
    await frontier.extend("w", 60, encode_status(WorkerStatus(jobs=("now",))))


def check(found: Inventory) -> None:
    counts = {stock.kind: stock.count for stock in found.stocks}
    sizes = {stock.kind: stock.size for stock in found.stocks}
    assert set(sizes) <= set(KINDS)
    assert sum(sizes.values()) <= found.used * 1.2
    assert counts["queues"] == 2 * PAGES - 400
    assert counts["in hand"] == 100
    assert counts["dead letters"] == 50
    assert counts["seen"] == 2 * PAGES
    assert counts["jobs"] == 2
    assert counts["hosts"] == HOSTS
    assert counts["history"] == counts["workers"] == 1
    assert 2_000 <= sizes["events"] < 2_500
    assert 9_000 <= sizes["history"] < 10_000
    assert 250_000 < sizes["dead letters"] < 400_000
    assert 30 * PAGES < sizes["queues"] < 250 * PAGES
    assert 6 * PAGES < sizes["seen"] < 60 * PAGES
    assert sizes["row keys"] > 0
    assert sizes["result positions"] > 0


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteFrontier]:
    async with SqliteFrontier(tmp_path / "s.db") as frontier:
        await fill(frontier)
        yield frontier


async def test_a_file(sqlite: SqliteFrontier) -> None:
    found = await sqlite.take_stock()
    check(found)
    assert found.format.startswith("schema ")
    assert found.durability == {"journal": "wal", "synchronous": "full"}
    assert found.free is not None
    assert found.free > 0


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path, appendonly=True, fsync="always") as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 4])
async def test_a_server(durable: ValkeyServer, shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with RedisFrontier(f"{durable.url}?shards={shards}") as frontier:
        await fill(frontier)
        found = await frontier.take_stock()
        check(found)
        assert (found.format, found.estimated) == (f"layout {LAYOUT}", False)
        assert found.durability["append-only file"] == "yes"
        assert found.durability["appendfsync"] == "always"
        assert {stock.kind: stock.count for stock in found.stocks}["call markers"] > 0
        # However many keys there are, only so many are looked at: here a quarter of them.
        monkeypatch.setattr(inventory, "_KEYS", durable.command("DBSIZE") // 4)
        monkeypatch.setattr(inventory, "_PAGE", 10)
        before = {stock.kind: stock.size for stock in found.stocks}
        about = await frontier.take_stock()
        assert about.estimated
        queues = {stock.kind: stock.size for stock in about.stocks}["queues"]
        assert before["queues"] / 2 < queues < before["queues"] * 2


async def test_compacting_gives_room_back_beside_somebody_who_works(sqlite: SqliteFrontier) -> None:
    before = (await sqlite.take_stock()).used
    [old, _] = await sqlite.jobs()
    assert await prune(sqlite, [old]) == [old]
    found = {stock.kind: stock.size for stock in (await sqlite.take_stock()).stocks}
    assert found["unused"] > 100_000
    working = True

    async def work(other: SqliteFrontier) -> int:
        done = 0
        while working:
            for lease in (await claim(other, 5, worker="x", jobs=["now"])).leases:
                await other.settle([Settlement(lease, Done())])
                done += 1
        return done

    async with SqliteFrontier(sqlite.path) as other:
        at_work = asyncio.create_task(work(other))
        await asyncio.sleep(0.1)
        assert await sqlite.compact() > 100_000
        working = False
        assert await at_work > 0
    assert os.path.getsize(sqlite.path) < before  # noqa: ASYNC240
    assert "unused" not in {stock.kind for stock in (await sqlite.take_stock()).stocks}


async def test_a_large_file_is_not_compacted_under_the_hands_of_workers(
    sqlite: SqliteFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_stocktaking, "_BESIDE_OTHERS", 1000)
    with pytest.raises(StoreError, match="would wait too long while it is written anew: stop them"):
        await sqlite.compact()
    await sqlite.extend("w", 0)
    assert await sqlite.compact() >= 0


async def test_a_job_whose_clearing_was_cut_short_is_cleared_by_the_next(tmp_path: Path) -> None:
    async with SqliteFrontier(tmp_path / "s.db") as frontier:
        await fill(frontier)
        [old, now] = await frontier.jobs()
        pruning = asyncio.create_task(frontier.prune_job(old))
        while await frontier.job("old") is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        pruning.cancel()
        await asyncio.wait([pruning])
        assert await frontier.queues("now", 1)
        await frontier.compact()
        left = {stock.kind: stock.count for stock in (await frontier.take_stock()).stocks}
        assert left["seen"] == now.counters.admitted


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def stock() -> None:
        async with open_frontier("s.db") as frontier:
            await fill(frontier)
            for n in range(4):
                await frontier.open_job(spec(f"j{n}"))
                await frontier.set_state(f"j{n}", "cancelled")
            await frontier.extend("w", 0)

    asyncio.run(stock())

    def cli(*argv: str) -> tuple[int, str, str]:
        code = run(["store", *argv, "--store", "s.db"])
        out, err = capfd.readouterr()
        return code, out, err

    code, out, _ = cli()
    assert code == 0
    assert out.startswith("s.db: schema ")
    assert "dead letters" in out
    assert "make room: shoal store --prune" in out
    assert cli("--keep", "2")[::2] == (
        2,
        "shoal: --older-than and --keep say what to prune: give them with --prune\n",
    )
    assert cli("--prune")[2] == "0 jobs pruned\n", "by the settings"
    assert cli("--prune", "--older-than", "1h")[2] == "0 jobs pruned\n"
    assert cli("--prune", "--keep", "2")[2] == "3 jobs pruned\n", "one that runs is kept besides"
    code, out, err = cli("--compact", "--json")
    assert (code, len(err.splitlines())) == (0, 2)
    told = {one["kind"]: one["count"] for one in msgspec.json.decode(out)["stocks"]}
    assert (told["jobs"], told["pruned jobs"]) == (3, 3)
