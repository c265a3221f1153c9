"""Settlements that wait for a replica: it has them when a worker believes them, and it may be away all the same."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio.cluster import RedisCluster

from lateness import Lateness
from shoal.frontier.redis import durability
from shoal.frontier.redis.home import RedisFrontier
from shoal.model import Done, Settlement
from shoal.testing.conformance.tools import balanced, claim, make_task, spec
from shoal.testing.servers import ValkeyCluster, ValkeyServer
from shoal.testing.servers.server_process import wait_until


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ValkeyServer, ValkeyServer]]:
    with (
        ValkeyServer(tmp_path / "primary", appendonly=True) as primary,
        ValkeyServer(tmp_path / "replica", appendonly=True) as replica,
    ):
        replica.command("REPLICAOF", "127.0.0.1", primary.port)
        follows = "online"
        wait_until(lambda: follows in str(primary.command("INFO", "replication")), 20, "it does not follow")
        yield primary, replica


async def test_a_settlement_counts_when_the_replica_has_it(
    pair: tuple[ValkeyServer, ValkeyServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer than a second until it looks.
    monkeypatch.setattr(durability, "_PATIENCE", 30.0)
    primary, replica = pair
    async with RedisFrontier(f"{primary.url}?wait=1") as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        replica.pause()
        settling = asyncio.create_task(frontier.settle([Settlement(lease, Done())]))
        await asyncio.sleep(0.4)
        assert (await balanced(frontier)).counters.done == 1, "the server has it"
        assert not settling.done()
        replica.resume()
        assert (await settling).accepted == [True]
    primary.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    async with RedisFrontier(replica.url) as frontier:
        assert (await balanced(frontier)).counters.done == 1


async def test_a_replica_that_is_away_is_waited_for_a_second_and_told_of_once(
    pair: tuple[ValkeyServer, ValkeyServer], caplog: pytest.LogCaptureFixture
) -> None:
    primary, replica = pair
    async with RedisFrontier(f"{primary.url}?wait=1") as frontier:
        await frontier.open_job(spec())
        replica.kill()
        with caplog.at_level(logging.WARNING, "shoal"), Lateness() as late:
            began = time.monotonic()
            added = [await frontier.add("job", [make_task(f"http://{name}.test/")]) for name in "ab"]
            took = time.monotonic() - began
        assert [one.new for one in added] == [1, 1]
        assert 1.9 < took < 6 + late.stalled
        [said] = [record.getMessage() for record in caplog.records if "replica(s)" in record.getMessage()]
        assert "had no answer of 1 replica(s) within a second, 1 time(s)" in said


async def test_those_who_ask_together_wait_together(
    pair: tuple[ValkeyServer, ValkeyServer],
) -> None:
    primary, _ = pair
    async with RedisFrontier(f"{primary.url}?wait=1") as frontier:
        await frontier.open_job(spec())
        await asyncio.gather(*(frontier.add("job", [make_task(f"http://h{n}.test/")]) for n in range(50)))
        waits = primary.command("INFO", "commandstats")["cmdstat_wait"]["calls"]
        assert 1 <= waits < 25
        assert (await balanced(frontier)).counters.pending == 50


async def test_a_server_that_is_started_anew_is_asked_again(pair: tuple[ValkeyServer, ValkeyServer]) -> None:
    primary, _ = pair
    async with RedisFrontier(f"{primary.url}?wait=1") as frontier:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        primary.restart()
        wait_until(lambda: "online" in str(primary.command("INFO", "replication")), 20, "it does not follow")
        for name in "bc":
            await frontier.add("job", [make_task(f"http://{name}.test/")])
        assert primary.command("INFO", "commandstats")["cmdstat_wait"]["calls"] >= 1
        assert (await balanced(frontier)).counters.pending == 3


async def test_a_cluster_of_which_a_part_is_away_stops_nobody(tmp_path: Path) -> None:
    """Between a primary's end and its successor the client may know of no server for some slots."""
    with ValkeyCluster(tmp_path, replicas=True) as cluster:
        async with RedisFrontier(f"{cluster.url}?shards=3&wait=1") as frontier:
            client = frontier._link._client
            assert isinstance(client, RedisCluster)
            slots = client.nodes_manager.slots_cache
            client.nodes_manager.slots_cache = {}
            await frontier._replicas.reached()
            assert await frontier.durable(1.0) is False
            client.nodes_manager.slots_cache = slots
            await frontier.open_job(spec())
            await frontier.add("job", [make_task(f"http://h{n}.test/") for n in range(9)])
            for node in map(cluster.node_of, frontier._shards.tags):
                assert node.command("INFO", "commandstats")["cmdstat_wait"]["calls"] == 1
