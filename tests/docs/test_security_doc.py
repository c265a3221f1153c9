"""docs/security.md names tests that exist, and says nothing twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "security.md").read_text("utf-8")
ROWS = re.findall(r"^\| (?!threat|---)(.+?) \| (.+?) \| (.+?) \|$", DOC, re.MULTILINE)
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOC)))


def test_every_threat_has_an_answer_and_a_test() -> None:
    assert len(ROWS) > 30
    assert len({threat for threat, _, _ in ROWS}) == len(ROWS)
    assert [threat for threat, holds, tests in ROWS if not holds.strip() or "::" not in tests] == []


def test_every_place_that_a_threat_comes_from_has_rows() -> None:
    for part in re.split(r"^### ", DOC, flags=re.MULTILINE)[1:]:
        assert re.search(r"^\| .+ \| .+ \| `tests/", part, re.MULTILINE), part.splitlines()[0]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_named_exists(file: str, name: str) -> None:
    path = ROOT / file
    assert path.is_file(), f"{file} does not exist"
    assert re.search(rf"^\s*(?:async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE), (
        f"{file} has no {name}"
    )
