"""docs/nocode.md has every field and kind that there is, and the columns of the report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from shoal.runtime.link_report import _UNSURE_STATUS, Problem
from shoal.settings import ROW_FIELDS, ExtractKind, Settings

DOC = (Path(__file__).parents[2] / "docs" / "nocode.md").read_text("utf-8")


def section(title: str) -> str:
    return DOC.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_fields_of_a_row() -> None:
    text = section("More about each page")
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == ROW_FIELDS
    assert f"({Settings().max_text:,})" in text


def test_kinds() -> None:
    cells = re.findall(r"^\| (`.+?) \|", section("Products, articles and the like"), re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(get_args(ExtractKind))


def test_columns_of_the_report() -> None:
    first = section("Broken links").partition("\n\n| what")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", first, re.MULTILINE)) == Problem.__struct_fields__


def test_statuses_that_need_a_person() -> None:
    [row] = [line for line in section("Broken links").splitlines() if line.startswith("| 401")]
    assert {int(number) for number in re.findall(r"\d{3}", row.partition(";")[0])} == _UNSURE_STATUS
