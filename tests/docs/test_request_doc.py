"""The table of a Request's fields in docs/spiders.md is that of the code, defaults included."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from shoal import Request

DOC = (Path(__file__).parents[2] / "docs" / "spiders.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    table = DOC.split(heading)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_every_field_is_in_the_table_with_its_default() -> None:
    written: dict[str, str] = {}
    for names, defaults, _ in rows("| field of a `Request` |"):
        fields, values = re.findall(r"`(\w+)`", names), re.findall(r"`([^`]+)`", defaults) or [""]
        written |= dict(zip(fields, values if len(values) > 1 else values * len(fields), strict=True))
    assert written == {
        field.name: "" if field.required else repr(field.default).replace("'", '"')
        for field in msgspec.structs.fields(Request)
    }
