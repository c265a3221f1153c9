"""How rejected items look: their reasons, a list of them, and one by one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.text import Text

from shoal.inspect.rejected import MOST_COUNTED, Reason, handler_of, is_whole, item_of, reason_of, table_of
from shoal.model import DeadLetter
from shoal.terminal.console import safe, stdout, table, when
from shoal.text import command, humanize

_REASONS_SHOWN = 20
_ITEM_SHOWN = 4_000  # characters


def print_items(letters: Sequence[DeadLetter], why: Sequence[Reason], limit: int | None) -> None:
    console = stdout()
    if not letters:
        console.print("no rejected items")
        return
    _print_reasons(why)
    console.print()
    listing = table("id", "rejected", "handler", "table", "reason", "url", right=("id",))
    for letter in letters:
        listing.add_row(
            str(letter.task.id),
            Text(when(letter.at), "dim"),
            safe(handler_of(letter) or "-"),
            safe(table_of(letter) or "-"),
            safe(reason_of(letter), "yellow"),
            safe(letter.task.url),
        )
    console.print(listing)
    hint = (
        f"{command('rejected show ID')} for the item · {command('rejected replay')} when the schema is mended"
    )
    if limit is not None and len(letters) >= limit:
        hint = f"the newest {limit}; --limit N for more · {hint}"
    console.print(Text(hint, "dim"))


def _print_reasons(why: Sequence[Reason]) -> None:
    console = stdout()
    listing = table("items", "handler", "table", "reason", right=("items",))
    for one in why[:_REASONS_SHOWN]:
        listing.add_row(
            humanize.count(one.count),
            safe(one.handler or "-"),
            safe(one.table or "-"),
            safe(one.text, "yellow"),
        )
    console.print(listing)
    if len(why) > _REASONS_SHOWN:
        rest = humanize.plural(len(why) - _REASONS_SHOWN, "rarer reason")
        console.print(Text(f"and {rest}; --json has all", "dim"))
    if sum(one.count for one in why) >= MOST_COUNTED:
        console.print(Text(f"of the newest {humanize.count(MOST_COUNTED)} items", "dim"))


def print_item(letter: DeadLetter) -> None:
    console, task = stdout(), letter.task
    console.print(Text.assemble((f"{task.id} ", "bold cyan"), safe(task.url, "bold")))
    facts = table("", "")
    facts.show_header, facts.box = False, None
    facts.add_row("reason", safe(reason_of(letter), "yellow"))
    facts.add_row("rejected", when(letter.at))
    facts.add_row("job", safe(task.job))
    facts.add_row("handler", safe(handler_of(letter) or "-"))
    facts.add_row("table", safe(table_of(letter) or "-"))
    if len(task.history) > 1:
        facts.add_row("times", str(len(task.history)))
    if not is_whole(letter):
        facts.add_row("replay", "not possible: the item was not JSON or too large, and is not kept whole")
    facts.columns[0].style = "dim"
    console.print(facts)
    console.print()
    text = msgspec.json.format(msgspec.json.encode(item_of(letter)), indent=2).decode()
    console.print(safe(text[:_ITEM_SHOWN]))
    if len(text) > _ITEM_SHOWN:
        console.print(Text(f"… {len(text) - _ITEM_SHOWN:,} more characters; --json has all", "dim"))
