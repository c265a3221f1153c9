"""Values as a table, if that fits, or one field a line. Nothing in them is trusted by the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from shoal.inspect.row_layout import (
    BETWEEN,
    LEAST_CELL,
    MOST_CELL,
    Fields,
    column_width,
    cut,
    fields_of,
    fit,
    one_line,
    value_text,
)
from shoal.terminal.console import table


def print_fields(console: Console, rows: Sequence[Any], *, lists: int | None = None) -> int:
    """Rows of one kind. Returns how many are shown: `lists` is the most, if a row takes a line for each field."""
    fields = [fields_of(row) for row in rows]
    names = list(dict.fromkeys(name for one in fields for name in one))
    cells = {name: [value_text(one[name]) if name in one else "" for one in fields] for name in names}
    least = sum(min(LEAST_CELL, column_width(name, cells[name])) + BETWEEN for name in names)
    if least <= console.width + BETWEEN:
        _print_table(console, names, fields, cells)
        return len(fields)
    print_lists(console, fields[:lists])
    return len(fields[:lists])


def _print_table(
    console: Console, names: Sequence[str], fields: Sequence[Fields], cells: Mapping[str, Sequence[str]]
) -> None:
    widths = fit([column_width(name, cells[name]) for name in names], console.width)
    made = table()
    for name, width in zip(names, widths, strict=True):
        numbers = {type(one[name]) for one in fields if name in one} <= {int, float, type(None)}
        justify: Any = "right" if numbers else "left"
        made.add_column(Text(cut(one_line(name), width)), justify=justify, width=width, no_wrap=True)
    for place, one in enumerate(fields):
        shown = [
            Text(cut(cells[name][place], width), _style(one.get(name)))
            for name, width in zip(names, widths, strict=True)
        ]
        made.add_row(*shown)
    console.print(made)


def print_lists(console: Console, rows: Sequence[Fields]) -> None:
    """One field a line, with a line between rows."""
    for place, row in enumerate(rows):
        if place:
            console.print()
        width = min(MOST_CELL // 2, max((cell_len(one_line(name)) for name in row), default=0))
        room = max(LEAST_CELL, console.width - width - BETWEEN)
        for name, value in row.items():
            label = set_cell_size(cut(one_line(name), width), width + BETWEEN)
            shown = Text(cut(value_text(value), room), _style(value))
            console.print(Text.assemble((label, "dim"), shown), no_wrap=True, crop=True)


def _style(value: Any) -> str:
    if value is None:
        return "dim"
    return "cyan" if isinstance(value, bool | int | float) else ""
