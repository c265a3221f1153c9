"""The chaotic web in a process of its own, for crawlers that are killed or measured."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

import msgspec

import shoal
from shoal.testing.web.chaotic import WebView
from shoal.testing.web.profile import Hit, HostProfile, WebSpec

_END_TIMEOUT = 10.0


class WebProcess(WebView):
    """Serves `hosts` while its `with` block runs, writing each hit as a line of JSON to `log`.

    The server ends when its standard input closes, so it cannot outlive the process that started it.
    """

    def __init__(
        self,
        hosts: Sequence[HostProfile] | Mapping[str, HostProfile],
        seed: int = 0,
        log: Path | None = None,
    ) -> None:
        super().__init__(WebSpec.of(hosts, seed))
        self._own_directory: tempfile.TemporaryDirectory[str] | None = None
        if log is None:
            self._own_directory = tempfile.TemporaryDirectory(prefix="shoal-web-")
            log = Path(self._own_directory.name) / "hits.jsonl"
        self.log = log

    def hits(self) -> list[Hit]:
        if self._server.poll() is None:
            self._ask(b"flush")
        decode = msgspec.json.Decoder(Hit).decode
        return [decode(line) for line in self.log.read_bytes().splitlines()]

    @property
    def pid(self) -> int:
        return self._server.pid

    def cpu_seconds(self) -> float:
        """The processor time the server has taken so far."""
        return float(self._ask(b"cpu"))

    def under_way(self, host: str) -> int:
        """How many requests a host is answering now."""
        return msgspec.json.decode(self._ask(b"busy"), type=dict[str, int])[host]

    def hurry(self, host: str) -> None:
        """From now on a host answers at once, also what it has already been asked."""
        self._ask(f"hurry {host}".encode())

    def __enter__(self) -> Self:
        # A session of its own: Ctrl-C is meant for the crawler, which may still have pages to finish.
        self._server = subprocess.Popen(
            [sys.executable, "-m", "shoal.testing.web", "--spec", "-", "--log", str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
        self.addresses = msgspec.json.decode(self._ask(msgspec.json.encode(self.spec)), type=dict[str, str])
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stdin.close()
            self._server.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        finally:
            self._stdout.close()
            if self._own_directory is not None:
                self._own_directory.cleanup()

    def _ask(self, line: bytes) -> bytes:
        try:
            self._stdin.write(line + b"\n")
            self._stdin.flush()
            answer = self._stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise RuntimeError("the web server process has ended; its standard error says why")
        return answer

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._server.stdin is not None
        return self._server.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._server.stdout is not None
        return self._server.stdout


def _environment() -> dict[str, str]:
    """Lets the child import the same shoal, also when it is not installed."""
    source = str(Path(shoal.__file__).parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, path]) if path else source}
