"""Every command and option that exists is in docs/cli.md, in the section of its command; and none that does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.cli import EXIT_CODES
from shoal.cli.app import command_line
from shoal.engine.tally import TallyReport
from shoal.inspect.job import View
from shoal.terminal import summary

DOC = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")


def commands(command: Any, path: tuple[str, ...] = ("shoal",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands(command_line()))
LEAVES = [path for path, command in COMMANDS.items() if not getattr(command, "commands", {})]


def options_of(path: tuple[str, ...]) -> set[str]:
    return {opt for param in COMMANDS[path].params for opt in param.opts if opt.startswith("-")} - {
        "--help",
        "-h",
    }


def section(path: tuple[str, ...]) -> str:
    """The text under the command's heading, with that of its sub-headings."""
    match = re.search(
        rf"^(#+) {re.escape(' '.join(path))}$(.*?)(?=^\1 |^## |\Z)", DOC, re.MULTILINE | re.DOTALL
    )
    assert match, f"docs/cli.md has no heading for {' '.join(path)}"
    return match[2]


def test_the_commands_are_the_known_ones() -> None:
    assert {" ".join(path) for path in LEAVES} == {
        "shoal init", "shoal shell",
        "shoal crawl", "shoal status", "shoal report", "shoal why", "shoal dashboard", "shoal fetch", "shoal demo",
        "shoal extract", "shoal check", "shoal doctor", "shoal completion", "shoal keep", "shoal try", "shoal guess",
        "shoal submit", "shoal add", "shoal worker", "shoal up", "shoal coordinator",
        "shoal rows", "shoal changes", "shoal export", "shoal top", "shoal pause", "shoal resume", "shoal cancel",
        "shoal hosts show", "shoal hosts block", "shoal hosts unblock", "shoal hosts set",
        "shoal hosts unset", "shoal hosts settings",
        "shoal proxies hosts",
        "shoal proxies test",
        "shoal quality show", "shoal quality accept",
        "shoal dead list", "shoal dead show", "shoal dead replay", "shoal dead drop",
        "shoal rejected list", "shoal rejected show", "shoal rejected replay", "shoal rejected drop",
        "shoal store upgrade",
        "shoal webhook test",
    }  # fmt: skip


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_option_is_documented(path: tuple[str, ...]) -> None:
    text = section(path)
    missing = [opt for opt in options_of(path) if not re.search(rf"(?<![\w-]){opt}(?![\w-])", text)]
    assert missing == []


@pytest.mark.parametrize("path", [("shoal",), *LEAVES], ids=" ".join)
def test_every_command_and_option_explains_itself(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help or path == ("shoal",)
    assert [param.name for param in command.params if not getattr(param, "help", "x")] == []


def test_no_option_is_documented_that_does_not_exist() -> None:
    known = {"--help", "-h"}.union(*(options_of(path) for path in COMMANDS))
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", DOC))
    assert named - known == set()


def test_every_key_of_the_summary_is_documented(a_view: View) -> None:
    text = DOC.partition("### The summary file")[2].partition("\n## ")[0]
    missing = [key for key in summary.as_json(a_view, output="x") if f"`{key}`" not in text]
    assert missing == []


@pytest.fixture
def a_view() -> View:
    from shoal.frontier.values import Counters, Job, JobSpec

    return View(job=Job(JobSpec("x"), "finished", Counters(), 0.0), report=TallyReport())


def test_every_exit_code_is_documented_and_in_the_help() -> None:
    table = section_named("Exit codes")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == list(EXIT_CODES)
    epilog = COMMANDS[("shoal",)].epilog
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in epilog


def section_named(title: str) -> str:
    return DOC.split(f"## {title}\n")[1].split("\n## ")[0]
