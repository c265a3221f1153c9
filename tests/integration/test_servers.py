"""The servers that other tests rely on: what is durable comes back, and none outlives its process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
from redis import exceptions as said

from shoal.testing.servers import PostgresServer, ValkeyCluster, ValkeyServer
from shoal.testing.servers.server_process import wait_until


def test_an_append_only_valkey_remembers_across_a_restart_and_a_kill(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path, appendonly=True, fsync="always", password="a b/c") as server:
        server.command("SET", "colour", "blue")
        server.restart()
        assert server.command("GET", "colour") == b"blue"
        server.command("SET", "colour", "green")
        server.kill()
        assert not server.running
        server.start()
        assert server.command("GET", "colour") == b"green"


def test_a_paused_valkey_says_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path, users={"reader": "on >secret ~* +get"}) as server:
        server.pause()
        assert "paused" in repr(server)
        server.resume()
        assert server.command("PING") is True
        assert b"reader" in b" ".join(server.command("ACL", "LIST"))


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such-directive"):
        ValkeyServer(tmp_path, settings={"no-such-directive": "1"}).start()


def test_a_cluster_comes_together_and_takes_a_node_back(tmp_path: Path) -> None:
    with ValkeyCluster(tmp_path) as cluster:
        node = cluster.node_of("{a}")
        node.command("SET", "{a}1", "x")
        other = next(other for other in cluster.nodes if other is not node)
        with pytest.raises(said.ResponseError, match=str(node.port)):
            other.command("GET", "{a}1")
        node.restart()
        cluster.wait()
        assert node.command("GET", "{a}1") == b"x"


def test_flushed_between_tests(valkey: ValkeyServer) -> None:
    assert valkey.command("DBSIZE") == 0


async def test_postgres_remembers_across_a_kill_and_a_restart(
    postgres_server: PostgresServer, postgres: str
) -> None:
    async def ask(sql: str) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(postgres)
        try:
            return await connection.fetch(sql)
        finally:
            await connection.close()

    await ask("CREATE TABLE colours AS SELECT 'blue' AS name")
    postgres_server.kill()
    postgres_server.start()
    assert [row["name"] for row in await ask("SELECT name FROM colours")] == ["blue"]
    postgres_server.restart()
    assert [row["name"] for row in await ask("SELECT name FROM colours")] == ["blue"]


async def test_a_paused_postgres_says_nothing_until_it_is_resumed(
    postgres_server: PostgresServer, postgres: str
) -> None:
    connection = await asyncpg.connect(postgres)
    postgres_server.pause()
    try:
        asked = asyncio.create_task(connection.fetchval("SELECT 7"))
        done, _ = await asyncio.wait([asked], timeout=0.1)
        assert not done
    finally:
        postgres_server.resume()
    assert await asked == 7
    await connection.close()


STARTER = """
import sys, time
from shoal.testing.servers import ValkeyServer
server = ValkeyServer(sys.argv[1])
server.start()
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_server_ends_when_its_process_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    assert is_alive(pid)
    starter.kill()
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not is_alive(pid), 10, "the server lives on")


def is_alive(pid: int) -> bool:
    """A process that has ended but was not collected counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:  # gone, or going while it is read
        return False
