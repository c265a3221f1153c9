"""Standard input, output and error, which a command may be started without (`<&-`, `>&-`, `2>&-`).

The next file that is opened would take the free number: a socket or the database would be where a log line is
written to. So the numbers are taken at once.
"""

from __future__ import annotations

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")

_closed: set[str] = set()


def open_closed_streams() -> None:
    """Called before anything else is opened."""
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            os.set_inheritable(number, True)
            _closed.add(name)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, closefd=False, errors="backslashreplace"))  # noqa: SIM115


def is_closed(name: str) -> bool:
    """Whether the command was started without this stream."""
    return name in _closed
