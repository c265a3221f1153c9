"""`shoal completion`: what a shell runs so that Tab completes commands, options and settings."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from shoal.errors import UsageError

VARIABLE = "_SHOAL_COMPLETE"  # set by the shell's function when it asks for words
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")

# After "rate=" comes the value, and no space.
_NO_SPACE = "    [[ ${COMPREPLY-} == *= ]] && compopt -o nospace\n    return 0\n"


def completion(
    shell: Annotated[
        str | None,
        typer.Argument(metavar="[SHELL]", help="bash, zsh, fish or powershell. Default: the one in $SHELL."),
    ] = None,
) -> None:
    """Print a script that completes commands, options and settings: eval "$(shoal completion bash)"."""
    from typer._completion_shared import get_completion_script

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        given = f"{shell!r} is not one that is known" if shell else "which shell?"
        raise UsageError(f"{given}; write shoal completion bash, zsh, fish or powershell")
    script = get_completion_script(prog_name="shoal", complete_var=VARIABLE, shell=name)
    typer.echo(script.replace("    return 0\n", _NO_SPACE) if name == "bash" else script)


def prepare() -> None:
    """Called before the command line is read: lets it answer a shell that asks for words."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()


def settings_named(incomplete: str) -> list[str]:
    """The settings whose name begins so, for -s KEY=VALUE."""
    from shoal.settings import Settings

    return [f"{name}=" for name in Settings.__struct_fields__ if name.startswith(incomplete)]
