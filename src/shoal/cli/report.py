"""`shoal report`: a crawl as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options
from shoal.errors import SinkError, UsageError

_HEAD = 2_000  # bytes in which a report says that it is one


def report(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job to report on, finished or running.")],
    output: Annotated[
        Path | None,
        options.option(
            "-o", "--output", value="FILE", text="Where the report goes.", default="JOB-report.html"
        ),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    force: Annotated[bool, options.switch("--force", text="Write over a file that is no report.")] = False,
) -> None:
    """Write an HTML file about a JOB: its pages, latency, errors, hosts and dead letters. It needs nothing else."""
    from shoal.report.document import render
    from shoal.report.gathering import gather
    from shoal.sink.outputs import plain_name
    from shoal.terminal.console import ask, say

    path = output or Path(f"{plain_name(job)}-report.html")
    if not force:
        _check(path)
    found = ask(store, lambda frontier: gather(frontier, job))
    page = render(found)
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise SinkError(
            f"cannot write the report to {path}: {error.strerror}; choose another place with -o"
        ) from None
    if found.gone:
        say(found.gone)
    say(f"the report is in {path}")


def _check(path: Path) -> None:
    """Whether the file is an older report, which may be replaced."""
    from shoal.report.document import GENERATOR

    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written over: {error.strerror}; choose another file with -o"
        ) from None
    if f'content="{GENERATOR}"'.encode() not in head:
        raise UsageError(
            f"{path} is there already, and is no report: choose another file with -o, or use --force"
        )
