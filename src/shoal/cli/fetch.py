"""`shoal fetch`: one page, with what Shoal sees of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options

if TYPE_CHECKING:
    from shoal.inspect.single_page import PageReport
    from shoal.model import Response


def fetch(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The page; https:// may be left out. - reads it from stdin.")
    ],
    as_json: options.AsJson = False,
    body: Annotated[
        bool, options.switch("--body", text="The page itself, and nothing else.", panel=options.SHOWN)
    ] = False,
    browser: Annotated[
        bool, options.switch("--browser", text="Open it in a browser, as the browser lane does.")
    ] = False,
    screenshot: Annotated[
        Path | None,
        options.option(
            "--screenshot", value="FILE", text="… and write a picture of it (PNG).", panel=options.SHOWN
        ),
    ] = None,
    no_robots: options.NoRobots = False,
    allow_network: options.AllowNetwork = None,
    pairs: options.Pairs = None,
    config: options.Config = None,
) -> None:
    """Fetch one page and show what Shoal sees: robots, redirects, status, timing, links. It knows no spider, so it does
    not log in."""
    from shoal.cli.targets import as_one_url
    from shoal.config import load
    from shoal.engine.event_loop import run_loop
    from shoal.errors import UsageError
    from shoal.fetch.browser.executable import available, why_not
    from shoal.inspect.single_page import look
    from shoal.model import Response
    from shoal.spider.rendering import Rendering
    from shoal.terminal.console import print_json

    given = options.flags(pairs, robots=False if no_robots else None, allow_network=allow_network or None)
    settings = load(config, {}, os.environ, given)
    rendering = Rendering() if browser or screenshot is not None else None
    if rendering is not None and not available(settings):
        raise UsageError(why_not(settings))
    report = run_loop(look(as_one_url(url), settings, rendering=rendering))
    if screenshot is not None and report.picture:
        _save(screenshot, report.picture)
    if as_json:
        print_json(as_dict(report))
    elif body and isinstance(report.outcome, Response):
        sys.stdout.buffer.write(report.outcome.body)
    else:
        _print(report)
    if not _is_page(report):
        raise typer.Exit(1)


def _save(path: Path, picture: bytes) -> None:
    from shoal.errors import UsageError

    try:
        path.write_bytes(picture)
    except OSError as error:
        raise UsageError(f"the picture cannot be written to {path}: {error.strerror or error}") from error


def _is_page(report: PageReport) -> bool:
    return report.kind == "ok"


def as_dict(report: PageReport) -> dict[str, Any]:
    from shoal.model import Response

    outcome = report.outcome
    seen = {
        "url": report.task.origin,
        "final_url": report.task.url,
        "host": report.task.host,
        "hops": report.task.hops,
        "robots": report.robots,
        "asks_robots": report.asks,
        "kind": report.kind,
        "status": outcome.status,
        "seconds": outcome.elapsed,
    }
    if not isinstance(outcome, Response):
        return {**seen, "detail": outcome.detail}
    return {
        **seen,
        "first_byte_seconds": outcome.first_byte,
        "body_bytes": len(outcome.body),
        "wire_bytes": outcome.wire_bytes,
        "headers": [[str(name), value] for name, value in outcome.headers.items()],
        "title": report.title,
        "links": report.links,
        "links_admitted": report.admitted,
        "links_refused": report.refused,
    }


def _obeying(asks: Sequence[str]) -> str:
    """The settings that obey what a page asks for."""
    names = {"noarchive": "robots_noarchive"}
    return ", ".join(dict.fromkeys(names.get(word, "robots_meta") for word in sorted(asks, reverse=True)))


def _print(report: PageReport) -> None:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from shoal.model import Response
    from shoal.policy.outcomes import rule_for
    from shoal.terminal.console import safe, stdout
    from shoal.terminal.live_panel import frame

    outcome = report.outcome
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    style = "bold green" if _is_page(report) else "bold yellow"
    meaning = rule_for(report.kind).meaning if isinstance(outcome, Response) else outcome.detail
    facts.add_row("result", Text.assemble(safe(report.kind, style), "  ", safe(meaning)))
    facts.add_row("url", safe(report.task.url))
    for hop in reversed(report.task.hops):
        facts.add_row("from", safe(hop, "dim"))
    facts.add_row("host", safe(report.task.host))
    facts.add_row("robots", safe(report.robots, "red" if report.robots.startswith("forbidden") else ""))
    if report.asks:
        facts.add_row("asks for", safe(f"{', '.join(report.asks)} (obeyed with {_obeying(report.asks)})"))
    if isinstance(outcome, Response):
        _add_answer(facts, report, outcome)
    console = stdout()
    console.print(frame(Group(facts), safe(report.title or report.task.host, "bold cyan")))
    if isinstance(outcome, Response):
        for name, value in outcome.headers.items():
            console.print(Text.assemble("  ", safe(name, "dim"), ": ", safe(value)))


def _add_answer(facts: Any, report: PageReport, response: Response) -> None:
    from shoal.terminal.console import safe
    from shoal.text import humanize

    facts.add_row("status", str(response.status))
    facts.add_row(
        "time",
        f"{humanize.latency(response.elapsed)}, first byte after {humanize.latency(response.first_byte)}",
    )
    facts.add_row(
        "size", f"{humanize.size(len(response.body))}, {humanize.size(response.wire_bytes)} on the wire"
    )
    links = f"{humanize.count(report.links)}, of which {humanize.count(report.admitted)} would be followed"
    if report.refused:
        links += f" (refused: {humanize.by_count(report.refused)})"
    facts.add_row("links", safe(links))
