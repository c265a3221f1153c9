"""docs/security.md names tests that exist, says nothing twice, and what it says about code is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "security.md").read_text("utf-8")
ROWS = re.findall(r"^\| (?!threat|---)(.+?) \| (.+?) \| (.+?) \|$", DOC, re.MULTILINE)
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOC)))


def test_every_threat_has_an_answer_and_a_test() -> None:
    assert len(ROWS) > 30
    assert len({threat for threat, _, _ in ROWS}) == len(ROWS)
    assert [threat for threat, holds, tests in ROWS if not holds.strip() or "::" not in tests] == []


def test_every_place_that_a_threat_comes_from_has_rows() -> None:
    for part in re.split(r"^### ", DOC, flags=re.MULTILINE)[1:]:
        assert re.search(r"^\| .+ \| .+ \| `tests/", part, re.MULTILINE), part.splitlines()[0]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_named_exists(file: str, name: str) -> None:
    path = ROOT / file
    assert path.is_file(), f"{file} does not exist"
    assert re.search(rf"^\s*(?:async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE), (
        f"{file} has no {name}"
    )


RUNNERS = frozenset({"eval", "exec", "compile", "__import__"})
RUNNING_FORMATS = frozenset(
    {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"}
)


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_that_was_read_is_run(path: Path) -> None:
    """No eval, no pickle, no shell. (`re.compile` is a method, and `import_module` takes names of the user's.)"""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            assert not (isinstance(node.func, ast.Name) and node.func.id in RUNNERS), ast.unparse(node)
            assert not [word for word in node.keywords if word.arg == "shell"], ast.unparse(node)
        elif isinstance(node, ast.Import):
            assert not {alias.name.partition(".")[0] for alias in node.names} & RUNNING_FORMATS
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in RUNNING_FORMATS
