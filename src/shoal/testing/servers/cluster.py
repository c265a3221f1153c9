"""A Valkey cluster on loopback: primaries that share the slots evenly, each with a replica if that is wanted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from shoal.testing.servers.ports import free_port
from shoal.testing.servers.process import wait_until
from shoal.testing.servers.valkey import ValkeyServer

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
                    "cluster-node-timeout": "1000",
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
