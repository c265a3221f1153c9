"""docs/settings.md names every setting, what is allowed, and its default."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from shoal import __version__
from shoal.config import allowed
from shoal.settings import Settings

DOC = Path(__file__).parents[2] / "docs" / "settings.md"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| `(.+?)` \| (.+?) \|$", re.MULTILINE)
NAMES = Settings.__struct_fields__


def rows() -> dict[str, tuple[str, str, str]]:
    found = ROW.findall(DOC.read_text())
    told = {name: (value, default, meaning) for name, value, default, meaning in found}
    assert len(told) == len(found), "a setting has two rows"
    return told


def as_written(value: object) -> str:
    if value is None:
        return "none"
    return msgspec.json.encode(value).decode().replace(__version__, "<version>")


def test_documents_exactly_the_settings_in_their_order() -> None:
    assert list(rows()) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_documents_value_and_default(name: str) -> None:
    value, default, meaning = rows()[name]
    assert value == allowed(name)
    assert default == as_written(getattr(Settings(), name))
    assert meaning.endswith(".")
