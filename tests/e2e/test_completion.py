"""`shoal completion`: the scripts work in a shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal
from shoal.cli.completion import VARIABLE, settings_named

Cli = Callable[..., tuple[int, str, str]]

ASK = """
eval "$(shoal completion bash)"
ask() {
  COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1));
  _shoal_completion shoal 2>/dev/null; echo "${COMPREPLY[@]}"
}
complete -p shoal
ask shoal cra
ask shoal crawl --max
ask shoal crawl -s retry_ba
"""


def test_bash_completes_commands_options_and_settings(tmp_path: Path) -> None:
    program = tmp_path / "shoal"
    source = shlex.quote(str(Path(shoal.__file__).parents[1]))
    python = shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {python} -m shoal "$@"\n')
    program.chmod(0o700)
    done = subprocess.run(
        ["bash", "-c", ASK],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == [
        "complete -o default -F _shoal_completion shoal",
        "crawl",
        "--max-pages",
        "retry_base=",
    ], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_gets_a_script_that_asks_shoal(cli: Cli, shell: str) -> None:
    code, out, err = cli("completion", shell)
    assert (code, err) == (0, "")
    assert f"{VARIABLE}" in out
    assert f"complete_{shell}" in out


def test_the_shell_may_be_that_of_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert cli("completion") == cli("completion", "fish")
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    for argv in ((), ("tcsh",)):
        code, out, err = cli("completion", *argv)
        assert (code, out) == (2, "")
        assert "write shoal completion bash" in err


def test_settings_by_the_beginning_of_their_names() -> None:
    assert settings_named("rat") == ["rate="]
    assert settings_named("nothing") == []
