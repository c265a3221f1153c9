"""`shoal extract` in the terminal: a bar while it runs, a table at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shoal.model import counts
from shoal.runtime.extract import Report
from shoal.runtime.extract_messages import Trouble
from shoal.telemetry.logging import only_json
from shoal.terminal.console import safe
from shoal.terminal.live_panel import frame
from shoal.terminal.tracebacks import user_frames
from shoal.text import humanize

LIVE_EVERY = 0.25
LINE_EVERY = 5.0
_BROKEN = 3

_WORDS = {
    "handler": "the handler failed",
    "handler_timeout": "the handler took too long",
    "junk": "the handler yielded something odd",
    "hook": "a hook failed",
    "rejected": "items rejected",
    "broken": "records that cannot be read",
    "no_handler": "the spider has no such handler",
    "not_archived": "page.fetch: not in the archive",
    "killed": "the handler killed its process",
    "retry_asked": "the handler asked for the page again",
}


@contextmanager
def showing(stream: TextIO, quiet: bool) -> Iterator[Callable[[Report], None]]:
    """Yields what shows the progress."""
    if quiet or only_json():
        yield lambda _: None
    elif stream.isatty():
        console = Console(file=stream, highlight=False, emoji=False)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield _paced(LIVE_EVERY, lambda report: live.update(_bar(report), refresh=True))
    else:
        yield _paced(LINE_EVERY, lambda report: _write(stream, line(report)))


def _paced(every: float, show: Callable[[Report], None]) -> Callable[[Report], None]:
    last = time.monotonic()

    def shown(report: Report) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= every:
            last = now
            show(report)

    return shown


def _write(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def line(report: Report) -> str:
    if report.looking:
        return f"looking at {humanize.plural(report.files, 'file')}"
    rate = report.done / report.seconds if report.seconds else 0.0
    left = (report.total - report.done) / rate if rate else 0.0
    return (
        f"{humanize.count(report.done)} of {humanize.plural(report.total, 'page')}, "
        f"{humanize.plural(report.rows, 'row')}, "
        f"{humanize.rate(rate)}/s, {humanize.duration(left)} left"
    )


def _bar(report: Report) -> RenderableType:
    bar = ProgressBar(total=max(1, report.total), completed=report.done, width=40, pulse=report.looking)
    grid = Table.grid(padding=(0, 2))
    grid.add_row(bar, line(report))
    return grid


def render(report: Report, output: str) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _facts(report, output):
        grid.add_row(name, value)
    title = Text.assemble(("extract", "bold cyan"), f" after {humanize.duration(report.seconds)}")
    return frame(Group(grid, *map(_example, report.examples)), title)


def _facts(report: Report, output: str) -> list[tuple[str, Text]]:
    rate = report.pages / report.seconds if report.seconds else 0.0
    facts = [
        (
            "pages",
            Text.assemble((humanize.count(report.pages), "bold"), (f"  {humanize.rate(rate)}/s", "green")),
        ),
        (
            "rows",
            Text.assemble(
                (humanize.count(report.rows), "bold"), ("  in ", "dim"), humanize.printable(output)
            ),
        ),
    ]
    if report.duplicates:
        facts.append(
            ("merged", Text(f"{humanize.count(report.duplicates)} rows whose key was written before"))
        )
    if own := counts.own(report.counts):
        facts.append(("counted", Text(humanize.printable(humanize.by_count(own)))))
    if dropped := counts.dropped(report.counts):
        facts.append(("dropped", Text(humanize.printable(humanize.by_count(dropped)), "yellow")))
    if report.passed_over:
        facts.append(("not taken", Text(humanize.by_count(dict(report.passed_over)))))
    if report.broken:
        where = [f"{Path(file).name} at {broken.offset:,}: {broken.reason}" for file, broken in report.broken]
        more = f" and {len(where) - _BROKEN} more" if len(where) > _BROKEN else ""
        facts.append(("broken", Text("; ".join(where[:_BROKEN]) + more, "yellow")))
    for kind, number in report.troubles.most_common():
        word = _WORDS.get(kind, kind)
        facts.append(("failed", Text.assemble((humanize.count(number), "bold red"), f"  {word}")))
    return facts


def _example(trouble: Trouble) -> RenderableType:
    text = Text.assemble(
        ("\n", ""),
        safe(trouble.kind, "bold red"),
        "  ",
        safe(trouble.handler, "cyan"),
        "  ",
        safe(trouble.url),
    )
    text.append("\n").append(safe(trouble.detail, "yellow"))
    if trace := user_frames(trouble.traceback):
        text.append("\n").append(safe(trace, "dim"))
    return text
