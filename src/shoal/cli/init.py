"""`shoal init`: a project that runs at once, or another spider in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shoal.develop.project import Written


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The project's folder; it is made if it is not there.")
    ] = Path(),
    spider: Annotated[
        tuple[str, str] | None,
        typer.Option("--spider", metavar="NAME URL", help="Add a spider, NAME.py, to the project."),
    ] = None,
) -> None:
    """Write a project to start from: a spider, its test with saved pages, settings. Needs no network."""
    from shoal.develop.project import add_spider, make_project

    if spider is None:
        written, name = make_project(folder), "books"
    else:
        name, url = spider
        written = add_spider(folder, name, url)
    _print(folder, written)
    _print_hint(written)
    _print_next(folder, name)


def _print(folder: Path, written: list[Written]) -> None:
    from shoal.terminal.console import safe, stdout, table

    styles = {"new": "green", "changed": "yellow", "kept": "dim"}
    shown = table("", "file", "what it is")
    for file in written:
        if file.about or file.fate != "new":
            name = safe(str(file.path.relative_to(folder)))
            shown.add_row(safe(file.fate, styles[file.fate]), name, safe(file.about, "dim"))
    stdout().print(shown)


def _print_hint(written: list[Written]) -> None:
    """What the tests need of a file that was there."""
    from shoal.terminal.console import say

    kept = [file.path for file in written if file.path.name == "pyproject.toml" and file.fate == "kept"]
    if kept and "pythonpath" not in kept[0].read_text("utf-8", "replace"):
        say(
            f'so that the tests find the spiders, add pythonpath = ["."] to [tool.pytest.ini_options] in {kept[0]}'
        )


def _print_next(folder: Path, name: str) -> None:
    import shlex

    from rich.text import Text

    from shoal.terminal.console import safe, stdout
    from shoal.text import command

    steps = {
        f"shoal try {name}.py": "one page: what the spider makes of it",
        command(f"crawl {name}.py"): f"all pages, into {name}.jsonl",
        "pytest": "its tests, without the network",
    }
    if folder.resolve() != Path.cwd():
        steps = {f"cd {shlex.quote(str(folder))}": "", **steps}
    width = max(map(len, steps)) + 2
    console = stdout()
    console.print("\nNext:")
    for step, about in steps.items():
        console.print(Text.assemble("  ", safe(step.ljust(width), "bold"), safe(about, "dim")))
