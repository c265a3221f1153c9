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
    from shoal.runtime.export import Export, Written
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
    found = _find(store, job, files or [], places, item)
    work = partial(write_rows, found, settings, key=key or (), latest=latest, fresh=fresh)
    # What is read twice takes longer than its number of rows says.
    written = _write(found.rows if len(found.readings) == 1 else 0, work, quiet=quiet)
    for name in written.unsaid:
        say(f"rows in {name} do not say which kind of item they are: in their file's name {{item}} is rows")
    if quiet:
        return
    for path, rows in written.files.items():
        say(f"{plural(rows, 'row')} in {path}")
    for kind in written.empty if found.rows else ():
        say(f"job {job} has {plural(found.rows, 'row')}, none of them of the kind {kind}: is it spelt so?")


def _find(store: str, job: str, files: Sequence[str], places: Sequence[Place], item: str) -> Export:
    from shoal.frontier import is_local
    from shoal.inspect.sources import given_sources
    from shoal.runtime.export import Export, check_places, find_rows, of_files, takers_of
    from shoal.terminal.console import ask, say

    takers = takers_of(places, item)
    if files and is_local(store) and not Path(store).is_file():
        say(f"there is no store at {store}: the files are read to their end")
        return of_files(Export(job, ()), given_sources(files, {}), takers)

    async def look(frontier: Frontier) -> Export:
        await check_places(frontier, places)
        return await find_rows(frontier, job, files, takers)

    found = ask(store, look)
    for source in found.sources:
        if source.place.kind == "database":
            say(
                f"{source.place.target}: tables that Shoal made are read; those with columns of your own are not"
            )
    if found.left_out:
        say(found.left_out)
    return found


class _Work(Protocol):
    def __call__(self, *, tell: Callable[[int], object]) -> Written: ...


def _write(total: int, work: _Work, *, quiet: bool) -> Written:
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
