"""`shoal rows` in the terminal: what fits, what is cut, and what a hostile page may not do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.cells import cell_len

from shoal.inspect.rows import NewestRows, ShownRow
from shoal.terminal.row_table import print_rows


def shown(
    rows: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int = 80
) -> list[str]:
    monkeypatch.setattr("shoal.terminal.console.PIPE_WIDTH", width)
    given = tuple(row if isinstance(row, ShownRow) else ShownRow(row, "book") for row in rows)
    print_rows(NewestRows("shop", given, len(given), "shop.jsonl"))
    lines = capsys.readouterr().out.splitlines()
    assert all(cell_len(line) <= width for line in lines), lines
    return [line.rstrip() for line in lines]


def test_columns_of_all_rows(capsys: Any, monkeypatch: Any) -> None:
    rows = [
        {"sku": "a", "price": 12.5, "tags": ["x", {"y": 1}]},
        {"sku": "bcd", "price": None, "stock": True},
    ]
    assert shown(rows, capsys, monkeypatch) == [
        "sku  price  tags           stock",
        'a     12.5  ["x",{"y":1}]',
        "bcd   null                 true",
        "all 2 rows, in shop.jsonl",
    ]


def test_the_widest_columns_give_way(capsys: Any, monkeypatch: Any) -> None:
    head, row, _ = shown([{"id": 7, "text": "x" * 500, "other": "y" * 30}], capsys, monkeypatch, width=40)
    assert head == "id  text               other"
    assert row == f" 7  {'x' * 16}…  {'y' * 16}…"


def test_a_wide_item_is_a_list(capsys: Any, monkeypatch: Any) -> None:
    row = {f"field {n}": f"value {n} " * n for n in range(12)}
    lines = shown([row, row], capsys, monkeypatch, width=60)
    assert len(lines) == 12 + 1 + 12 + 1
    assert lines[1] == "field 1   value 1"
    assert lines[11].endswith("…")


def test_kinds_of_items_are_tables_of_their_own(capsys: Any, monkeypatch: Any) -> None:
    rows = [ShownRow({"a": 1}, "book"), ShownRow({"b": 2}, "review"), ShownRow({"a": 3}, "book")]
    lines = shown(rows, capsys, monkeypatch)
    assert lines[:8] == ["book", "a", "1", "3", "", "review", "b", "2"]


HOSTILE = [
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "a\r\nb\tc\x00\x08\x7f",
    "\u202eevil\u2066\u200f\u061c",
    "שלום עולם",
    "漢字" * 100,
    "e" + "\u0301" * 5_000,
    "[red]markup[/red] [link=x]",
    "x" * 1_000_000,
    ["\x1b[31m" * 1000],
    {"\x1b[31m": "\ud7ff\uffff"},
]


@pytest.mark.parametrize("width", [20, 80])
def test_hostile_values(capsys: Any, monkeypatch: Any, width: int) -> None:
    fields = {f"n{n}": value for n, value in enumerate(HOSTILE)}
    rows = [fields, {"\x1b[31mname\n": 1}, *({"v": value} for value in HOSTILE), "\x1b[2J", None, 7, []]
    for row in rows:
        text = "\n".join(shown([row], capsys, monkeypatch, width))
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200f\u061c]", text)
    kept = "\n".join(shown([{"v": "[red]x[/red]"}], capsys, monkeypatch))
    assert "[red]x[/red]" in kept


def test_many_fields_are_counted(capsys: Any, monkeypatch: Any) -> None:
    lines = shown([{f"f{n}": n for n in range(5_000)}], capsys, monkeypatch)
    assert lines[200] == "…     4,800 more fields"
