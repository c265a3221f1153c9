"""How late this machine is, measured while a test runs: what a test may forgive a busy one."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

_TICK = 0.01
_LOOK = 0.1
_PRESSURE = Path("/proc/pressure/cpu")


class _Watcher:
    """A thread that measures while the block runs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="lateness", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _measure(self) -> None:
        raise NotImplementedError


class Lateness(_Watcher):
    """For a moment that is noted late, and for work that takes longer because others work, too. `seconds`: the longest
    that a sleeping thread of this process was woken late."""

    def __init__(self) -> None:
        super().__init__()
        self._before, self._after = _stalled(), 0.0

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._after = _stalled()

    @property
    def stalled(self) -> float:
        """The time in which somebody waited for a processor, so far. A kernel that does not tell leaves a guess."""
        if not _PRESSURE.exists():
            return 10 * self.seconds
        return (self._after or _stalled()) - self._before

    def _measure(self) -> None:
        ended = False
        while not ended:
            due = time.monotonic() + _TICK
            ended = self._end.wait(_TICK)
            if not ended:
                self.seconds = max(self.seconds, time.monotonic() - due)


class DiskLateness(_Watcher):
    """The seconds that writes to a disk took beyond what they usually take."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def _measure(self) -> None:
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".disk-") as file:
            while not self._end.wait(_LOOK):
                began = time.monotonic()
                file.write(b".")
                file.flush()
                os.fsync(file.fileno())
                self.seconds += max(0.0, time.monotonic() - began - _LOOK)


def _stalled() -> float:
    """Since the machine was started. A sleeper that wakes is served at once even if many compute, so that it is late by
    little; those who compute are late by this."""
    try:
        line = _PRESSURE.read_text().splitlines()[0]  # some avg10=… avg60=… avg300=… total=microseconds
    except OSError:
        return 0.0
    return int(line.rpartition("=")[2]) / 1e6
