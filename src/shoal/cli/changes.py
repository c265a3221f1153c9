"""`shoal changes`: what has changed on the pages of a job."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store, moment, option


def changes(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job whose pages are visited again.")],
    since: Annotated[
        str | None, option("--since", value="TIME", text="Only changes since: 2h, 1d or a date.")
    ] = None,
    key: Annotated[str, option("--key", value="KEY", text="Only of the item with this key.")] = "",
    field: Annotated[str, option("--field", value="FIELD", text="Only of this field.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")] = 50,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Show what has changed on the pages of a JOB, the newest first, from its output for changes (-o changes=FILE)."""
    from shoal.inspect.changes import Wish, newest_changes
    from shoal.terminal.change_table import print_changes
    from shoal.terminal.console import ask, print_json

    wish = Wish(limit, moment(since, time.time(), "--since"), key, field)
    found = ask(store, lambda frontier: newest_changes(frontier, job, wish))
    if as_json:
        print_json(found)
    else:
        print_changes(found)
