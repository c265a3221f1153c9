"""`shoal check`: looks over spiders and settings files without crawling."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options


def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET", help="Spiders: FILE.py, FILE.py:name, module, a folder; or settings: FILE.toml."
        ),
    ],
    pages: Annotated[
        Path,
        options.option(
            "--pages", value="DIR", text="Saved pages on which selectors are tried.", default="tests/pages"
        ),
    ] = Path("tests/pages"),
    strict: Annotated[bool, options.switch("--strict", text="Exit code 1 for warnings, too.")] = False,
    as_json: options.AsJson = False,
    pairs: options.Pairs = None,
    arguments: options.Arguments = None,
    config: options.Config = None,
) -> None:
    """Look over a spider or a settings file without crawling: does it load, are settings, handlers, keys, schemas and
    selectors right, are there secrets in the code. Exit code 1 if something is wrong."""
    from shoal.develop.checking import check as look_over
    from shoal.develop.findings import is_wrong
    from shoal.telemetry.printing import give_stdout_back
    from shoal.terminal.console import print_json
    from shoal.terminal.finding_table import print_findings

    options.set_up_logging(None, runs_spiders=True)
    flags = options.flags(pairs)
    findings = [
        finding
        for target in targets
        for finding in look_over(
            target,
            config=config,
            flags=flags,
            pages=pages,
            environ=os.environ,
            arguments=arguments or (),
        )
    ]
    give_stdout_back()  # what spiders print while they are loaded went to stderr
    if as_json:
        print_json(findings)
    else:
        print_findings(findings, "check")
    if is_wrong(findings, strict=strict):
        raise typer.Exit(1)
