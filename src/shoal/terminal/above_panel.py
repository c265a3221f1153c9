"""What is written to stderr while a live panel is up: it scrolls by above the panel."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.live import Live
from rich.text import Text

_EVERY = 0.1  # seconds


class AbovePanel(io.TextIOBase):
    """For every write the panel is drawn again, which takes milliseconds. So of many lines, those within a tenth of a
    second are written together; a single one is written at once."""

    encoding = "utf-8"

    def __init__(self, console: Console, stream: TextIO) -> None:
        self._console = console  # of the panel: what it prints is above that
        self._stream = stream
        self._lock = threading.Lock()  # other threads log, too
        self._decoder = AnsiDecoder()  # of colours
        self._waiting: list[str] = []
        self._next = 0.0

    def write(self, text: str) -> int:
        if text:
            with self._lock:
                self._waiting.append(text)
            if time.monotonic() >= self._next:
                self.show()
        return len(text)

    def show(self) -> None:
        """Writes the lines that wait. One that has no end yet waits for it."""
        with self._lock:
            if not self._waiting:
                return
            *lines, rest = "".join(self._waiting).split("\n")
            self._waiting = [rest] if rest else []
            if lines:
                decoded = (self._decoder.decode_line(line.rstrip("\r")) for line in lines)
                # Long lines are left to the terminal: a URL that is broken in two cannot be clicked or copied.
                self._console.print(Text("\n").join(decoded), soft_wrap=True)
            self._next = time.monotonic() + _EVERY

    def end(self) -> None:
        if self._waiting and not self._waiting[-1].endswith("\n"):
            self.write("\n")
        self.show()

    def flush(self) -> None:
        pass  # `print` and tracebacks flush after every line

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def buffer(self) -> BinaryIO:
        return self._stream.buffer


@contextmanager
def panel(live: Live) -> Iterator[AbovePanel]:
    """The panel is up. Call `show` of what is given now and then."""
    live.start()
    stream = sys.stderr
    sys.stderr = above = AbovePanel(live.console, stream)
    try:
        yield above
    finally:
        above.end()
        sys.stderr = stream
        live.stop()
