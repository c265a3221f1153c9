"""A process of `shoal extract`, as its parent sees it."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection

from shoal.engine.liveness import shared_file
from shoal.runtime.extract_messages import ExtractPlan, FromChild, Look, ToChild, Work, encoded, from_child
from shoal.telemetry.logging import is_json, level

# Without these, glibc may give memory back to the system after every page and ask for it again: a quarter
# of the time that a page takes. Other libraries ignore them.
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}
_PATIENCE = 10.0  # seconds for the end of a process that was told to end


class ChildProcess:
    def __init__(self, plan: ExtractPlan) -> None:
        ours, theirs = socket.socketpair()
        memory = shared_file("shoal-extract")
        os.ftruncate(memory, 4096)
        self._progress = memoryview(mmap.mmap(memory, 4096)).cast("Q")  # as `extract_child` writes it
        self._seen, self._seen_at = -1, 0.0
        self.task: Look | Work | None = None
        self.is_idle = False
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "shoal.runtime.extract_child",
                    level(),
                    "json" if is_json() else "text",
                    *map(str, (os.getpid(), theirs.fileno(), memory)),
                ],
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                env=_MALLOC | os.environ,
            )
        os.close(memory)
        self.connection = Connection(ours.detach())
        self.send(plan)

    def send(self, message: ToChild) -> None:
        try:
            self.connection.send_bytes(encoded(message))
        except (BrokenPipeError, ConnectionError):
            pass  # `receive` tells

    def receive(self) -> FromChild:
        return from_child(self.connection.recv_bytes())

    def give(self, task: Look | Work) -> None:
        self.task, self.is_idle = task, False
        self._seen = -1
        self.send(task)

    def idle(self) -> None:
        self.task, self.is_idle = None, True

    @property
    def place(self) -> int:
        """The page at hand, in its batch."""
        return min(self._progress[0], len(self.task.spots) - 1) if isinstance(self.task, Work) else 0

    def stuck_for(self) -> float:
        """Seconds since it was last seen to begin a page."""
        now = time.monotonic()
        if self._progress[1] != self._seen:
            self._seen, self._seen_at = self._progress[1], now
        return now - self._seen_at

    def ending(self) -> str:
        """How it ended."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def join(self) -> None:
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.connection.close()
