"""What `shoal rows` prints."""

from __future__ import annotations

from rich.text import Text

from shoal.inspect.rows import WORKERS, NewestRows
from shoal.terminal.console import safe, stdout
from shoal.terminal.field_table import print_fields
from shoal.text import humanize


def print_rows(found: NewestRows) -> None:
    console = stdout()
    if not found.rows:
        console.print(safe(_none(found)))
        return
    kinds = list(dict.fromkeys(one.item for one in found.rows))
    for place, kind in enumerate(kinds):
        rows = [one for one in found.rows if one.item == kind]
        if place:
            console.print()
        if len(kinds) > 1:
            console.print(safe(kind or "(other rows)", "bold cyan"))
        print_fields(console, [one.row for one in rows])
    console.print(Text(_told(found), "dim"))


def _none(found: NewestRows) -> str:
    if not found.total:
        return f"job {found.job} has written no rows yet"
    if found.item:
        return f"job {found.job} has no rows of {found.item} among its newest; -n N looks further back"
    return f"job {found.job} has {humanize.plural(found.total, 'row')}, but none of them is known here"


def _told(found: NewestRows) -> str:
    shown, total = humanize.plural(len(found.rows), "row"), humanize.plural(found.total, "row")
    if found.item:
        told = f"the newest {shown} of {humanize.printable(found.item)}"
    else:
        told = f"{shown}, the newest of {total}" if len(found.rows) < found.total else f"all {total}"
    if found.source == WORKERS:
        told += ", as the workers told them some seconds ago"
        if not all(one.whole for one in found.rows):
            told += "; long values are cut"
    else:
        told += f", in {humanize.printable(found.source)}"
    return told
