"""`shoal store`: what is in a store, what it takes up, making room, and upgrading its format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store, option, shown_store, switch
from shoal.errors import UsageError
from shoal.text import command

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.frontier.values import Inventory
    from shoal.inspect.retention import Retention


app = typer.Typer(help="Look after the store itself: what it holds, and making room.")

Prune = Annotated[
    bool, switch("--prune", text="Prune jobs that have ended, now; by the settings, or as given here.")
]
OlderThan = Annotated[
    str | None,
    option("--older-than", value="TIME", text="With --prune: those that ended so long ago, as in 7d."),
]
Keep = Annotated[int | None, option("--keep", value="N", text="With --prune: all but the latest so many.")]
Compact = Annotated[
    bool,
    switch("--compact", text="Prune, then write a SQLite file anew without what it does not use any more."),
]


@app.callback(invoke_without_command=True)
def store(
    context: typer.Context,
    store: Store = DEFAULT_STORE,
    prune: Prune = False,
    older_than: OlderThan = None,
    keep: Keep = None,
    compact: Compact = False,
    as_json: AsJson = False,
) -> None:
    """Show what a store holds: how much of each kind, its limit, format and durability."""
    from shoal.terminal.console import ask, print_json, say

    if context.invoked_subcommand is not None:
        return
    if (older_than is not None or keep is not None) and not prune:
        raise UsageError("--older-than and --keep say what to prune: give them with --prune")
    retention = _retention(older_than, keep)
    if prune or compact:
        for sentence in ask(store, lambda frontier: _make_room(frontier, retention, compact)):
            say(sentence)
    found, jobs = ask(store, _look)
    if as_json:
        print_json(_as_dict(found))
    else:
        _print(found, store, jobs)


def _retention(older_than: str | None, keep: int | None) -> Retention:
    """By the options, which also hold for jobs with dead letters, or by the settings."""
    import os

    from shoal.cli.options import seconds
    from shoal.config import load
    from shoal.inspect.retention import Retention, retention_of

    age = seconds(older_than, "--older-than")
    if keep is not None and keep < 0:
        raise UsageError(f"--keep {keep}: at least 0")
    if age is None and keep is None:
        return retention_of(load(None, {}, os.environ, {}))
    return Retention(keep, age, keep, age)


async def _make_room(frontier: Frontier, retention: Retention, compact: bool) -> list[str]:
    from shoal.inspect.retention import find_outdated, prune, prune_letters
    from shoal.text.humanize import plural, size

    gone = await prune(frontier, await find_outdated(frontier, retention))
    letters = sum(job.counters.dead + job.counters.rejected for job in gone)
    also = f", with {plural(letters, 'dead letter')}" if letters else ""
    said = [f"{plural(len(gone), 'job')} pruned{also}"]
    if dropped := await prune_letters(frontier, retention):
        said.append(f"{plural(dropped, 'dead letter')} of other jobs dropped, for their age")
    if compact:
        said.append(f"{size(await frontier.compact())} given back to the system")
    return said


async def _look(frontier: Frontier) -> tuple[Inventory, int]:
    return await frontier.take_stock(), len(await frontier.jobs())


def _as_dict(found: Inventory) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told


def _print(found: Inventory, store: str, jobs: int) -> None:
    from shoal.frontier.values import KINDS
    from shoal.terminal.console import safe, stdout, table
    from shoal.text.humanize import count, size

    console = stdout()
    about = "about " if found.estimated else ""
    limit = f" of {size(found.limit)} (maxmemory)" if found.limit else ""
    free = f", {size(found.free)} free on its disk" if found.free is not None else ""
    console.print(safe(f"{shown_store(store)}: {found.format}, {size(found.used)}{limit}{free}", "bold"))
    if found.durability:
        console.print(safe(", ".join(f"{name} {value}" for name, value in found.durability.items()), "dim"))
    shown = table("kind", "how many", "size", "what", right=("how many", "size"))
    for stock in sorted(found.stocks, key=lambda stock: -stock.size):
        number = count(stock.count) if stock.count is not None else "-"
        shown.add_row(stock.kind, number, f"{about}{size(stock.size)}", safe(KINDS[stock.kind], "dim"))
    console.print(shown)
    if jobs:
        console.print(safe(f"make room: {command('store --prune --keep 10')}", "dim"))


@app.command("upgrade")
def upgrade(store: Store = DEFAULT_STORE) -> None:
    """Bring a store of an older version to this version's format. Nobody may be using it."""
    from shoal.frontier import is_local, shown
    from shoal.terminal.console import ask, stdout

    ask(store, _format_of, create=not is_local(store))
    stdout().print(f"{shown(store)} has the format of this version")


async def _format_of(_: object) -> None:
    """A store is upgraded when it is opened."""
