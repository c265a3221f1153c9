"""`shoal export`: the rows of a job in other formats, without crawling."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from shoal.cli import options
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.inspect.sources import Sources
    from shoal.sink.outputs import Place


def export(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job whose rows are exported.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]", help="Its files, if they were copied here from several machines."),
    ] = None,
    output: Annotated[
        list[str] | None,
        options.option("-o", "--output", value="FILE", text="Where rows go, as in shoal crawl. Repeatable."),
    ] = None,
    item: Annotated[str, options.option("--item", value="ITEM", text="Only rows of this kind of item.")] = "",
    key: Annotated[
        list[str] | None,
        options.option(
            "--key", value="FIELD", text="Of rows with the same value there, only the first. Repeatable."
        ),
    ] = None,
    latest: Annotated[
        bool, options.switch("--latest", text="With --key: of rows with the same value, the last.")
    ] = False,
    store: options.Store = options.DEFAULT_STORE,
    fresh: Annotated[bool, options.switch("--fresh", text="Replace files that are there already.")] = False,
    quiet: options.Quiet = False,
    pairs: options.Pairs = None,
    config: options.Config = None,
) -> None:
    """Write the rows of a JOB into files of other formats, or merge the files of a fleet. Nothing is fetched; what is
    committed now is exported, also while the job runs."""
    from shoal.config import load
    from shoal.runtime.export import write_rows
    from shoal.sink.outputs import expand, read_output
    from shoal.terminal.console import say
    from shoal.text.humanize import plural

    if not output:
        raise UsageError(f"say where the rows go: shoal export {job} -o rows.csv")
    if latest and not key:
        raise UsageError(
            f"--latest: say what the key of the rows is: shoal export {job} --latest --key id -o …"
        )
    places = read_output(expand(output, job, datetime.now(UTC).strftime("%Y-%m-%d")))
    settings = load(config, {}, os.environ, options.flags(pairs))
    found, total = _sources(store, job, files or [], places, item)
    written = _write(
        total,
        partial(
            write_rows,
            found.files,
            places,
            settings,
            item=item,
            key=key or (),
            latest=latest,
            replace=fresh,
            least=0 if files or item or key else total,
        ),
        quiet=quiet,
    )
    if not quiet:
        for path, rows in written.items():
            say(f"{plural(rows, 'row')} in {path}")
        if item and total and not any(written.values()):
            say(f"job {job} has {plural(total, 'row')}, none of them of the kind {item}: is it spelt so?")


def _sources(
    store: str, job: str, files: Sequence[str], places: Sequence[Place], item: str
) -> tuple[Sources, int]:
    from shoal.frontier import is_local
    from shoal.inspect.sources import given_sources
    from shoal.runtime.export import check_places, check_sources, find_sources
    from shoal.terminal.console import ask, say

    if files and is_local(store) and not Path(store).is_file():
        say(f"there is no store at {store}: the files are read to their end")
        return given_sources(files, {}), 0

    async def look(frontier: Frontier) -> tuple[Sources, int]:
        await check_places(frontier, places)
        return await find_sources(frontier, job, files, item)

    found, total = ask(store, look)
    for source in found.files:
        if source.place.kind == "database":
            say(
                f"{source.place.target}: tables that Shoal made are read; those with columns of your own are not"
            )
    if left_out := check_sources(found, job, given=bool(files)):
        say(left_out)
    return found, total


class _Work(Protocol):
    def __call__(self, *, tell: Callable[[int], object]) -> dict[str, int]: ...


def _write(total: int, work: _Work, *, quiet: bool) -> dict[str, int]:
    """Does the work, with a bar that shows how far it is."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from shoal.terminal.console import stderr

    console = stderr()
    if quiet or not console.is_terminal:
        return work(tell=lambda _: None)
    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total or None)
        return work(tell=lambda number: progress.update(task, completed=number))
