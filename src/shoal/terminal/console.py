"""Where commands print: results on stdout, everything about them on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, TextIO, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.engine.event_loop import run_loop
from shoal.telemetry.logging import log, only_json
from shoal.text.humanize import printable

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier

T = TypeVar("T")

PIPE_WIDTH = 200
STATES = {"running": "green", "paused": "yellow", "finished": "dim", "cancelled": "red"}  # of jobs


def stdout() -> Console:
    return _console(sys.stdout)


def stderr() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # A file or a pipe has no edge to wrap at; programs read lines.
    return Console(file=stream, highlight=False, emoji=False, width=None if stream.isatty() else PIPE_WIDTH)


def say(message: str) -> None:
    """One line about what happened, on stderr."""
    if only_json():
        log.info("%s", message)
    else:
        sys.stderr.write(f"{printable(message)}\n")


def print_json(value: object) -> None:
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if (sys.stdout.encoding or "utf-8").lower() != "utf-8":
        encoded = json.dumps(json.loads(encoded), indent=2)  # in ASCII
    sys.stdout.write(encoded + "\n")


def table(*columns: str, right: tuple[str, ...] = (), cut: bool = False) -> Table:
    """An empty table in the house style; the columns named in `right` hold numbers. What does not fit is wrapped, or
    cut if a row shall take one line."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="ellipsis" if cut else "fold",
            no_wrap=cut,
        )
    return made


def safe(text: str, style: str = "") -> Text:
    """Text from elsewhere: nothing in it is markup or a command to the terminal."""
    return Text(printable(text), style)


def when(at: float) -> str:
    """Local time, to the second."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def ask(
    store: str,
    question: Callable[[Frontier], Awaitable[T]],
    *,
    create: bool = False,
    patient: bool = False,
) -> T:
    """Opens the store, which must exist unless it may be created, asks one question and closes it again. Who is
    `patient` waits for a server that is not there yet."""

    async def answer() -> T:
        from shoal.frontier import open_frontier

        async with open_frontier(store, create=create, patient=patient) as frontier:
            return await question(frontier)

    return run_loop(answer())
