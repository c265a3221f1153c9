"""`shoal rows`: the newest rows of a job."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store, option


def rows(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job, finished or running.")],
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="How many rows.")] = 20,
    item: Annotated[str, option("--item", value="ITEM", text="Only rows of this kind of item.")] = "",
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Show the newest rows of a JOB, the newest first, whatever its output and on whichever machine it runs."""
    from shoal.inspect.rows import newest_rows
    from shoal.terminal.console import ask, print_json
    from shoal.terminal.row_table import print_rows

    found = ask(store, lambda frontier: newest_rows(frontier, job, number, item))
    if as_json:
        print_json(found)
    else:
        print_rows(found)
