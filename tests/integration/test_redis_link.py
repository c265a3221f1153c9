"""The connection to a store: restarts, failovers, lost connections, lost scripts, full memory, cancelled calls."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path

import pytest

from integration.redis_tools import COUNT, TAG, in_thread, linked, until
from shoal.errors import StoreError, StoreFull
from shoal.frontier.redis.link import Link, Script
from shoal.testing.servers import ValkeyCluster, ValkeySentinel, ValkeyServer

# Adds to the sum once, however often the same call number comes.
ADD_ONCE = Script(
    "add_once",
    """
    if redis.call('SADD', KEYS[1] .. ':calls', ARGV[1]) == 1 then
      redis.call('INCRBY', KEYS[1] .. ':sum', ARGV[2])
    end
    return redis.call('GET', KEYS[1] .. ':sum')
    """,
)
ECHO = Script("echo", "return ARGV[1]")
SPIN = Script("spin", "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + 1 end return ARGV[2]")
FILL = Script("fill", "redis.call('APPEND', KEYS[1] .. ':' .. ARGV[1], string.rep('x', 100000)) return 1")


# -- calls


async def test_a_script_is_run_and_kept(valkey: ValkeyServer) -> None:
    valkey.command("SCRIPT", "FLUSH")
    async with linked(valkey.url) as link:
        assert await link.run(COUNT, TAG, [2]) == 2
        assert await link.run(COUNT, TAG, [3]) == 5
    assert valkey.command("GET", f"{TAG}:n") == b"5"
    assert valkey.command("SCRIPT", "EXISTS", COUNT.sha) == [1]


async def test_bytes_pass_unchanged(valkey: ValkeyServer) -> None:
    data = bytes(range(256)) * 1000
    async with linked(valkey.url) as link:
        assert await link.run(ECHO, TAG, [data]) == data


async def test_lost_scripts_are_loaded_again(valkey: ValkeyServer) -> None:
    async with linked(valkey.url) as link:
        for expected in range(1, 4):
            assert await link.run(COUNT, TAG, [1]) == expected
            valkey.command("SCRIPT", "FLUSH")


async def test_several_shards_at_once(valkey: ValkeyServer) -> None:
    async with linked(valkey.url) as link:
        calls = [link.run(COUNT, f"{{shoal:{shard}}}", [shard]) for shard in range(8)]
        assert await asyncio.gather(*calls) == list(range(8))
        with pytest.raises(StoreError, match="broken"):
            await link.run(Script("broken", "return redis.call('NOSUCH')"), TAG)


async def test_a_script_that_fails_is_not_repeated(valkey: ValkeyServer) -> None:
    broken = Script("broken", "redis.call('INCR', KEYS[1] .. ':n') return redis.call('INCR')")
    async with linked(valkey.url) as link:
        with pytest.raises(StoreError, match="script broken failed in the store at redis://127"):
            await link.run(broken, TAG)
    assert valkey.command("GET", f"{TAG}:n") == b"1"


async def test_a_unix_socket_and_a_database(tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as short,
        ValkeyServer(tmp_path, settings={"unixsocket": f"{short}/s"}) as server,
    ):
        async with linked(f"unix://{short}/s?db=1") as link:
            assert await link.run(COUNT, TAG, [7]) == 7
        assert server.command("DBSIZE") == 0  # of database 0
        async with linked(f"{server.url}/1") as link:
            assert await link.run(COUNT, TAG, [1]) == 8


async def test_a_closed_link_says_so(valkey: ValkeyServer) -> None:
    async with linked(valkey.url) as link:
        pass
    with pytest.raises(StoreError, match="closed"):
        await link.run(COUNT, TAG, [1])


# -- a store that is away


async def test_a_restart_in_the_middle_is_a_pause(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Calls are repeated with the same arguments: none is lost, and none counts twice."""
    total, answered = 300, 0
    with ValkeyServer(tmp_path, appendonly=True, fsync="always") as server:
        async with linked(server.url) as link:

            async def call_all(first: int) -> None:
                nonlocal answered
                for number in range(first, total, 4):
                    await link.run(ADD_ONCE, TAG, [number, 1])
                    answered += 1
                    await asyncio.sleep(0.002)

            async with asyncio.TaskGroup() as group:
                for first in range(4):
                    group.create_task(call_all(first))
                for end in (server.kill, server.stop):
                    goal = answered + 50
                    await until(lambda goal=goal: answered >= goal)
                    await in_thread(end)
                    await until(lambda: link.lost)
                    await in_thread(server.start)
            assert not link.lost
        assert server.command("GET", f"{TAG}:sum") == b"300"
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line.split(" at ")[0] for line in said] == ["lost the store", "the store"] * 2
    assert "waiting" in said[0]
    assert "is back after" in said[1]


