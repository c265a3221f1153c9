"""What the tests of deploy/ share: its scripts, and whether its commands are those of the command line."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from shoal.cli.app import command_line

_COMMANDS = command_line().commands


def unknown_words(words: Sequence[str]) -> list[str]:
    """What the command line would not understand."""
    if words[0] not in _COMMANDS:
        return [words[0]]
    known = {name for param in _COMMANDS[words[0]].params for name in param.opts}
    return [word for word in words[1:] if word.startswith("-") and word not in known]


def load_script(name: str) -> ModuleType:
    """A script of deploy/, which is no package."""
    path = Path(__file__).parents[2] / "deploy" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"shoal_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
