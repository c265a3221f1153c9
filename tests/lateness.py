"""How late this machine is, measured while a test runs: what a test may forgive a busy one."""

from __future__ import annotations

import threading
import time
from typing import Self

_TICK = 0.01


class Lateness:
    """The longest that a sleeping thread of this process was woken late, in seconds."""

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
        ended = False
        while not ended:
            due = time.monotonic() + _TICK
            ended = self._end.wait(_TICK)
            if not ended:
                self.seconds = max(self.seconds, time.monotonic() - due)
