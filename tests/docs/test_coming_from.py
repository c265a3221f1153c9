"""The tables for those who come from another framework name nothing that does not exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import shoal
from shoal.cli.app import command_line
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.spider.page import Page
from shoal.spider.spider import Spider

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENTS = ("coming-from-scrapy.md", "coming-from-crawlee.md")
COMMANDS = set(command_line().commands)
OPTIONS = {
    name for method in (Spider.add_handler, Spider.login) for name in inspect.signature(method).parameters
}
WORDS = {
    "page",
    "product",
    "after",
    "start",
    "order",
    "yield",
    "category",
}  # of Python, hooks and the examples
CODE = [
    (document, code)
    for document in DOCUMENTS
    for line in (DOCS / document).read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("|---")
    for code in re.findall(r"`([^`]+)`", line.split(" | ")[-1])
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_there_is_a_table(document: str) -> None:
    assert sum(name == document for name, _ in CODE) > 30


@pytest.mark.parametrize(("document", "code"), CODE)
def test_what_shoal_is_said_to_have_exists(document: str, code: str) -> None:
    unknown = [name for name in re.findall(r"\bpage\.(\w+)", code) if not hasattr(Page, name)]
    unknown += [name for name in re.findall(r"\bspider\.(?!py\b)(\w+)", code) if not hasattr(Spider, name)]
    unknown += [name for name in re.findall(r"\bshoal\.(\w+)\(", code) if not hasattr(shoal, name)]
    unknown += [name for name in re.findall(r"^shoal (\w+)", code) if name not in COMMANDS]
    known = set(Request.__struct_fields__) | set(Settings.__struct_fields__) | OPTIONS | WORDS
    unknown += [name for name in re.findall(r"(?<![.\w])([a-z_]+)=", code) if name not in known]
    unknown += [code] if re.fullmatch(r"[a-z_]+", code) and code not in known else []
    assert unknown == [], f"{document} says `{code}`"


def section(document: str, anchor: str) -> str:
    """The part of a document below a heading, as a link names it."""
    text = (DOCS / document).read_text("utf-8")
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        heading = part.partition("\n")[0].lstrip("# ").lower()
        if re.sub(r"[^\w -]", "", heading).replace(" ", "-") == anchor:
            return part
    return ""


DAY = section("coming-from-scrapy.md", "a-days-work")
LINKS = re.findall(r"\]\(([\w-]+\.md)#([\w-]+)\)", DAY)


def test_every_task_of_the_day_has_a_link() -> None:
    tasks = [line for line in DAY.splitlines() if line.startswith("| ")][1:]
    assert len(tasks) == len(LINKS) > 15


@pytest.mark.parametrize(("document", "anchor"), LINKS)
def test_the_snippet_behind_a_link_is_run(document: str, anchor: str) -> None:
    """test_readme.py runs all Python in the documents, test_cookbook.py the recipes, too."""
    assert "```python\n" in section(document, anchor)
