"""docs/toml.md: its tables are those of the code, and what it shows can be crawled."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from shoal.spider.declared import key_help
from shoal.spider.declared.file_model import CleanWord, FieldType
from shoal.spider.declared.validating import file_problems
from toml_tools import problems

DOC = (Path(__file__).parents[2] / "docs" / "toml.md").read_text("utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", DOC, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "name",
    [
        "SITE",
        "FILE",
        "START",
        "SOURCE",
        "HANDLER",
        "EACH",
        "FIELD",
        "CLEAN_WORDS",
        "CLEAN",
        "FOLLOW",
        "PAGINATE",
    ],
)
def test_every_key_is_in_its_table(name: str) -> None:
    rows = "".join(f"| `{key}` | {said} |\n" for key, said in getattr(key_help, name).items())
    assert f"| meaning |\n|---|---|\n{rows}\n" in DOC


def test_every_type_is_in_the_table() -> None:
    table = DOC.partition("\n## Types\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert sorted(named) == sorted(get_args(FieldType))
    assert set(key_help.CLEAN_WORDS) == set(get_args(CleanWord))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.partition("\n")[0])
def test_what_is_shown_is_right(block: str) -> None:
    document = tomllib.loads(block)
    assert list(file_problems(document)) == []
    if "start" in document or ("site" in document and "sitemap" not in block):
        assert problems(block) == []
