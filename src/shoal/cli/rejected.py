"""`shoal rejected`: items that were not written, why, and what to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.dead import JobWord, check_job, letter_query, one_job
from shoal.cli.options import DEFAULT_STORE, AsJson, Store, option, shown_store, switch
from shoal.errors import UsageError
from shoal.text import command

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.frontier.values import DeadFilter
    from shoal.inspect.rejected import Reason
    from shoal.model import DeadLetter

app = typer.Typer(help="Look at rejected items: those that were not written. Replay or drop them.")

WHICH = "Which items"

JobName = Annotated[str | None, option("--job", value="NAME", text="The same as JOB.", panel=WHICH)]
Host = Annotated[str | None, option("--host", value="HOST", text="Of pages of this host.", panel=WHICH)]
Since = Annotated[
    str | None, option("--since", value="TIME", text="Rejected since: 2h, 1d or a date.", panel=WHICH)
]
Until = Annotated[
    str | None, option("--until", value="TIME", text="Rejected before: 2h, 1d or a date.", panel=WHICH)
]
Ids = Annotated[
    list[int] | None, option("--id", value="ID", text="With this number. Repeatable.", panel=WHICH)
]
Limit = Annotated[int | None, option("--limit", value="N", text="At most so many.", panel=WHICH)]
All = Annotated[bool, switch("--all", text="All of them.", panel=WHICH)]


@app.callback(invoke_without_command=True)
def rejected(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_(
    named: JobWord = None,
    store: Store = DEFAULT_STORE,
    job: JobName = None,
    host: Host = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List rejected items, the newest first; before that, how many there are for each reason."""
    from shoal.inspect.rejected import rejected_item
    from shoal.terminal.console import ask, print_json
    from shoal.terminal.rejected_items import print_items

    query = _query(one_job(named, job), host, since, until, ids, limit)
    letters, why = ask(store, lambda frontier: _look(frontier, query))
    if as_json:
        print_json({"reasons": why, "items": [rejected_item(letter) for letter in letters]})
    else:
        print_items(letters, why, limit)


async def _look(frontier: Frontier, query: DeadFilter) -> tuple[Sequence[DeadLetter], list[Reason]]:
    from shoal.inspect.rejected import reasons

    await check_job(frontier, query.job)
    return await frontier.dead(query), await reasons(frontier, query)


@app.command()
def show(
    number: Annotated[int, typer.Argument(metavar="ID", help="The number that `shoal rejected list` shows.")],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Show one rejected item: the reason, and the item as JSON."""
    from shoal.inspect.rejected import rejected_item
    from shoal.terminal.console import ask, print_json
    from shoal.terminal.rejected_items import print_item

    query = _query(None, None, None, None, [number], None)
    found = ask(store, lambda frontier: frontier.dead(query))
    if not found:
        raise UsageError(
            f"no rejected item {number} in {shown_store(store)}; {command('rejected list')} shows which there are"
        )
    if as_json:
        print_json(rejected_item(found[0]))
    else:
        print_item(found[0])


@app.command()
def replay(
    named: JobWord = None,
    store: Store = DEFAULT_STORE,
    job: JobName = None,
    host: Host = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = None,
    everything: All = False,
) -> None:
    """Try rejected items again: hooks and schema see them, nothing is fetched. Mend the schema first."""
    from shoal.terminal.console import ask, say
    from shoal.text.humanize import plural

    query = _query(one_job(named, job), host, since, until, ids, limit)
    _require_choice(query, everything, "replay")
    number = ask(store, lambda frontier: _replay(frontier, query))
    say(f"{plural(number, 'item')} queued again" + ("; run the crawl to write them" if number else ""))


async def _replay(frontier: Frontier, query: DeadFilter) -> int:
    from shoal.inspect.actions import replay_letters
    from shoal.terminal.console import say

    await check_job(frontier, query.job)
    for job in await frontier.jobs():
        most = job.spec.max_pages
        if job.counters.rejected and query.job in (None, job.spec.name) and 0 < most <= job.counters.done:
            say(
                f"job {job.spec.name} has used up max_pages = {most}: "
                "its items are written when it runs with a larger one"
            )
    return await replay_letters(frontier, query, "shoal rejected")


@app.command()
def drop(
    named: JobWord = None,
    store: Store = DEFAULT_STORE,
    job: JobName = None,
    host: Host = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = None,
    everything: All = False,
) -> None:
    """Forget rejected items for good."""
    from shoal.terminal.console import ask, say
    from shoal.text.humanize import plural

    query = _query(one_job(named, job), host, since, until, ids, limit)
    _require_choice(query, everything, "drop")
    number = ask(store, lambda frontier: _drop(frontier, query))
    say(f"{plural(number, 'rejected item')} dropped")


async def _drop(frontier: Frontier, query: DeadFilter) -> int:
    from shoal.inspect.actions import drop_letters

    await check_job(frontier, query.job)
    return await drop_letters(frontier, query, "shoal rejected")


def _query(
    job: str | None,
    host: str | None,
    since: str | None,
    until: str | None,
    ids: Sequence[int] | None,
    limit: int | None,
) -> DeadFilter:
    from shoal.inspect.rejected import rejected_query

    return rejected_query(letter_query(job, host, None, since, until, ids, limit))


def _require_choice(query: DeadFilter, everything: bool, verb: str) -> None:
    from shoal.frontier.values import DeadFilter
    from shoal.inspect.rejected import rejected_query

    if query == rejected_query(DeadFilter()) and not everything:
        raise UsageError(
            f"say which items to {verb}: a JOB, --host, --since, --until, --id or --limit, or --all"
        )
