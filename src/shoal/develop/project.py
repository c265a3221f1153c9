"""Writes a new project, or another spider into one, from the files in templates/."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Literal

from msgspec import Struct

from shoal.admit.sending import typed_url
from shoal.errors import UsageError

MARK = "shoal.toml"  # a folder with this file is a project
_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class File(Struct, frozen=True):
    """A file of a project."""

    path: str
    template: str
    about: str = ""


class Written(Struct, frozen=True):
    """What became of a file. A file that is there already is kept as it is; only .gitignore gets the lines it lacks."""

    path: Path
    about: str
    fate: Literal["new", "kept", "changed"] = "new"


_PROJECT = (
    File("books.py", "books.py.tmpl", "a spider: the books of a site that is there to be scraped"),
    File("shoal.toml", "shoal.toml.tmpl", "the settings of every crawl in this folder"),
    File("tests/test_books.py", "test_books.py.tmpl", "its tests, which need no network"),
    File("tests/pages/listing.html", "pages/listing.html", "a saved page for them"),
    File("tests/pages/listing.json", "pages/listing.json"),
    File("tests/pages/book.html", "pages/book.html", "another one; book.json has its URL"),
    File("tests/pages/book.json", "pages/book.json"),
    File("pyproject.toml", "pyproject.toml.tmpl", "the settings of pytest and mypy"),
    File(".gitignore", "gitignore.tmpl", "what is not for the repository"),
    File("README.md", "README.md.tmpl", "the commands, in a table"),
)


def make_project(folder: Path) -> list[Written]:
    """A project in a folder, which is made if it is not there."""
    if (folder / MARK).exists():
        raise UsageError(
            f"{folder / MARK} is there: this is a project already; shoal init --spider NAME URL adds a spider to it"
        )
    _refuse_to_replace(folder, ["books.py", "tests/test_books.py"])
    title = folder.resolve().name or "Spiders"
    return _write(folder, _PROJECT, {"title": title})


def add_spider(folder: Path, name: str, url: str) -> list[Written]:
    """A spider for a site, and its test, in a project."""
    if not (folder / MARK).is_file():
        raise UsageError(
            f"there is no {MARK} in {folder.resolve()}, so it is no project: run shoal init first, or cd into yours"
        )
    _check_name(name, folder)
    start = typed_url(url)
    files = (
        File(f"{name}.py", "spider.py.tmpl", f"a spider for {start}"),
        File(f"tests/test_{name}.py", "test_spider.py.tmpl", "its test, which needs no network"),
    )
    _refuse_to_replace(folder, [file.path for file in files])
    return _write(folder, files, {"name": name, "url": json.dumps(start)})


def _check_name(name: str, folder: Path) -> None:
    """The name is that of a file, a module, a job and a spider."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"--spider {name}: a spider's file is imported by its name; "
            "write a small letter, then small letters, digits and _, such as book_shop"
        )
    if (folder / f"{name}.py").exists():
        return  # is told as such
    if name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None:
        raise UsageError(
            f"--spider {name}: there is a Python module of that name, which the spider's file would hide; "
            f"choose another, such as {name}_spider"
        )


def _refuse_to_replace(folder: Path, paths: Sequence[str]) -> None:
    for path in paths:
        if (folder / path).exists():
            raise UsageError(
                f"{folder / path} is there already, and nothing is replaced; move it, or choose another name"
            )


def _write(folder: Path, files: Sequence[File], words: Mapping[str, str]) -> list[Written]:
    try:
        return [_write_one(folder / file.path, file, words) for file in files]
    except OSError as error:
        where = error.filename or folder
        raise UsageError(f"{where} cannot be written: {error.strerror or error}") from None


def _write_one(path: Path, file: File, words: Mapping[str, str]) -> Written:
    text = (_TEMPLATES / file.template).read_text("utf-8")
    if file.template.endswith(".tmpl"):
        text = Template(text).substitute(words)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        added = file.path == ".gitignore" and _add_lines(path, text)
        return Written(path, file.about, "changed" if added else "kept")
    return Written(path, file.about)


def _add_lines(path: Path, text: str) -> bool:
    """Adds the lines that a .gitignore lacks, without the comments."""
    there = path.read_text("utf-8", "replace")
    known = {line.strip() for line in there.splitlines()}
    lacking = [line for line in text.splitlines() if line not in known and not line.startswith("#")]
    if lacking:
        end = "" if not there or there.endswith("\n") else "\n"
        with path.open("a", encoding="utf-8") as opened:
            opened.write(end + "".join(f"{line}\n" for line in lacking))
    return bool(lacking)
