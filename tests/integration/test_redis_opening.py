"""What is refused when a store is opened, in one line that says what to do; TLS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration.redis_tools import COUNT, TAG, in_thread, linked, until
from integration.tls_front import CERTS, tls_front
from shoal.errors import ShoalError, StoreError, UsageError
from shoal.frontier.redis import checks
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.checks import refuse
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.link import Link
from shoal.testing.servers import ValkeySentinel, ValkeyServer
from shoal.testing.servers.server_process import free_port

BRIEFLY = 1.0  # seconds, for what is waited for


async def refused(url: str, patience: float = 20.0) -> str:
    """The one line that says why. What no waiting helps is said at once, but a busy machine takes seconds."""
    link = Link(Address.parse(url, {}), open_patience=patience)
    with pytest.raises(ShoalError) as caught:
        await link.open()
    line = str(caught.value)
    assert "\n" not in line
    assert "secret" not in line
    return line


async def test_passwords_and_users(tmp_path: Path) -> None:
    users = {
        "crawler": "on >secret ~{shoal* &shoal* +eval +evalsha +info +subscribe +incrby",  # and nothing else
        "blind": "on >secret ~* +@all -info",
        "off": "off >secret ~* +@all",
    }
    with ValkeyServer(tmp_path, password="secret", users=users) as server:
        at = f"127.0.0.1:{server.port}"
        async with linked(f"redis://:secret@{at}") as link:
            assert await link.run(COUNT, TAG, [1]) == 1
        async with linked(f"redis://crawler:secret@{at}") as link:
            assert await link.run(COUNT, TAG, [1]) == 2
            with pytest.raises(UsageError, match="'crawler' may not do this"):
                await link.run(COUNT, "{other}", [1])
            await link.subscribe(lambda _: None, "shoal:news")
            with pytest.raises(
                UsageError, match=r"'crawler' may not do this \(subscribing to shoal:news and other:news\)"
            ):
                await link.subscribe(lambda _: None, "shoal:news", "other:news")
        assert "wants a password: set SHOAL_REDIS_PASSWORD" in await refused(f"redis://{at}")
        assert "refused user 'default': wrong name or password" in await refused(f"redis://:wrong@{at}")
        assert "refused user 'nobody'" in await refused(f"redis://nobody:secret@{at}")
        assert "refused user 'off'" in await refused(f"redis://off:secret@{at}")
        assert "'blind' may not do this" in await refused(f"redis://blind:secret@{at}")


async def test_a_password_for_a_server_without_one(valkey: ValkeyServer) -> None:
    assert "has no password" in await refused(f"redis://:secret@127.0.0.1:{valkey.port}")


async def test_nothing_listens_there(tmp_path: Path) -> None:
    gone = ValkeyServer(tmp_path)
    assert "nothing listens at redis://127.0.0.1" in await refused(gone.url, BRIEFLY)
    assert "cannot use the store at unix:///" in await refused(f"unix://{tmp_path}/s", BRIEFLY)


async def test_a_database_that_does_not_exist(valkey: ValkeyServer) -> None:
    assert "no database number 99" in await refused(f"{valkey.url}/99")


async def test_a_store_that_evicts(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path, maxmemory_policy="allkeys-lru") as server:
        assert "maxmemory-policy allkeys-lru" in await refused(server.url)


def test_an_old_server() -> None:
    address = Address.parse("redis://h", {})
    with pytest.raises(StoreError, match=r"is version 5\.0\.14: Shoal needs Redis 6\.2"):
        refuse(address, {"redis_version": "5.0.14"})
    refuse(address, {"redis_version": "6.2.0"})


async def test_a_replica_a_sentinel_and_a_part_of_a_cluster(tmp_path: Path, valkey: ValkeyServer) -> None:
    with ValkeyServer(tmp_path / "replica") as replica, ValkeySentinel(tmp_path / "s", valkey) as sentinel:
        replica.command("REPLICAOF", "127.0.0.1", valkey.port)
        line = await refused(replica.url)
        assert "is a read-only replica" in line
        assert f"127.0.0.1:{valkey.port}" in line
        line = await refused(f"redis://127.0.0.1:{sentinel.port}")
        assert f"is a sentinel: use redis+sentinel://127.0.0.1:{sentinel.port}/SERVICE" in line
        line = await refused(sentinel.url.replace("mymaster", "other"), BRIEFLY)
        assert "knows a primary that is up: check the service's name" in line
    assert "is not a cluster: use redis://" in await refused(f"redis+cluster://127.0.0.1:{valkey.port}")
    part = {"cluster-enabled": "yes", "cluster-port": str(free_port())}
    with ValkeyServer(tmp_path / "node", settings=part) as node:
        line = await refused(node.url)
        assert f"is part of a cluster: use redis+cluster://127.0.0.1:{node.port}" in line


async def test_a_store_that_may_forget_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ValkeyServer(tmp_path, appendonly=True, fsync="always") as server:
        async with linked(server.url):
            assert not caplog.records
        server.command("CONFIG", "SET", "appendfsync", "everysec")
        async with linked(server.url, warns=False):  # who only looks
            assert not caplog.records
        async with linked(server.url):
            assert "set appendfsync always" in caplog.text
        server.command("CONFIG", "SET", "appendonly", "no")
        async with linked(server.url):
            assert "set appendonly yes" in caplog.text


async def test_a_store_that_is_starting_is_waited_for(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    link = Link(Address.parse(server.url, {}))
    opening = asyncio.create_task(link.open())
    await asyncio.sleep(0.05)
    try:
        await in_thread(server.start)
        await opening
        assert await link.run(COUNT, TAG, [1]) == 1
    finally:
        await link.close()
        server.kill()


async def test_who_is_patient_says_once_that_it_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "shoal")
    server = ValkeyServer(tmp_path, appendonly=True, fsync="always")
    frontier = RedisFrontier(f"{server.url}?prefix=mine", patient=True)
    opening = asyncio.create_task(frontier.open())
    try:
        await until(lambda: caplog.records)
        await asyncio.sleep(1.0)  # several tries
        await in_thread(server.start)
        await opening
        assert await frontier.jobs() == []
    finally:
        await frontier.close()
        server.kill()
    [waiting, back] = [record.getMessage() for record in caplog.records]
    assert waiting == (
        f"the store at {server.url}?prefix=mine does not answer yet (connection refused), waiting for it"
    )
    assert back.startswith(f"the store at {server.url}?prefix=mine is back after")


async def test_patience_does_not_help_where_nothing_will_change(tmp_path: Path) -> None:
    """Each of these would be waited for without end."""

    async def hopeless(url: str) -> str:
        async with asyncio.timeout(20):
            with pytest.raises(UsageError) as caught:
                await RedisFrontier(Address.parse(url, {}), patient=True).open()
        return str(caught.value)

    assert "no machine has the name in redis://nowhere.invalid:6379" in await hopeless(
        "redis://nowhere.invalid"
    )
    with ValkeyServer(tmp_path, password="secret") as server:
        at = f"127.0.0.1:{server.port}"
        assert "wants a password" in await hopeless(f"redis://{at}")
        assert "wrong name or password" in await hopeless(f"redis://:wrong@{at}")
        assert "is not a cluster" in await hopeless(f"redis+cluster://:secret@{at}")

    async def another_kind(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(another_kind, "127.0.0.1", 0) as web:
        port = web.sockets[0].getsockname()[1]
        assert f"what answers at redis://127.0.0.1:{port} is no Valkey or Redis" in await hopeless(
            f"redis://127.0.0.1:{port}"
        )


async def test_a_server_that_is_silent_is_told_to_be_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "ANSWER_SECONDS", 0.2)
    held = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append((reader, writer))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        opening = asyncio.create_task(RedisFrontier(url, patient=True).open())
        await until(lambda: caplog.records)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    assert (
        caplog.records[0].getMessage()
        == f"the store at {url} does not answer yet (no answer in time), waiting for it"
    )


# -- TLS


async def test_tls(valkey: ValkeyServer) -> None:
    async with (
        tls_front(valkey.port) as port,
        linked(f"rediss://127.0.0.1:{port}?ca={CERTS}/loopback.pem") as link,
    ):
        assert await link.run(COUNT, TAG, [1]) == 1


async def test_a_certificate_that_does_not_hold(valkey: ValkeyServer) -> None:
    async with tls_front(valkey.port) as port:
        assert "self-signed certificate" in await refused(f"rediss://127.0.0.1:{port}")
    async with tls_front(valkey.port, "elsewhere") as port:
        line = await refused(f"rediss://127.0.0.1:{port}?ca={CERTS}/elsewhere.pem")
        assert "certificate of the store" in line


async def test_plain_text_to_a_tls_port(valkey: ValkeyServer) -> None:
    async with tls_front(valkey.port) as port:
        assert "speaks TLS, not plain text: use rediss://" in await refused(f"redis://127.0.0.1:{port}")


async def test_tls_to_a_plain_port(valkey: ValkeyServer) -> None:
    line = await refused(f"rediss://127.0.0.1:{valkey.port}", BRIEFLY)  # the server waits for more
    assert "speaks plain text, not TLS: use redis://" in line
