"""Imports go down the path of a URL only, and what decides does not wait."""

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

# What the pure parts are made of: values, settings and each other.
VALUES = {
    "shoal",
    "shoal.model",
    "shoal.settings",
    "shoal.errors",
    "shoal.clock",
    "shoal.limits",
    "shoal.packing",
    "shoal.text",
    "shoal.valve",
}
HOMES = ("shoal.frontier.memory", "shoal.frontier.sqlite", "shoal.frontier.redis")
DRIVERS = (
    "engine",
    "worker",
    "crew",
    "crawling",
    "supervisor",
    "child",
    "plan",
    "feeding",
    "hosts",
    "routes",
)


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


@cache
def imports(module: str, *, at_run_time: bool = True) -> set[str]:
    """The modules of shoal that a module imports, also inside functions; those for type checkers only on request."""
    found: set[str] = set()
    for node in _nodes(tree_of(module), at_run_time):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relatively"
            assert node.module is not None
            found |= {
                full if (full := f"{node.module}.{name.name}") in MODULES else node.module
                for name in node.names
            }
    return {name for name in found if name.partition(".")[0] == "shoal"}


def _module_of(package: str, name: str) -> str:
    """`from package import name`: the name may itself be a module."""
    return f"{package}.{name}" if f"{package}.{name}" in MODULES else package


def _nodes(tree: ast.AST, at_run_time: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if at_run_time and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _nodes(node, at_run_time)


def within(package: str) -> list[str]:
    names = [name for name in MODULES if name == package or name.startswith(f"{package}.")]
    assert names, f"no module {package}"
    return names


def is_part_of(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_the_map_of_modules_is_not_empty() -> None:
    assert {"shoal.model", "shoal.engine", "shoal.admit", "shoal.policy.host"} <= MODULES.keys()
    assert "shoal.frontier.protocol" in imports("shoal.engine")


@pytest.mark.parametrize("module", within("shoal.admit") + within("shoal.policy"))
def test_what_decides_neither_waits_nor_reaches_out(module: str) -> None:
    awaiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert not [node for node in ast.walk(tree_of(module)) if isinstance(node, awaiting)]
    own = ("shoal.admit", "shoal.policy")
    foreign = {name for name in imports(module, at_run_time=False) if not is_part_of(name, *own)}
    assert foreign <= VALUES


@pytest.mark.parametrize("module", within("shoal.admit") + within("shoal.policy"))
def test_what_decides_reads_neither_clock_nor_network(module: str) -> None:
    names = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not names & {"time", "asyncio", "socket", "threading", "aiohttp", "apsw", "os"}


def test_values_know_nothing_of_the_rest() -> None:
    for module in VALUES - {"shoal"}:
        assert imports(module, at_run_time=False) <= VALUES


def test_the_frontier_knows_neither_fetching_nor_running() -> None:
    above = ("fetch", "cli", "observe", "sink", "page", "spider", "handling", "classify", *DRIVERS)
    for module in within("shoal.frontier"):
        for name in imports(module, at_run_time=False):
            assert not is_part_of(name, *(f"shoal.{part}" for part in above)), f"{module} imports {name}"


def test_fetching_knows_neither_the_queue_nor_running() -> None:
    above = ("frontier", "cli", "observe", "sink", "page", "spider", *DRIVERS)
    for module in within("shoal.fetch"):
        for name in imports(module, at_run_time=False):
            assert not is_part_of(name, *(f"shoal.{part}" for part in above)), f"{module} imports {name}"


def test_only_the_front_door_chooses_a_home() -> None:
    """Everything else speaks the protocol."""
    for module in MODULES:
        if is_part_of(module, *HOMES, "shoal.testing") or module == "shoal.frontier":
            continue
        chosen = {name for name in imports(module) if is_part_of(name, *HOMES)}
        assert not chosen, f"{module} imports {chosen}"


def test_nothing_imports_the_command_line() -> None:
    for module in MODULES:
        if not is_part_of(module, "shoal.cli", "shoal.__main__"):
            assert not [name for name in imports(module) if is_part_of(name, "shoal.cli")], module


def test_what_ships_for_tests_is_used_by_the_demo_alone() -> None:
    for module in MODULES:
        if not is_part_of(module, "shoal.testing", "shoal.cli.demo"):
            assert not [name for name in imports(module) if is_part_of(name, "shoal.testing")], module


def test_what_users_write_against_knows_nothing_of_the_machinery() -> None:
    machinery = ("frontier", "fetch", "cli", "observe", "sink", *DRIVERS)
    for module in ("shoal.page", "shoal.spider", "shoal.handling", *within("shoal.extract")):
        for name in imports(module):
            assert not is_part_of(name, *(f"shoal.{part}" for part in machinery)), f"{module} imports {name}"


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
