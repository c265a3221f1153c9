"""What README and docs/ show can be run: spiders, other Python, and commands with their options."""

from __future__ import annotations

import asyncio
import inspect
import re
import shlex
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import shoal
from shoal.cli import run
from shoal.cli.app import command_line

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(document: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [code for language, code in found if language in languages]


def name_of(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


# -- the spider


def test_the_spider_crawls_a_shop(bookshop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = blocks(README, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    assert "https://books.toscrape.com/" in code
    monkeypatch.chdir(tmp_path)
    Path("books.py").write_text(code.replace("https://books.toscrape.com/", bookshop))
    [command] = [line for line in commands_in(README) if "crawl books.py" in line]
    assert run([*shlex.split(command)[1:], "--rate", "0", "-q"]) == 0
    rows = [msgspec.json.decode(line) for line in Path("books.jsonl").read_bytes().splitlines()]
    assert len(rows) == 12
    assert {
        "upc": "upc-3",
        "title": "Book 3",
        "price": "£3.50",
        "url": f"{bookshop}catalogue/book-3/index.html",
    } in rows


# -- the other Python


@pytest.fixture(params=[d for d in DOCUMENTS if blocks(d, "python")], ids=name_of)
def namespace(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The names that a document's Python defines, block after block."""
    module = types.ModuleType("shoal_document")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    if request.param.name == "settings.md":
        module.__dict__["Spider"] = shoal.Spider  # shows a line, not a file
    if request.param.name == "testing.md":  # reads a page that `shoal keep` has saved
        monkeypatch.chdir(tmp_path)
        Path("tests/pages").mkdir(parents=True)
        Path("tests/pages/lamp.html").write_text('<h1>Lamp</h1><b class="price">12.50</b>')
    try:
        for code in blocks(request.param, "python"):
            exec(compile(code, str(request.param), "exec"), module.__dict__)
        yield module.__dict__
    finally:
        del sys.modules[module.__name__]


def test_python_in_documents_runs(namespace: dict[str, Any]) -> None:
    for name, value in list(namespace.items()):
        if (
            name.startswith("test_") and not inspect.signature(value).parameters
        ):  # else test_testing_doc.py has it
            result = value()
            if inspect.isawaitable(result):
                asyncio.run(_within(60.0, result))


async def _within(seconds: float, result: Any) -> None:
    async with asyncio.timeout(seconds):
        await result


# -- the commands


def commands_in(document: Path) -> list[str]:
    """The `shoal …` commands in a document's shell blocks, without comments."""
    found: list[str] = []
    for line in "".join(blocks(document, "sh", "")).splitlines():
        for command in line.partition(" #")[0].split("&&"):
            command = re.sub(r"^\s*(?:SHOAL_\w+=\S+ )*", "", command)
            if command.startswith("shoal "):
                found.append(command.strip())
    return found


COMMAND_LINE: Any = command_line()
COMMANDS = [(name_of(document), command) for document in DOCUMENTS for command in commands_in(document)]


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_every_command_shown_exists_with_its_options(document: str, command: str) -> None:
    words = shlex.split(command)[1:]
    node = COMMAND_LINE
    while words and words[0] in getattr(node, "commands", {}):
        node = node.commands[words.pop(0)]
    # A family that has options of its own is a command too.
    assert node.params or not getattr(node, "commands", {}), f"{command} names no command"
    known = {name for param in node.params for name in param.opts} | {"--help", "-h"}
    assert [word for word in words if word.startswith("-") and word != "-" and word not in known] == []


def test_the_commands_of_the_readme_are_there() -> None:
    assert {"shoal demo", "shoal crawl books.py -o books.jsonl"} <= set(commands_in(README))


MAKE = [(name_of(document), target) for document in DOCUMENTS
        for target in re.findall(r"^make (\w+)", "".join(blocks(document, "sh")), re.MULTILINE)]  # fmt: skip


@pytest.mark.parametrize(("document", "target"), MAKE)
def test_every_make_target_shown_exists(document: str, target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


BENCHMARKS = re.findall(r"python -m ([\w.]+)", (ROOT / "docs" / "benchmarks.md").read_text("utf-8"))


@pytest.mark.parametrize("module", BENCHMARKS)
def test_every_benchmark_shown_exists(module: str) -> None:
    path = ROOT / module.replace(".", "/")
    assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


# -- the pictures


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "img").glob("*.svg")), ids=lambda path: path.name)
def test_pictures_stand_alone(picture: Path) -> None:
    """A picture that loads fonts from elsewhere looks different wherever it is shown."""
    drawing = picture.read_text("utf-8")
    assert drawing.startswith("<svg")
    loaded = re.sub(r"(<text[^>]*>)[^<]*", r"\1", drawing)  # what is written is not loaded
    assert re.findall(r"https?://[^\s\"')]+", loaded) == ["http://www.w3.org/2000/svg"]
