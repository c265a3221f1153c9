"""What spiders print. It goes to stderr, above the live panel: stdout may be where the results go."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import ExitStack
from typing import BinaryIO, TextIO

from shoal.humanize import printable
from shoal.spider import debugging
from shoal.telemetry.logging import PRINTED, is_json, log

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


def take_stdout() -> None:
    """From now on `print` goes to stderr."""
    if not isinstance(sys.stdout, Printed):
        sys.stdout = Printed(sys.stdout)
        _listening.enter_context(debugging.listening(_at_prompt))


def _at_prompt(opened: bool) -> None:
    """A debugger that can write to the terminal itself has line editing there."""
    global _put_aside
    if opened and isinstance(sys.stdout, Printed) and sys.stdout.results.isatty():
        _put_aside, sys.stdout = sys.stdout, sys.stdout.results
    elif not opened and _put_aside is not None:
        sys.stdout, _put_aside = _put_aside, None


def give_stdout_back() -> None:
    _listening.close()
    if isinstance(sys.stdout, Printed):
        sys.stdout.end()
        sys.stdout = sys.stdout.results
