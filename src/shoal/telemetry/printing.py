"""What spiders print. It goes to stderr, above the live panel: stdout may be where the results go."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import ExitStack
from typing import BinaryIO, TextIO

from shoal.spider import debugging
from shoal.telemetry.logging import PRINTED, is_json, log
from shoal.text.humanize import printable

_listening = ExitStack()
_put_aside: Printed | None = None


class Printed(io.TextIOBase):
    """Takes the place of sys.stdout. In a log of JSON lines, what is printed is one of them for each line."""

    encoding = "utf-8"

    def __init__(self, results: TextIO) -> None:
        self.results = results  # the real one
        self._line = ""

    def write(self, text: str) -> int:
        if not is_json():
            sys.stderr.write(printable(text))
            return len(text)
        *ended, self._line = (self._line + text).split("\n")
        for line in ended:
            self._tell(line)
        return len(text)

    def _tell(self, line: str) -> None:
        # Not by way of a logger, whose level may be above: who prints wants to see it.
        log.handle(logging.LogRecord(PRINTED, logging.INFO, "", 0, line, None, None))

    def flush(self) -> None:
        sys.stderr.flush()

    def end(self) -> None:
        """Tells a last line that has no end."""
        if self._line:
            self._tell(self._line)
            self._line = ""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return sys.stderr.isatty()

    def fileno(self) -> int:
        return sys.stderr.fileno()

    @property
    def buffer(self) -> BinaryIO:
        return sys.stderr.buffer


class Typed(io.TextIOBase):
    """Takes the place of sys.stdin on a terminal: while somebody is asked by `input`, or by a debugger that reads
    from it, the crawl steps aside as for a breakpoint."""

    def __init__(self, typed: TextIO) -> None:
        self.typed = typed  # the real one

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        with debugging.prompting(), debugging.own_signals():
            try:
                return self.typed.readline(-1 if size is None else size)
            except KeyboardInterrupt:
                if debugging.is_inside(sys._getframe()):
                    raise  # it knows what to do
                debugging.quit_crawl()
                debugging.check_quit()
                raise

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.typed.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.typed.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.typed.errors

    @property
    def buffer(self) -> BinaryIO:
        return self.typed.buffer


def take_stdout() -> None:
    """From now on `print` goes to stderr, and whoever asks a person has the terminal."""
    if not isinstance(sys.stdout, Printed):
        sys.stdout = Printed(sys.stdout)
        _listening.enter_context(debugging.listening(_at_prompt))
    if not isinstance(sys.stdin, Typed) and sys.stdin is not None and sys.stdin.isatty():
        sys.stdin = Typed(sys.stdin)


def _at_prompt(opened: bool) -> None:
    """A debugger that can write to the terminal itself has line editing there."""
    global _put_aside
    if opened and isinstance(sys.stdout, Printed) and sys.stdout.results.isatty():
        _put_aside, sys.stdout = sys.stdout, sys.stdout.results
    elif not opened and _put_aside is not None:
        sys.stdout, _put_aside = _put_aside, None


def give_stdout_back() -> None:
    _listening.close()
    if isinstance(sys.stdin, Typed):
        sys.stdin = sys.stdin.typed
    if isinstance(sys.stdout, Printed):
        sys.stdout.end()
        sys.stdout = sys.stdout.results
