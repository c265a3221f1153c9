"""The tutorial and the quickstart: every command runs, in its order, against a shop on loopback."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.cli import run
from shoal.develop import project

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"
SITE = "https://books.toscrape.com/"


def blocks(document: Path) -> list[tuple[str, str]]:
    return re.findall(
        r"^```(sh|diff|python)\n(.*?)^```$", document.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def changed(path: Path, diff: str) -> bool:
    """Applies a diff without line numbers, if the file has its context."""
    old = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] != "+")
    new = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] != "-")
    text = path.read_text("utf-8")
    path.write_text(text.replace(old, new), "utf-8")
    return text.count(old) == 1


class Reader:
    """Somebody who does what a document says."""

    def __init__(self, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shop = shop
        self.chdir = monkeypatch.chdir
        self.ends: list[tuple[str, int]] = []  # every command, and its exit code

    def follow(self, language: str, text: str) -> None:
        if language == "diff":
            assert sum(changed(Path(file), text) for file in ("books.py", "tests/test_books.py")) == 1
        elif language == "python":
            Path("books.py").write_text(text.replace(SITE, self.shop), "utf-8")
        elif language == "sh":
            for line in text.splitlines():
                self.type(line.partition(" #")[0])

    def type(self, line: str) -> None:
        first, *words = shlex.split(line.replace(SITE, self.shop))
        if first == "cd":
            self.chdir(words[0])
        elif first == "shoal":
            fast = ["--rate", "0", "-q"] if words[0] == "crawl" else []
            self.ends.append((line, run([*words, *fast])))
            if words[0] == "init":
                self.move(Path(words[1]))
        elif first == "pytest":
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
            self.ends.append((line, subprocess.run(command, check=False, capture_output=True).returncode))

    def move(self, folder: Path) -> None:
        """Puts the shop in the place of the site, in the spider, its tests and their pages."""
        for path in [path for path in folder.rglob("*") if path.suffix in (".py", ".json")]:
            path.write_text(path.read_text("utf-8").replace(SITE, self.shop), "utf-8")


@pytest.fixture
def reader(bookshop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.chdir(tmp_path)
    return Reader(bookshop, monkeypatch)


def rows_in(file: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in Path(file).read_bytes().splitlines()]


def test_the_spider_shown_is_the_one_of_shoal_init() -> None:
    [shown] = [text for language, text in blocks(TUTORIAL) if language == "python"]
    made = Path(project.__file__).parent / "templates" / "books.py.tmpl"
    assert shown == made.read_text("utf-8")


def test_tutorial(reader: Reader) -> None:
    for language, text in blocks(TUTORIAL):
        reader.follow(language, text)
    assert [end for end in reader.ends if end[1] != 0] == [("pytest", 1)]  # as it says
    assert len(reader.ends) >= 12
    rows = rows_in("books.jsonl")
    assert len(rows) == 12
    assert {"upc": "upc-3", "title": "Book 3", "price": 3.5, "in_stock": True, "stars": "Three"} in rows
    assert len(Path("books.csv").read_text("utf-8").splitlines()) == 1 + len(rows)


def test_quickstart(reader: Reader) -> None:
    for language, text in blocks(QUICKSTART):
        if "shoal demo" not in text:  # which has tests of its own
            reader.follow(language, text)
    assert [end for end in reader.ends if end[1] != 0] == []
    assert len(reader.ends) >= 12
    assert len(rows_in("pages.jsonl")) == 15
    assert len(rows_in("books.jsonl")) == 12
