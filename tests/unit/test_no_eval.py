"""Nothing in Shoal turns data into code: no pickle, no eval, no shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import shoal

ROOT = Path(shoal.__file__).parent
MODULES = {
    "pickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "jsonpickle",
    "joblib",
    "marshal",
    "shelve",
    "dbm",
    "yaml",
}
BUILT_IN = {"eval", "exec", "compile", "__import__"}
CALLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "yaml.load",
    "builtins.eval",
    "builtins.exec",
}
# Imports by name. The name is always typed by whoever starts the process (a spider's address, `policies`,
# `challenge_check`); in a fleet, runtime/trust.py keeps a job from naming one. __init__.py knows its names.
IMPORTS_BY_NAME = {
    "__init__.py",
    "cli/app.py",  # the command that is called
    "spider/loading.py",
    "policy/compose.py",
    "fetch/challenge/verdict.py",
    "fetch/body_reader.py",
    "testing/__init__.py",  # as __init__.py
    "runtime/results.py",  # pandas, polars or pyarrow
}
# What a person types at a prompt is code; and the shell whose words are completed is an argument.
MEANT = {"develop/consoles.py": ["compile"], "cli/completion.py": ["get_completion_script(shell=…)"]}


BY_NAME = {"import_module", "spec_from_file_location", "run_path"}
# To parse a module takes a hundred times as long as to look for the words that could be wrong in it.
LAST_WORDS = (word.rpartition(".")[2] for word in sorted(MODULES | BUILT_IN | CALLS | BY_NAME | {"shell"}))
SUSPECT = re.compile(rf"\b({'|'.join(LAST_WORDS)})\b")


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """Of modules in which one of the words stands."""
    return [
        (str(path.relative_to(ROOT)), ast.parse(text))
        for path in sorted(ROOT.rglob("*.py"))
        if SUSPECT.search(text := path.read_text())
    ]


def dotted(called: ast.expr) -> str:
    """A name, or names with dots between them; of anything else its last name."""
    match called:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
    return ""


def found(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.partition(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                yield module
            case ast.Call(func=func, keywords=keywords):
                called = dotted(func)
                if called in BUILT_IN | CALLS:
                    yield called
                yield from (f"{called}(shell=…)" for keyword in keywords if keyword.arg == "shell")


@pytest.mark.slow
def test_no_module_turns_data_into_code() -> None:
    assert {name: bad for name, tree in trees() if (bad := sorted(set(found(tree))))} == MEANT


def test_imports_by_name_are_where_they_are_known_to_be() -> None:
    named = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and dotted(node.func).rpartition(".")[2] in BY_NAME
        and not (node.args and isinstance(node.args[0], ast.Constant))  # that one is spelt out
    }
    assert named == IMPORTS_BY_NAME


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from marshal import loads",
        "def f():\n    import shelve",
        "eval('1')",
        "exec(text)",
        "import os\nos.system('x')",
        "import subprocess\nsubprocess.run('x', shell=True)",
        "import subprocess\nsubprocess.Popen('x', shell=maybe)",
        "yaml.load(text)",
        "__import__(name)",
    ],
)
def test_this_test_can_fail(code: str) -> None:
    assert SUSPECT.search(code)
    assert list(found(ast.parse(code)))


@pytest.mark.parametrize("code", ["await shards.eval(script)", "re.compile('x')", "db.execute('SELECT 1')"])
def test_and_knows_what_is_harmless(code: str) -> None:
    assert not list(found(ast.parse(f"async def f():\n    {code}")))