async def test_killed_connections_are_replaced(valkey: ValkeyServer) -> None:
    async with linked(valkey.url) as link:
        for number in range(20):
            assert int(await link.run(ADD_ONCE, TAG, [number, 1])) == number + 1
            valkey.command("CLIENT", "KILL", "TYPE", "normal")
    assert valkey.command("GET", f"{TAG}:sum") == b"20"


async def test_a_busy_server_is_waited_for(tmp_path: Path) -> None:
    forever = Script("forever", "while true do end")
    with ValkeyServer(tmp_path, settings={"busy-reply-threshold": "50"}) as server:
        async with linked(server.url) as link:
            spinning = asyncio.create_task(link.run(forever, TAG))
            waiting = asyncio.create_task(link.run(COUNT, TAG, [1]))
            await until(lambda: link.lost)
            await in_thread(server.command, "SCRIPT", "KILL")
            assert await waiting == 1
            with pytest.raises(StoreError, match="forever"):
                await spinning


async def test_a_primary_that_was_demoted_is_waited_for(tmp_path: Path, valkey: ValkeyServer) -> None:
    """Whoever has its address next is the primary: a new server behind the same name, or itself."""
    with ValkeyServer(tmp_path) as server:
        async with linked(server.url) as link:
            await link.run(COUNT, TAG, [1])
            server.command("REPLICAOF", "127.0.0.1", valkey.port)
            call = asyncio.create_task(link.run(COUNT, TAG, [1]))
            await until(lambda: link.lost)
            server.command("REPLICAOF", "NO", "ONE")
            assert await call in (1, 2)  # 1: what it had was replaced by what the other has


