"""Rows as tables of text: the fields of a row, values in one line, and how wide columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.cells import cell_len, set_cell_size

from shoal.text import humanize

MOST_CELL = 60  # characters that a column has, if there is room
LEAST_CELL = 7  # … and that are enough to recognise a value
BETWEEN = 2
_MOST_TEXT = 1_000  # characters of a value that are looked at
_MOST_FIELDS = 200  # of a row that are shown

Fields = Mapping[str, Any]


def fields_of(row: Any) -> Fields:
    if not isinstance(row, dict):
        return {"row": row}
    names = list(row)[:_MOST_FIELDS]
    fields = {str(name): row[name] for name in names}
    if len(row) > _MOST_FIELDS:
        fields["…"] = f"{len(row) - _MOST_FIELDS:,} more fields"
    return fields


def fit(widths: Sequence[int], room: int) -> list[int]:
    """The widths of the columns, of which the widest give way until all fit."""
    fitted = list(widths)
    over = sum(fitted) + BETWEEN * (len(fitted) - 1) - room
    while over > 0:
        most = max(fitted)
        widest = [place for place, width in enumerate(fitted) if width == most]
        second = max((width for width in fitted if width < most), default=0)
        step = max(1, min(most - max(second, 1), over // len(widest)))
        for place in widest:
            if over <= 0:
                break
            fitted[place] -= step
            over -= step
    return fitted


def column_width(name: str, cells: Sequence[str]) -> int:
    return max(1, min(MOST_CELL, max(cell_len(text) for text in (one_line(name), *cells))))


def value_text(value: Any) -> str:
    """A value in one line: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return one_line(value)
    return one_line(msgspec.json.encode(value).decode())


def one_line(text: str) -> str:
    cut = text[:_MOST_TEXT]
    return humanize.printable(" ".join(cut.split())) + ("…" if len(text) > _MOST_TEXT else "")


def cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"
