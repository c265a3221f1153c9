"""Checks a store before it is used: that it answers, and that it does not lose data."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from time import monotonic
from typing import Any

from redis import exceptions as said
from redis.asyncio.cluster import RedisCluster

from shoal.errors import StoreError, UsageError
from shoal.events import event
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.clients import CONNECT_SECONDS, Client
from shoal.frontier.redis.faults import FAULTS, delay, meaning, misunderstood, never_helps, reason, translate
from shoal.frontier.values import Room

OLDEST = (6, 2)
ANSWER_SECONDS = 5.0  # for one try
Info = Mapping[str, Any]


async def check(address: Address, client: Client, patience: float, *, warns: bool = True) -> None:
    """Waits up to `patience` seconds for the store. Raises if it cannot be used, and logs warnings."""
    infos = await _ask(address, client, patience)
    for info in infos:
        refuse(address, info)
    if not warns:
        return
    if not all(info.get("aof_enabled") for info in infos):
        event("store_forgets", store=str(address))
    elif late := sorted(set(await fsync_of(client)) - {"always"}):
        event("store_syncs_late", store=str(address), policy=", ".join(late))


async def _ask(address: Address, client: Client, patience: float) -> list[Info]:
    """INFO of every primary. Logs a long wait, and raises at once if waiting cannot help."""
    began, attempt, told = monotonic(), 0, False
    while True:
        left = began + patience - monotonic()
        try:
            async with asyncio.timeout(max(0.1, min(left, ANSWER_SECONDS))):
                infos = await _infos(client)
        except FAULTS as error:
            if misunderstood(error):
                await refuse_wrong_protocol(address)
            if left <= 0 or meaning(error) != "passing" or never_helps(error):
                raise translate(error, address) from error
            if not told and patience > ANSWER_SECONDS:
                told = True
                event("store_awaited", store=str(address), reason=reason(error))
            attempt += 1
            await asyncio.sleep(min(delay(attempt), max(left, 0)))
        else:
            if told:
                event("store_back", store=str(address), seconds=monotonic() - began)
            return infos


async def fsync_of(client: Client) -> list[str]:
    """The appendfsync of every primary; empty if the user may not read it."""
    words = ("CONFIG", "GET", "appendfsync")
    try:
        if isinstance(client, RedisCluster):
            nodes = client.get_primaries()
            answers = [await client.execute_command(*words, target_nodes=node) for node in nodes]
        else:
            answers = [await client.execute_command(*words)]  # type: ignore[no-untyped-call]
    except FAULTS:
        return []
    return [word.decode() for answer in answers for word in answer[1:2]]


async def _infos(client: Client) -> list[Info]:
    answers = await infos(client)
    if any(info.get("loading") for info in answers):
        raise said.BusyLoadingError("the server is loading its data")
    return answers


async def infos(client: Client, *sections: str) -> list[Info]:
    """INFO of every primary."""
    if isinstance(client, RedisCluster):
        await client.initialize()
        nodes = client.get_primaries()
        return [await client.execute_command("INFO", *sections, target_nodes=node) for node in nodes]
    return [await client.execute_command("INFO", *sections)]  # type: ignore[no-untyped-call]


def room_of(info: Info) -> Room:
    """As the server counts: without output and replication buffers."""
    used = int(info.get("used_memory", 0)) - int(info.get("mem_not_counted_for_evict", 0))
    return Room(max(0, used), int(info.get("maxmemory", 0)))


def refuse(address: Address, info: Info) -> None:
    """Raises if a queue would not be safe there, or if the server is not what the address says."""
    at = f"the store at {address}"
    version = str(info.get("redis_version", "0"))
    mode = info.get("redis_mode") or info.get("server_mode")  # Valkey's word for it
    if mode == "sentinel":
        raise UsageError(f"{at} is a sentinel: use {_other(address, '+sentinel')}/SERVICE{address.options}")
    if mode == "cluster" and address.kind != "cluster":
        raise UsageError(f"{at} is part of a cluster: use {_other(address, '+cluster')}{address.options}")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST:
        raise StoreError(f"{at} is version {version}: Shoal needs Redis 6.2 or later, or any Valkey")
    if info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        raise StoreError(f"{at} is a read-only replica: name the primary, which is at {primary}")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise StoreError(
            f"{at} throws data away when memory runs out (maxmemory-policy {policy}), and a queue must not lose any:"
            " set maxmemory-policy noeviction"
        )


def _other(address: Address, kind: str) -> str:
    hosts = ",".join(f"{host}:{port}" for host, port in address.hosts)
    return f"{address.scheme.partition('+')[0]}{kind}://{hosts}"


async def refuse_wrong_protocol(address: Address) -> None:
    """Raises if the server speaks TLS and the address does not, or the other way round: tries the other protocol."""
    if not address.hosts:
        return
    host, port = address.hosts[0]
    try:
        async with asyncio.timeout(CONNECT_SECONDS / 5):
            other = await (_answers_plain_text(host, port) if address.tls else _answers_tls(host, port))
    except (OSError, asyncio.IncompleteReadError):
        return
    if other and address.tls:
        plain = address.scheme.replace("rediss", "redis").replace("valkeys", "valkey")
        raise UsageError(f"the store at {address} speaks plain text, not TLS: use {plain}://")
    if other:
        secure = address.scheme.replace("redis", "rediss").replace("valkey", "valkeys")
        raise UsageError(f"the store at {address} speaks TLS, not plain text: use {secure}://")


async def _answers_plain_text(host: str, port: int) -> bool:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"PING\r\n")
        return (await reader.readexactly(1)) in b"+-"
    finally:
        writer.close()


async def _answers_tls(host: str, port: int) -> bool:
    """Only shakes hands. The certificate does not matter, as nothing is sent."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError:
        return False
    writer.close()
    return True
