"""ARCHITECTURE.md names every module, and nothing that does not exist: no file, test, verb, table or thread."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal.frontier.protocol import Frontier
from shoal.frontier.sqlite.schema import TABLES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "shoal"
DOC = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
MODULES = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
TESTS = re.findall(r"`([\w/]+\.py)::(\w+)`", DOC)


def section(title: str) -> str:
    return DOC.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def is_empty(module: str) -> bool:
    """A package's `__init__.py` that holds a docstring and no code needs no line of its own."""
    code = re.sub(r'^""".*?"""', "", (PACKAGE / module).read_text("utf-8"), flags=re.DOTALL)
    return not code.strip()


def test_every_module_has_one_line_in_the_map() -> None:
    lines = re.findall(r"^\| `([\w/]+\.py)` \| .+ \|$", section("The map"), re.MULTILINE)
    assert sorted(lines) == sorted(set(lines))
    assert set(lines) == {module for module in MODULES if not is_empty(module)}


def test_every_file_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:py|md|toml))(?:::\w+)?`", DOC))
    assert [name for name in sorted(named) if not (ROOT / name).is_file() and name not in MODULES] == []


def test_every_folder_named_exists() -> None:
    named = set(re.findall(r"`((?:\w+/)+)`", DOC))
    assert [
        name for name in sorted(named) if not (ROOT / name).is_dir() and not (PACKAGE / name).is_dir()
    ] == []


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_every_proof_exists(file: str, name: str) -> None:
    assert re.search(rf"^\s*(?:async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)


def test_every_invariant_has_a_proof() -> None:
    protocol = (PACKAGE / "frontier" / "protocol.py").read_text("utf-8")
    stated = re.findall(r"^  (\d)\. ", protocol, re.MULTILINE)
    rows = re.findall(r"^\| (\d) \| .+ \| `.+::\w+`.* \|$", section("Invariants"), re.MULTILINE)
    assert rows == stated


def test_every_verb_of_a_transition_exists() -> None:
    rows = re.findall(
        r"^\| ([\w()]+) \| `(\w+)`.*? \| ([\w()]+) \|", section("The states of a task"), re.MULTILINE
    )
    states = {state for before, _, after in rows for state in (before, after)}
    assert states == {"(new)", "pending", "leased", "delayed", "done", "dead", "merged", "any", "(gone)"}
    assert {verb for _, verb, _ in rows} <= set(dir(Frontier))


def test_the_tables_are_those_of_the_schema() -> None:
    described = re.findall(r"^\| `(\w+)` \|", section("The store"), re.MULTILINE)
    assert sorted(described) == sorted(re.findall(r"CREATE TABLE (\w+)\(", TABLES))


@pytest.mark.parametrize("name", ["shoal-writer", "shoal-watchdog"])
def test_the_threads_have_these_names(name: str) -> None:
    assert f"`{name}`" in DOC
    assert any(f'"{name}"' in (PACKAGE / module).read_text("utf-8") for module in MODULES)


@pytest.mark.parametrize("module", sorted(m for m in MODULES if m.startswith(("admit/", "policy/"))))
def test_admission_and_policies_do_not_wait(module: str) -> None:
    code = (PACKAGE / module).read_text("utf-8")
    waits = re.compile(
        r"^\s*(?:async def |(?:import|from) (?:asyncio|aiohttp|threading|time|socket)\b)", re.MULTILINE
    )
    assert waits.findall(code) == []
