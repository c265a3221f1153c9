"""How dead letters look: as a list, and one by one. Nothing in them is trusted by the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from shoal import humanize
from shoal.model import DeadLetter, Failure, Snapshot
from shoal.policy.outcomes import rule_for
from shoal.terminal.console import safe, stdout, table, when
from shoal.text import command

BODY_SHOWN = 2_000  # characters


def print_list(letters: Sequence[DeadLetter], limit: int | None) -> None:
    console = stdout()
    if not letters:
        console.print("no dead letters")
        return
    listing = table("id", "buried", "kind", "tries", "url", right=("id", "tries"))
    for letter in letters:
        listing.add_row(
            str(letter.task.id),
            Text(when(letter.at), "dim"),
            safe(letter.kind, "yellow"),
            str(len(letter.task.history)),
            safe(letter.task.url),
        )
    console.print(listing)
    hint = f"{command('dead show ID')} for the whole story"
    if limit is not None and len(letters) >= limit:
        hint = f"the newest {limit}; --limit N for more · {hint}"
    console.print(Text(hint, "dim"))


def print_one(letter: DeadLetter) -> None:
    console, task = stdout(), letter.task
    console.print(Text.assemble((f"{task.id} ", "bold cyan"), safe(task.url, "bold")))
    facts = table("", "")
    facts.show_header, facts.box = False, None
    facts.add_row("died of", Text.assemble(safe(letter.kind, "yellow"), f": {rule_for(letter.kind).meaning}"))
    facts.add_row("buried", when(letter.at))
    facts.add_row("job", safe(task.job))
    facts.add_row("handler", safe(task.handler or "-"))
    facts.add_row("depth", str(task.depth))
    for hop in task.hops:
        facts.add_row("came from", safe(hop))
    facts.columns[0].style = "dim"
    console.print(facts)
    _print_attempts(console, task.history)
    if letter.snapshot is not None:
        _print_snapshot(console, letter.snapshot)


def _print_attempts(console: Console, history: Sequence[Failure]) -> None:
    attempts = table("try", "at", "took", "kind", "what happened", right=("try", "took"))
    for failure in history:
        took = humanize.latency(failure.elapsed) if failure.elapsed else "-"
        attempts.add_row(
            str(failure.attempt), when(failure.at), took, safe(failure.kind, "yellow"), safe(_detail(failure))
        )
    console.print(attempts)


def _detail(failure: Failure) -> str:
    told = not failure.via or failure.via in failure.detail
    return failure.detail if told else f"{failure.detail} (through {failure.via})"


def _print_snapshot(console: Console, snapshot: Snapshot) -> None:
    if snapshot.traceback:
        console.print(Text("traceback", "dim"))
        console.print(safe(snapshot.traceback.rstrip()))
    if snapshot.status is not None:
        console.print(Text.assemble(("response ", "dim"), (f"HTTP {snapshot.status}", "bold")))
    for name, value in (snapshot.headers or {}).items():
        console.print(Text.assemble(safe(name, "dim"), ": ", safe(value)))
    if snapshot.body:
        text = snapshot.body.decode("utf-8", "replace")
        console.print()
        console.print(safe(text[:BODY_SHOWN]))
        if len(text) > BODY_SHOWN:
            console.print(Text(f"… {len(text) - BODY_SHOWN:,} more characters kept; --json has all", "dim"))
