"""What is written to stderr while a live panel is up: it scrolls by above the panel."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from rich.live import Live

_EVERY = 0.1  # seconds


class AbovePanel(io.TextIOBase):
    """For every write the panel is drawn again, which takes milliseconds. So of many lines, those within a tenth of a
    second are written together; a single one is written at once."""

    encoding = "utf-8"

    def __init__(self, proxy: TextIO) -> None:
        self._proxy = proxy  # Rich's, which writes above the panel
        self._lock = threading.Lock()  # other threads log, too
        self._waiting: list[str] = []
        self._last = "\n"  # what was written last
        self._next = 0.0

    def write(self, text: str) -> int:
        if text:
            with self._lock:
                self._waiting.append(text)
                self._last = text
            if time.monotonic() >= self._next:
                self.show()
        return len(text)

    def show(self) -> None:
        """Writes what waits."""
        with self._lock:
            if self._waiting:
                text, self._waiting = "".join(self._waiting), []
                self._proxy.write(text)
                self._next = time.monotonic() + _EVERY

    def end(self) -> None:
        if not self._last.endswith("\n"):  # Rich keeps a line until its end
            self.write("\n")
        self.show()

    def flush(self) -> None:
        pass  # `print` and tracebacks flush after every line

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._proxy.isatty()

    def fileno(self) -> int:
        return self._proxy.fileno()

    @property
    def buffer(self) -> BinaryIO:
        return self._proxy.buffer


@contextmanager
def panel(live: Live) -> Iterator[AbovePanel]:
    """The panel is up. Call `show` of what is given now and then."""
    live.start()
    proxy = sys.stderr
    sys.stderr = above = AbovePanel(proxy)
    try:
        yield above
    finally:
        above.end()
        sys.stderr = proxy
        live.stop()
