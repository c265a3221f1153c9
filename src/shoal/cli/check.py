"""`shoal check`: looks over spiders and settings files without crawling."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options
from shoal.errors import UsageError


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Spiders: FILE.py, FILE.py:name, FILE.toml, module, a folder; or settings: FILE.toml.",
        ),
    ] = None,
    page: Annotated[
        list[str] | None,
        options.option(
            "--page", value="PAGE", text="A saved page or a URL on which a TOML spider is tried. Repeatable."
        ),
    ] = None,
    pages: Annotated[
        Path,
        options.option(
            "--pages", value="DIR", text="Saved pages on which selectors are tried.", default="tests/pages"
        ),
    ] = Path("tests/pages"),
    schema: Annotated[
        bool, options.switch("--schema", text="Print the JSON schema of TOML spiders, for editors.")
    ] = False,
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

    if schema:
        _print_schema()
        return
    if not targets:
        raise UsageError("nothing to check: give FILE.py, FILE.py:name, FILE.toml, module or a folder")
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
    for word in page or ():
        _try_on(word, targets, flags, config, as_json=as_json)


def _print_schema() -> None:
    from shoal.spider.declared.editor_schema import schema_text

    sys.stdout.write(schema_text())


def _try_on(
    page: str, targets: list[str], flags: dict[str, object], config: Path | None, *, as_json: bool
) -> None:
    """Shows what the handlers of a TOML spider read from a page."""
    import asyncio

    from shoal.develop.toml_check import try_on_page
    from shoal.develop.trying import as_dict
    from shoal.spider.loading import is_toml
    from shoal.terminal.console import print_json
    from shoal.terminal.try_view import print_tried

    if len(targets) != 1 or not is_toml(targets[0]):
        raise UsageError(
            "--page is for one FILE.toml or FILE.toml:site; shoal try SPIDER PAGE is for any spider"
        )
    tried = asyncio.run(
        try_on_page(
            targets[0],
            page,
            config=config,
            flags=flags,
            environ=os.environ,
            cache=options.page_cache(None, False),
        )
    )
    for one in tried:
        if as_json:
            print_json(as_dict(one))
        else:
            print_tried(one)
    if not any(one.rows for one in tried):
        raise typer.Exit(1)
