"""Imports go down a list of rooms only, and what decides does not wait."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import shoal

ROOT = Path(shoal.__file__).parent
MODULES = {
    ".".join(("shoal", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}

# A room imports from those on the lines above it. Those on one line know nothing of each other, but for the values of
# the first line.
LAYERS = (
    "clock errors limits model settings text valve",
    "events",
    "admit html",
    "policy",
    "config spider",
    "fetch frontier",
    "archive",
    "sink",
    "jobs",
    "hosts",
    "engine",
    "inspect",
    "telemetry",
    "runtime",
    "develop",
    "extend terminal",
    "dashboard report",
    "cli",
)
LEVELS = {room: level for level, rooms in enumerate(LAYERS) for room in rooms.split()}

HOMES = ("shoal.frontier.memory", "shoal.frontier.sqlite", "shoal.frontier.redis")
# What waits, or asks the machine: not for rules that a simulation must be able to repeat.
IMPURE = {"aiohttp", "apsw", "asyncio", "os", "socket", "threading", "time"}


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def room_of(module: str) -> str:
    return module.split(".")[1]


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of shoal that a module imports: also inside functions, and those for type checkers."""
    found: set[str] = set()
    for node in _statements(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relatively"
            assert node.module is not None
            found |= {_module_of(node.module, name.name) for name in node.names}
    return frozenset(name for name in found if name.partition(".")[0] == "shoal")


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All inside a node, however deep. Most nodes are parts of expressions, and no import is in one."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for inner in getattr(node, name, ()):
            yield inner
            yield from _statements(inner)


def _module_of(package: str, name: str) -> str:
    """`from package import name`: the name may itself be a module."""
    return f"{package}.{name}" if f"{package}.{name}" in MODULES else package


def within(*packages: str) -> list[str]:
    names = [name for name in MODULES if is_part_of(name, *packages)]
    assert names, f"no module in {packages}"
    return names


def is_part_of(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def in_rooms() -> Iterator[str]:
    for module in MODULES:
        if not is_part_of(module, "shoal.testing", "shoal.__main__") and module != "shoal":
            yield module


def test_an_import_is_found_wherever_it_is() -> None:
    text = """
import a
def f():
    async def g():
        try: import b
        except E: import c
        else: import d
        finally: import e
        match x:
            case 1:
                while y: import f
    for z in (lambda: 0, [0 if y else 1]):
        if z: pass
        elif y: import g
        else:
            with z: import h
"""
    found = [node.names[0].name for node in _statements(ast.parse(text)) if isinstance(node, ast.Import)]
    assert sorted(found) == list("abcdefgh")


def test_every_room_has_its_place() -> None:
    assert {room_of(module) for module in in_rooms()} == set(LEVELS)


@pytest.mark.parametrize("room", LEVELS)
def test_a_room_imports_from_those_below_it_only(room: str) -> None:
    for module in within(f"shoal.{room}"):
        for name in imports(module):
            if name == "shoal" or name.startswith("shoal.testing") or room_of(name) == room:
                continue
            below = LEVELS[room_of(name)] < LEVELS[room]
            assert below or LEVELS[room] == 0, f"{module} imports {name}"


@pytest.mark.parametrize("module", within("shoal.admit", "shoal.policy", "shoal.valve"))
def test_what_decides_neither_waits_nor_reaches_out(module: str) -> None:
    awaiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert not [node for node in ast.walk(tree_of(module)) if isinstance(node, awaiting)]
    names = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not names & IMPURE


def test_only_the_front_door_chooses_a_home() -> None:
    """Everything else speaks the protocol."""
    for module in in_rooms():
        if is_part_of(module, *HOMES) or module == "shoal.frontier":
            continue
        chosen = {name for name in imports(module) if is_part_of(name, *HOMES)}
        assert not chosen, f"{module} imports {chosen}"


def test_what_ships_for_tests_is_used_by_the_demo_alone() -> None:
    for module in in_rooms():
        if module != "shoal.cli.demo":
            assert not [name for name in imports(module) if is_part_of(name, "shoal.testing")], module


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """`shoal.run` would be the module once it is imported, and no longer the function."""
    assert not [name for name in shoal.__all__ if f"shoal.{name}" in MODULES]


def test_imports_at_the_top_make_no_circle() -> None:
    waiting: list[str] = []
    done: set[str] = set()

    def visit(module: str) -> None:
        assert module not in waiting, " → ".join([*waiting[waiting.index(module) :], module])
        if module in done:
            return
        waiting.append(module)
        for name in _top_imports(module):
            visit(name)
        waiting.pop()
        done.add(module)

    for module in MODULES:
        visit(module)


def _top_imports(module: str) -> set[str]:
    found = {
        _module_of(node.module, alias.name)
        for node in tree_of(module).body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
    return found & MODULES.keys()
