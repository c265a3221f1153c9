"""The log: the standard library's, under the name "shoal", one plain line a record on stderr."""

from __future__ import annotations

import logging
import sys

from shoal.errors import UsageError
from shoal.observe.words import printable

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "warning"

log = logging.getLogger("shoal")


class StderrHandler(logging.Handler):
    """Looks stderr up for every record: while the live view is up, stderr is a proxy that prints above it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{printable(self.format(record))}\n")
        except Exception:
            self.handleError(record)


def set_up(level: str) -> None:
    """Sends the log to stderr from `level` on; may be called again to change it."""
    name = level.strip().lower()
    if name not in LEVELS:
        raise UsageError(f"log level {level!r} is not known: use one of {', '.join(LEVELS)}")
    if not any(isinstance(handler, StderrHandler) for handler in log.handlers):
        handler = StderrHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.propagate = False
    log.setLevel(name.upper())
