"""The tutorial: every command runs, in its order, in the folder that it makes, against a shop on loopback."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from shoal.cli import run
from shoal.develop import project

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
SITE = "https://books.toscrape.com/"
BLOCKS = re.findall(
    r"^```(sh|diff|python)\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


def lines_of(kind: str) -> list[str]:
    return [line for language, text in BLOCKS if language == kind for line in text.splitlines()]


def changed(path: Path, diff: str) -> bool:
    """Applies a diff without line numbers, if the file has its context."""
    old = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] != "+")
    new = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] != "-")
    text = path.read_text("utf-8")
    path.write_text(text.replace(old, new), "utf-8")
    return text.count(old) == 1


class Reader:
    """Somebody who does what the tutorial says."""

    def __init__(self, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shop = shop
        self.chdir = monkeypatch.chdir
        self.ends: list[tuple[str, int]] = []  # every command, and its exit code

    def follow(self, language: str, text: str) -> None:
        if language == "diff":
            assert sum(changed(Path(file), text) for file in ("books.py", "tests/test_books.py")) == 1
        elif language == "sh":
            for line in text.splitlines():
                self.type(line)

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


def test_the_spider_shown_is_the_one_of_shoal_init() -> None:
    shown = "".join(text for language, text in BLOCKS if language == "python")
    made = Path(project.__file__).parent / "templates" / "books.py.tmpl"
    assert shown == made.read_text("utf-8")


def test_every_command_runs(bookshop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(bookshop, monkeypatch)
    for language, text in BLOCKS:
        reader.follow(language, text)
    assert [end for end in reader.ends if end[1] != 0] == [("pytest", 1)]  # as the tutorial says
    assert len(reader.ends) == len([line for line in lines_of("sh") if line.startswith(("shoal ", "pytest"))])
    rows = [msgspec.json.decode(line) for line in Path("books.jsonl").read_bytes().splitlines()]
    assert len(rows) == 12
    assert {"upc": "upc-3", "title": "Book 3", "price": 3.5, "in_stock": True, "stars": "Three"} in rows
    assert len(Path("books.csv").read_text("utf-8").splitlines()) == 1 + len(rows)
