"""What `shoal changes` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from rich.text import Text

from shoal.inspect.changes import Change, NewestChanges
from shoal.inspect.row_layout import cut, value_text
from shoal.terminal.console import safe, stdout, table, when
from shoal.text import humanize

_CELL = 40  # characters of a value
_SUMMARY = 60  # … and of an item
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d[\d.,' \u00a0]*\d|\d")
_PRICES = re.compile(r"price|cost|fee|amount|preis|prix|precio", re.IGNORECASE)
_MARKS = {"appeared": ("+", "green"), "vanished": ("−", "red")}


def print_changes(found: NewestChanges) -> None:
    console = stdout()
    if not found.changes:
        console.print(
            safe(f"job {found.job}: no such changes" if found.total else f"job {found.job}: no changes")
        )
    else:
        kinds = len({one.table for one in found.changes}) > 1
        listing = table("when", *(["item"] if kinds else []), "key", "field", "before", "now", "", cut=True)
        last: Change | None = None
        for one in found.changes:
            same = last is not None and (last.at, last.table, last.key) == (one.at, one.table, one.key)
            item = [Text(when(one.at), "dim"), *([safe(one.table, "cyan")] if kinds else []), _key(one)]
            listing.add_row(
                *([Text() for _ in item] if same and one.key else item), _field(one), *_values(one)
            )
            last = one
        console.print(listing)
    console.print(Text(_told(found), "dim"))


def _key(one: Change) -> Text:
    if one.key:
        return safe(cut(one.key, _CELL), "bold")
    parts = urlsplit(one.page)
    return safe(cut(f"{parts.path}{'?' if parts.query else ''}{parts.query}" or one.page, _CELL), "dim")


def _field(one: Change) -> Text:
    if one.change in _MARKS:
        mark, style = _MARKS[one.change]
        return Text(f"{mark} {one.change}", style)
    return safe(one.field) if one.field else Text("(too long to compare)", "dim")


def _values(one: Change) -> tuple[Text, Text, Text]:
    if one.change != "changed" or not one.field:
        return safe(_summary(one.old, one.key), "dim"), safe(_summary(one.new, one.key)), Text()
    style, step = _step(one)
    before = Text("-", "dim") if one.old is None else safe(_cell(one.old), "dim")
    now = Text("-", "dim") if one.new is None else safe(_cell(one.new), style)
    return before, now, step


def _cell(value: Any) -> str:
    return cut(value_text(value), _CELL)


def _summary(item: Any, key: str) -> str:
    """An item in one line, without its key."""
    if item is None:
        return ""
    if not isinstance(item, Mapping):
        return cut(value_text(item), _SUMMARY)
    return cut(
        " · ".join(value_text(value) for value in item.values() if value not in (None, "", key)), _SUMMARY
    )


def _step(one: Change) -> tuple[str, Text]:
    """How a number has moved: a price that falls is good news, for the one who buys."""
    old, new = _number(one.old), _number(one.new)
    if old is None or new is None or old == new:
        return "", Text()
    up = new > old
    style = ("red" if up else "green") if _PRICES.search(one.field) else "cyan"
    share = f" {(new - old) / abs(old):+.1%}" if old else ""
    return style, Text(("▲" if up else "▼") + share, style)


def _number(value: Any) -> float | None:
    """The number in a value such as 12, "£12.50" or "1.299,00 €"."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str) or len(value) > _CELL:
        return None
    found = _NUMBER.findall(value)
    if len(found) != 1:
        return None
    text = re.sub(r"[' \u00a0]", "", found[0])
    last = max(text.rfind("."), text.rfind(","))
    is_decimal = last >= 0 and len(text) - last - 1 != 3  # 1,299 has thousands
    whole = re.sub(r"[.,]", "", text[:last] if is_decimal else text)
    try:
        return float(f"{whole}.{text[last + 1 :]}" if is_decimal else whole)
    except ValueError:
        return None


def _told(found: NewestChanges) -> str:
    shown, total = len(found.changes), humanize.plural(found.total, "change")
    told = (
        f"the newest {shown:,} of {total}" if shown < found.total else f"all {total}" if shown else "looked"
    )
    told += f", in {humanize.printable(found.source)}" if found.source else ""
    if found.elsewhere:
        told += f"; others are in {humanize.printable(', '.join(found.elsewhere[:3]))}, not on this machine"
    return told
