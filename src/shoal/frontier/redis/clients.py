"""redis-py's clients, made from an address.

Their own retries are off: only the link repeats calls. Their socket timeouts are off too, because on Python 3.11 they
can swallow a cancellation: the link has a timeout around the whole call, and a call that is cancelled closes its
connection. Before redis-py uses a pooled connection, it checks it and opens another if it is dead; nothing has been
sent by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis, Sentinel
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from shoal.frontier.redis.address import Address

Client = Redis | RedisCluster

CONNECT_SECONDS = 5.0
_CLUSTER_CONNECTIONS = 1000  # of each node; more than the engine ever needs at once


def make_client(address: Address) -> Client:
    match address.kind:
        case "server" if address.path:
            return Redis(unix_socket_path=address.path, db=address.db, retry=_once(), **_options(address))
        case "server":
            host, port = address.hosts[0]
            return Redis(host=host, port=port, db=address.db, retry=_once(), **_options(address))
        case "sentinel":
            plain = _options(address, credentials=False)
            sentinel = Sentinel(  # type: ignore[no-untyped-call]
                address.hosts, sentinel_kwargs={**plain, "retry": _once()}, **_options(address)
            )
            client: Redis = sentinel.master_for(address.service, db=address.db, retry=_once())
            return client
        case "cluster":
            nodes = [ClusterNode(host, port) for host, port in address.hosts]
            return RedisCluster(
                startup_nodes=nodes, retry=_once(), max_connections=_CLUSTER_CONNECTIONS, **_options(address)
            )


def make_listener(address: Address, attempt: int) -> Redis:
    """A client for a subscription. In a cluster every node has all messages, so each attempt tries another one."""
    if address.kind == "cluster":
        host, port = address.hosts[attempt % len(address.hosts)]
        return Redis(host=host, port=port, retry=_once(), **_options(address))
    client = make_client(address)
    assert isinstance(client, Redis)
    return client


def node_clients(address: Address, client: Client, tags: Sequence[str]) -> list[tuple[Redis, str]]:
    """For every server that has one of the tags, a client of its own and the tag. The caller closes them."""
    if isinstance(client, Redis):
        return [(client.client(), tags[0])]
    nodes = {}
    for tag in tags:
        node = client.get_node_from_key(tag)
        assert node is not None, "a cluster whose slots are all served"
        nodes[node.host, node.port] = tag
    return [
        (
            Redis(
                host=host, port=int(port), retry=_once(), single_connection_client=True, **_options(address)
            ),
            tag,
        )
        for (host, port), tag in nodes.items()
    ]


async def close_client(client: Client) -> None:
    await client.aclose()
    pool = None if isinstance(client, RedisCluster) else client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        await pool.disconnect()
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def _once() -> Retry:
    return Retry(NoBackoff(), 0)


def _options(address: Address, credentials: bool = True) -> dict[str, Any]:
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_SECONDS,
    }
    if credentials:
        options |= {"username": address.username, "password": address.password}
    if not address.path:
        options["socket_keepalive"] = True
    if address.tls:
        options |= {
            "ssl": True,
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
            "ssl_ca_certs": address.ca,
            "ssl_certfile": address.cert,
            "ssl_keyfile": address.key,
        }
    return options
