"""Whether a command in deploy/ is one of the command line."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from shoal.cli.app import app


def unknown_words(words: Sequence[str]) -> list[str]:
    """What the command line would not understand."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if words[0] not in commands:
        return [words[0]]
    known = {name for param in commands[words[0]].params for name in param.opts}
    return [word for word in words[1:] if word.startswith("-") and word not in known]