async def test_patience_ends(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as server:
        async with linked(server.url, patience=0.2) as link:
            server.stop()
            with pytest.raises(StoreError, match="nothing listens at redis://127"):
                await link.run(COUNT, TAG, [1])
            assert not link.lost


async def test_a_silent_server_is_not_waited_for_for_ever(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.frontier.redis.link.CALL_SECONDS", 0.2)
    async with linked(valkey.url) as link:
        await link.run(ADD_ONCE, TAG, [1, 1])
        valkey.pause()
        try:
            call = asyncio.create_task(link.run(ADD_ONCE, TAG, [2, 1]))
            await until(lambda: link.lost)
        finally:
            valkey.resume()
        assert await call == b"2"
        assert await link.run(ADD_ONCE, TAG, [3, 1]) == b"3"


async def cancel_some(link: Link) -> None:
    """An answer that comes late must not be taken for that of the next call on the connection."""
    cancelled = lost = 0
    for number in range(400):  # on a busy machine many answers come before they are given up
        if number >= 40 and lost >= 10:
            break
        late = asyncio.create_task(link.run(SPIN, TAG, [1_000_000, f"late {number}"]))
        await asyncio.sleep(0.0004 * (number % 10))
        cancelled += late.cancel()
        [answer] = await asyncio.gather(late, return_exceptions=True)
        lost += isinstance(answer, asyncio.CancelledError)
        assert isinstance(answer, asyncio.CancelledError) or answer == f"late {number}".encode()
        assert await link.run(ECHO, TAG, [f"own {number}"]) == f"own {number}".encode()
    assert cancelled == lost >= 10


async def test_a_cancelled_call_leaves_no_answer_behind(valkey: ValkeyServer) -> None:
    async with linked(valkey.url) as link:
        await cancel_some(link)


async def test_a_call_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as server:
        async with linked(server.url) as link:
            server.stop()
            call = asyncio.create_task(link.run(COUNT, TAG, [1]))
            await until(lambda: link.lost)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert not link.lost


# -- a store that is full


async def test_a_full_store_is_an_error_for_some_and_a_pause_for_others(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path, maxmemory="4mb") as server:
        async with linked(server.url) as link:

            async def fill() -> None:
                for number in range(1000):
                    await link.run(FILL, TAG, [number], full_patience=0.1)

            with pytest.raises(StoreFull, match=r"no room left in the store at redis://127\S+ \(.*maxmemory"):
                await fill()
            settling = asyncio.create_task(link.run(COUNT, TAG, [1]))
            await until(lambda: link.lost)
            server.command("FLUSHALL")
            assert await settling == 1


# -- subscriptions


async def test_a_subscription_outlives_its_connections(tmp_path: Path) -> None:
    heard: list[bytes] = []
    with ValkeyServer(tmp_path) as server:
        async with linked(server.url) as link:
            await link.subscribe(heard.append, "news")
            assert heard == [b""]
            server.command("PUBLISH", "news", "one")
            await until(lambda: heard == [b"", b"one"])
            server.command("CLIENT", "KILL", "TYPE", "pubsub")
            await until(lambda: heard == [b"", b"one", b""])
            await in_thread(server.restart)
            await until(lambda: heard == [b"", b"one", b"", b""])
            server.command("PUBLISH", "news", "two")
            await until(lambda: heard[-1] == b"two")
        assert server.command("PUBSUB", "NUMSUB", "news")[1] == 0


# -- several servers


async def test_a_failover_by_sentinel_is_a_pause(tmp_path: Path) -> None:
    with (
        ValkeyServer(tmp_path / "first", appendonly=True) as first,
        ValkeyServer(tmp_path / "second", appendonly=True) as second,
    ):
        second.command("REPLICAOF", "127.0.0.1", first.port)
        with ValkeySentinel(tmp_path / "sentinel", first) as sentinel:
            await until(lambda: first.command("INFO", "replication").get("slave0"))
            await until(lambda: sentinel.command("SENTINEL", "REPLICAS", "mymaster"))
            async with linked(sentinel.url) as link:
                assert int(await link.run(ADD_ONCE, TAG, [1, 1])) == 1
                assert first.command("WAIT", 1, 5000) == 1
                first.kill()
                assert int(await link.run(ADD_ONCE, TAG, [1, 1])) == 1
                assert int(await link.run(ADD_ONCE, TAG, [2, 1])) == 2
        assert second.command("GET", f"{TAG}:sum") == b"2"


async def test_a_cluster_of_which_one_node_restarts(tmp_path: Path) -> None:
    tags = [f"{{shoal:{shard}}}" for shard in range(8)]
    heard: list[bytes] = []
    with ValkeyCluster(tmp_path) as cluster:
        async with linked(cluster.url) as link:
            await link.subscribe(heard.append, "news")
            assert await asyncio.gather(*(link.run(ADD_ONCE, tag, [1, 1]) for tag in tags)) == [b"1"] * 8
            await cancel_some(link)
            node = cluster.node_of(tags[0])
            node.stop()
            waiting = asyncio.gather(*(link.run(ADD_ONCE, tag, [2, 1]) for tag in tags))
            await until(lambda: link.lost)
            await in_thread(node.start)
            assert await waiting == [b"2"] * 8
            assert await asyncio.gather(*(link.run(ADD_ONCE, tag, [1, 1]) for tag in tags)) == [b"2"] * 8
            cluster.nodes[1].command("PUBLISH", "news", "one")
            await until(lambda: b"one" in heard)


async def test_an_outage_is_told_once_though_whoever_waits_is_cut_short(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a dashboard does, whose requests give up after a while."""
    caplog.set_level("INFO", "shoal")
    with ValkeyServer(tmp_path, appendonly=True, fsync="always") as server:
        async with linked(server.url) as link:
            await in_thread(server.kill)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await link.run(COUNT, TAG, [1])
            await in_thread(server.start)
            assert await link.run(COUNT, TAG, [1]) == 1
            assert await link.run(COUNT, TAG, [1]) == 2
    told = [record.__dict__["event"] for record in caplog.records]
    assert told == ["store_lost", "store_back"]
