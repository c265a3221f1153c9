"""What Shoal uses of aiohttp's insides is there, is in one module, and is pinned."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import aiohttp
import pytest
from packaging.requirements import Requirement

import shoal
from shoal.fetch import aiohttp_private
from shoal.fetch.aiohttp_private import PRIVATE

ROOT = Path(shoal.__file__).parent
MODULE = Path(aiohttp_private.__file__)
NAMES = {name for names in PRIVATE.values() for name in names}
# What is passed by these names, in the calls that we make or take over.
PARAMETERS = {
    "_build_morsel": {"cookie"},
    "_is_domain_match": {"domain", "hostname"},
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in PRIVATE for name in PRIVATE[kind]])
async def test_aiohttp_still_has_it(kind: str, name: str) -> None:
    found = getattr({"CookieJar": aiohttp.CookieJar()}[kind], name)
    if name in PARAMETERS:
        assert PARAMETERS[name] <= set(inspect.signature(found).parameters)


def private_names(path: Path) -> set[str]:
    """Of attributes that are asked for or set, and of methods."""
    tree = ast.parse(path.read_text())
    asked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in asked | made if re.match("_[a-z]", name)}


def test_all_that_the_module_uses_are_named() -> None:
    assert private_names(MODULE) == NAMES


def test_no_other_module_uses_one() -> None:
    """Not by these names, and by no others: what takes over from aiohttp calls no private method of its parent."""
    users = [path for path in ROOT.rglob("*.py") if path != MODULE and "aiohttp" in path.read_text()]
    assert len(users) > 5
    assert {str(path): found for path in users if (found := private_names(path) & NAMES)} == {}
    texts = {path.name: path.read_text() for path in users}
    assert [
        name for name, text in texts.items() if re.search(r"(super\(\)|\bclient|CookieJar)\._[a-z]", text)
    ] == []


def test_the_releases_that_are_allowed_are_those_that_were_looked_at() -> None:
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    [pinned] = [one for one in map(Requirement, project["dependencies"]) if one.name == "aiohttp"]
    assert version("aiohttp") in pinned.specifier
    assert {one.operator for one in pinned.specifier} == {">=", "<"}
    minor = ".".join(version("aiohttp").split(".")[:2])
    assert f"{minor.rpartition('.')[0]}.{int(minor.rpartition('.')[2]) + 1}.0" not in pinned.specifier
