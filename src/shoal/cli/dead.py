"""`shoal dead`: pages that were given up, why, and what to do with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store, moment, option, shown_store, switch
from shoal.errors import UsageError
from shoal.text import command

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.frontier.values import DeadFilter
    from shoal.model import DeadLetter

T = TypeVar("T")

app = typer.Typer(help="Look at dead letters: pages that were given up. Replay or drop them.")

WHICH = "Which dead letters"

JobWord = Annotated[str | None, typer.Argument(metavar="JOB", help="Of this job.")]
JobName = Annotated[str | None, option("--job", value="NAME", text="The same as JOB.", panel=WHICH)]
Host = Annotated[str | None, option("--host", value="HOST", text="Of this host.", panel=WHICH)]
Kind = Annotated[str | None, option("--kind", value="KIND", text="That died of this: http_404.", panel=WHICH)]
Since = Annotated[
    str | None, option("--since", value="TIME", text="Buried since: 2h, 1d or a date.", panel=WHICH)
]
Until = Annotated[
    str | None, option("--until", value="TIME", text="Buried before: 2h, 1d or a date.", panel=WHICH)
]
Ids = Annotated[
    list[int] | None, option("--id", value="ID", text="With this number. Repeatable.", panel=WHICH)
]
Limit = Annotated[int | None, option("--limit", value="N", text="At most so many.", panel=WHICH)]
All = Annotated[bool, switch("--all", text="All of them.", panel=WHICH)]


@app.callback(invoke_without_command=True)
def dead(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_(
    named: JobWord = None,
    store: Store = DEFAULT_STORE,
    job: JobName = None,
    host: Host = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the newest first, each with its number, time, kind and URL."""
    from shoal.inspect.json_form import letter_dict
    from shoal.terminal import tables
    from shoal.terminal.console import print_json

    query = letter_query(one_job(named, job), host, kind, since, until, ids, limit)
    found = _letters(store, query)
    if as_json:
        print_json([letter_dict(letter) for letter in found])
    else:
        tables.print_letters(found, limit)


@app.command()
def show(
    number: Annotated[int, typer.Argument(metavar="ID", help="The number that `shoal dead list` shows.")],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: its attempts, the last response, the traceback."""
    from shoal.frontier.values import DeadFilter
    from shoal.inspect.json_form import letter_dict
    from shoal.model import REJECTED
    from shoal.terminal import tables
    from shoal.terminal.console import print_json

    found = _letters(store, DeadFilter(ids=(number,)))
    if not found and _letters(store, DeadFilter(ids=(number,), kind=REJECTED)):
        raise UsageError(f"{number} is a rejected item: {command(f'rejected show {number}')}")
    if not found:
        raise UsageError(
            f"no dead letter {number} in {shown_store(store)}; {command('dead list')} shows which there are"
        )
    if as_json:
        print_json(letter_dict(found[0]))
    else:
        tables.print_letter(found[0])


@app.command()
def replay(
    named: JobWord = None,
    store: Store = DEFAULT_STORE,
    job: JobName = None,
    host: Host = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = None,
    everything: All = False,
) -> None:
    """Put dead letters back into the queue, with a fresh set of attempts."""
    from shoal.inspect.actions import replay_letters
    from shoal.terminal.console import say
    from shoal.text.humanize import plural

    query = letter_query(one_job(named, job), host, kind, since, until, ids, limit)
    _require_choice(query, everything, "replay")
    number = _act(store, query, lambda frontier: replay_letters(frontier, query, "shoal dead"))
    say(f"{plural(number, 'page')} queued again" + ("; run the crawl to fetch them" if number else ""))


@app.command()
def drop(
    named: JobWord = None,
    store: Store = DEFAULT_STORE,
    job: JobName = None,
    host: Host = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = None,
    everything: All = False,
) -> None:
    """Forget dead letters. Their pages stay seen and are not fetched again."""
    from shoal.inspect.actions import drop_letters
    from shoal.terminal.console import say
    from shoal.text.humanize import plural

    query = letter_query(one_job(named, job), host, kind, since, until, ids, limit)
    _require_choice(query, everything, "drop")
    number = _act(store, query, lambda frontier: drop_letters(frontier, query, "shoal dead"))
    say(f"{plural(number, 'dead letter')} dropped")


def one_job(word: str | None, option: str | None) -> str | None:
    """The job, which may be given as a word and as an option."""
    if word is not None and option is not None and word != option:
        raise UsageError(f"{word} and --job {option} are two jobs: name one")
    return option if word is None else word


async def check_job(frontier: Frontier, name: str | None) -> None:
    from shoal.inspect.job import unknown_job

    if name is not None and await frontier.job(name) is None:
        raise await unknown_job(frontier, name)


def letter_query(
    job: str | None,
    host: str | None,
    kind: str | None,
    since: str | None,
    until: str | None,
    ids: Sequence[int] | None,
    limit: int | None,
) -> DeadFilter:
    """Which letters the options mean."""
    from shoal.clock import SystemClock
    from shoal.frontier.values import DeadFilter

    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: at least 1")
    now = SystemClock().time()
    return DeadFilter(
        job=job,
        host=host,
        kind=kind,
        since=moment(since, now, "--since"),
        until=moment(until, now, "--until"),
        ids=tuple(ids) if ids else None,
        limit=limit,
    )


def _require_choice(query: DeadFilter, everything: bool, verb: str) -> None:
    from shoal.frontier.values import DeadFilter

    if query == DeadFilter() and not everything:
        raise UsageError(
            f"say which dead letters to {verb}: a JOB, --host, --kind, --since, --until or --id, or --all"
        )


def _letters(store: str, query: DeadFilter) -> Sequence[DeadLetter]:
    return _act(store, query, lambda frontier: frontier.dead(query))


def _act(store: str, query: DeadFilter, act: Callable[[Frontier], Awaitable[T]]) -> T:
    from shoal.terminal.console import ask

    async def checked(frontier: Frontier) -> T:
        await check_job(frontier, query.job)
        return await act(frontier)

    return ask(store, checked)
