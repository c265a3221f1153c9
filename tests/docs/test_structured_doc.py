"""docs/structured.md has the fields, the words and the order of trust that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal.html.parsing import parse
from shoal.html.records import FIELDS
from shoal.html.records.availability import AVAILABILITIES
from shoal.html.records.fields import OFFER
from shoal.html.records.nodes import Nodes
from shoal.html.records.product import product
from shoal.html.structured import Structured

DOC = (Path(__file__).parents[2] / "docs" / "structured.md").read_text("utf-8")


def section(title: str) -> str:
    marks = title.partition(" ")[0]
    found = DOC.partition(f"\n{title}\n")[2]
    assert found, f"docs/structured.md has no heading {title!r}"
    return re.split(rf"^#{{1,{len(marks)}}} ", found, maxsplit=1, flags=re.MULTILINE)[0]


def first_column(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


@pytest.mark.parametrize("kind", FIELDS)
def test_fields(kind: str) -> None:
    assert first_column(section(f"### {kind}")) == FIELDS[kind]


def test_fields_of_offers_and_variants() -> None:
    [offers] = re.findall(r"^\| `offers` \| every offer: (.+) \|$", section("### product"), re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", offers)) == OFFER
    node = {"hasVariant": {"name": "x"}, "offers": {"price": 1}}
    record = product(Nodes([], "https://a.example/"), node)
    assert tuple(record["offers"][0]) == OFFER
    assert set(record["variants"][0]) == {*OFFER, "image", "mpn", "properties"}


def test_words_for_availability() -> None:
    assert sorted(first_column(section("## Availability"))) == sorted(AVAILABILITIES)


def test_syntaxes() -> None:
    syntaxes = Structured(parse(b"")[0], "https://a.example/").by_syntax()
    assert len(re.findall(r"^\d\. ", section("## Order of trust"), re.MULTILINE)) == len(syntaxes)
    for name in syntaxes:
        assert f"`{name}`" in section("## What is read")
