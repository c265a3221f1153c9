"""`shoal doctor`: whether this machine and the servers that the settings name are fit for a crawl."""

from __future__ import annotations

import os
from typing import Annotated
from urllib.parse import urlsplit

import typer

from shoal.cli import options

_EXAMPLE = "example.com"


def doctor(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]", help=f"Hosts whose names are looked up. Default: {_EXAMPLE}."),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    output: options.Output = None,
    as_json: options.AsJson = False,
    pairs: options.Pairs = None,
    config: options.Config = None,
) -> None:
    """Look at Python, uvloop, open files, disk, clock, DNS, Chromium, Valkey, PostgreSQL, extras, proxies and
    permissions, and say what to do. Nothing is written. Exit code 1 if something is wrong."""
    from shoal.cli.targets import as_url
    from shoal.config import load
    from shoal.develop.doctor import examine
    from shoal.develop.findings import is_wrong
    from shoal.develop.probe import Place
    from shoal.engine.event_loop import run_loop
    from shoal.sink.outputs import read_output
    from shoal.sink.postgres.address import read_address
    from shoal.terminal.console import print_json
    from shoal.terminal.finding_table import print_findings

    settings = load(config, {}, os.environ, options.flags(pairs))
    outputs = output or settings.output
    options.shown_store(store)  # raises if it cannot be read
    for one in read_output(outputs):
        if one.kind == "database":
            read_address(one.target)
    names = [urlsplit(as_url(host)).hostname or host for host in hosts or [_EXAMPLE]]
    place = Place(settings, store, outputs, names, os.environ)
    findings = run_loop(examine(place))
    if as_json:
        print_json(findings)
    else:
        print_findings(findings, "what")
    if is_wrong(findings):
        raise typer.Exit(1)
