"""`shoal extract`: run handlers again on the pages of an archive."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.archive.reader import Choice
    from shoal.runtime.extract_messages import ExtractPlan
    from shoal.spider.loading import SpiderSource


def extract(
    spider: Annotated[
        str,
        typer.Argument(metavar="SPIDER", help="The spider: FILE.py, FILE.py:name, FILE.toml or module:name."),
    ],
    archive: Annotated[
        Path,
        options.option(
            "--from",
            value="DIR",
            text="The archive: a folder of WARC files, or one of them.",
            panel=options.PLACES,
        ),
    ],
    output: Annotated[
        list[str] | None,
        options.option(
            "-o", "--output", value="PLACE", text="Where the rows go. Repeatable.", panel=options.PLACES
        ),
    ] = None,
    fresh: Annotated[
        bool, options.switch("--fresh", text="Replace files that exist.", panel=options.PLACES)
    ] = False,
    handler: Annotated[
        str | None,
        options.option(
            "--handler",
            value="NAME",
            text="Only pages of this handler; and those of other tools, which name none.",
            panel=options.REACH,
        ),
    ] = None,
    url: Annotated[
        str | None,
        options.option(
            "--url", value="PATTERN", text="Only URLs like this; * stands for anything.", panel=options.REACH
        ),
    ] = None,
    job: Annotated[
        str | None, options.option("--job", value="NAME", text="Only pages of this job.", panel=options.REACH)
    ] = None,
    since: Annotated[
        str | None,
        options.option(
            "--since", value="TIME", text="Only pages fetched since: 2h, 1d or a date.", panel=options.REACH
        ),
    ] = None,
    limit: Annotated[
        int | None, options.option("--limit", value="N", text="Only the first N pages.", panel=options.REACH)
    ] = None,
    every: Annotated[
        bool,
        options.switch("--all", text="Every version of a page, not only the newest.", panel=options.REACH),
    ] = False,
    processes: Annotated[
        int | None,
        options.option(
            "--processes", value="N", text="Processes.", panel=options.SPEED, default="one a core"
        ),
    ] = None,
    pairs: options.Pairs = None,
    arguments: options.Arguments = None,
    config: options.Config = None,
    quiet: options.Quiet = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Run SPIDER's handlers again on the pages of an archive. Nothing is fetched."""
    from shoal.archive.reader import Choice
    from shoal.cli.targets import spider_source

    options.set_up_logging(log_level, log_format, usual="error", runs_spiders=True)
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: give a number above 0")
    if processes is not None and processes < 1:
        raise UsageError(f"--processes {processes}: give a number above 0")
    plan = _plan(spider_source(spider, arguments), archive, handler, options.flags(pairs), config)
    choice = Choice(
        url=url or "",
        job=job or "",
        handler=handler or "",
        since=options.moment(since, time.time(), "--since") or 0.0,
        statuses=frozenset(plan.settings.handle_status),
    )
    _run(plan, choice, output or [], fresh, processes or _cores(), every, limit, quiet)


def _plan(
    source: SpiderSource, archive: Path, handler: str | None, given: dict[str, object], config: Path | None
) -> ExtractPlan:
    from shoal.archive.reader import archive_files
    from shoal.config import load
    from shoal.runtime.extract_messages import ExtractPlan

    loaded = source.load()
    if handler is not None:
        loaded.handler_named(handler)
    files = tuple(str(path.absolute()) for path in archive_files(archive))
    settings = load(config, loaded.settings, os.environ, {**given, "archive": str(archive)})
    return ExtractPlan(source, settings, files, handler or "")


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(
    plan: ExtractPlan,
    choice: Choice,
    places: list[str],
    fresh: bool,
    processes: int,
    every: bool,
    limit: int | None,
    quiet: bool,
) -> None:
    from shoal.cli.crawl import check_places
    from shoal.runtime.extract import Extraction
    from shoal.runtime.extract_output import ExtractOutput
    from shoal.sink import describe
    from shoal.sink.outputs import expand, plain_name
    from shoal.spider.arguments import job_name
    from shoal.spider.schemas import columns_of
    from shoal.telemetry.logging import only_json
    from shoal.terminal.console import say, stderr
    from shoal.terminal.extract_view import render, showing

    spider = plan.source.load()
    name = job_name(spider)
    wanted = places or plan.settings.output or f"{plain_name(name)}.jsonl"
    output = expand(wanted, name, time.strftime("%Y-%m-%d", time.gmtime()))
    check_places(output, None)
    target = ExtractOutput(output, name, plan.settings, columns_of(spider), fresh=fresh)
    try:
        with showing(sys.stderr, quiet) as show:
            report = Extraction(
                plan, target, processes=processes, choice=choice, every=every, limit=limit, show=show
            ).run()
        target.finish()
    except BaseException:
        target.abandon()
        say("nothing was written")
        raise
    if not quiet and not only_json():
        stderr().print(render(report, describe(output)))
