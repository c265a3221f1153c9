"""`shoal crawl`: run a spider, or crawl URLs without writing one."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from shoal.cli import endings, is_closed, link_checks, nocode, options, start_options
from shoal.engine.guardian import guarded
from shoal.errors import SinkError, UsageError
from shoal.text import command

if TYPE_CHECKING:
    from shoal.inspect.job import View
    from shoal.runtime.crawl import JobPlan
    from shoal.sink import Output
    from shoal.spider.loading import SpiderSource


def crawl(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET", help="URLs, or one spider: FILE.py, FILE.py:name, FILE.toml or module:name."
        ),
    ] = None,
    input_file: options.Input = None,
    column: start_options.UrlColumn = None,
    sitemaps: start_options.Sitemaps = None,
    feeds: start_options.Feeds = None,
    since: start_options.Since = None,
    output: options.Output = None,
    webhook: options.Webhook = None,
    archive: options.Archive = None,
    cache: options.Cache = None,
    offline: options.Offline = False,
    cache_age: options.CacheAge = None,
    refresh: options.Refresh = None,
    store: options.Store = options.DEFAULT_STORE,
    job: options.JobName = None,
    fresh: options.Fresh = False,
    max_pages: options.MaxPages = None,
    depth: options.Depth = None,
    revisit: options.Revisit = None,
    once: options.Once = False,
    concurrency: options.Concurrency = None,
    per_host: options.PerHost = None,
    rate: options.Rate = None,
    processes: options.Processes = None,
    no_robots: options.NoRobots = False,
    allow_network: options.AllowNetwork = None,
    summary: options.Summary = None,
    fail_above: endings.FailAbove = None,
    row: nocode.Row = None,
    extract: nocode.Extract = None,
    check_links: nocode.CheckLinks = False,
    check_assets: nocode.CheckAssets = False,
    check_anchors: nocode.CheckAnchors = False,
    pairs: options.Pairs = None,
    arguments: options.Arguments = None,
    help_args: options.HelpArgs = False,
    config: options.Config = None,
    quiet: options.Quiet = False,
    dashboard: options.Dashboard = False,
    dashboard_port: options.DashboardPort = None,
    metrics: options.Metrics = None,
    trace: options.Trace = False,
    debug: options.Debug = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Crawl TARGETs, and write what they yield to files. The same command again resumes where it stopped."""
    from shoal.cli.dashboard import beside
    from shoal.cli.targets import read_targets, show_arguments
    from shoal.terminal.console import say

    if help_args:
        show_arguments(targets or [])
        return
    checks = link_checks.checks_of(links=check_links, assets=check_assets, anchors=check_anchors)
    # Hosts that do not answer are what a link check is about: its report names them.
    options.set_up_logging(log_level, log_format, "error" if checks else "warning", runs_spiders=True)
    by_setting = any(pair.startswith("processes=") for pair in pairs or ())
    if ((processes or 1) > 1 or by_setting) and not debug:
        from shoal.runtime.fork_server import prepare_workers

        prepare_workers()
    share = endings.read_share(fail_above)
    maps, feeds = start_options.listed_words(sitemaps, feeds)
    source = read_targets(
        targets or [], input_file, arguments, sitemaps=maps, feeds=feeds, column=column or ""
    )
    source = start_options.with_since(source, since)
    source, report = link_checks.checking(source, checks, job, output)
    rows_given = nocode.flags(source, row, extract)
    source = nocode.named(source, rows_given)
    given = options.flags(
        pairs,
        max_pages=max_pages,
        depth=depth,
        revisit=revisit,
        once=True if once else None,
        webhook=webhook or None,
        concurrency=concurrency,
        per_host=per_host,
        rate=rate,
        processes=1 if debug else processes,
        robots=False if no_robots else None,
        allow_network=allow_network or None,
        **options.cache_flags(cache, archive, offline=offline, age=cache_age, refresh=refresh),
        **rows_given,
    )
    mine = guarded()
    fresh = fresh and not (
        mine is not None and mine.restarted
    )  # the work of the one that died is not thrown away
    if mine is not None and mine.restarted and source.input == "-":
        say(
            "what the process that died had read from standard input and not yet queued is lost: "
            f"to be sure, run it again with the same input and --job {job or source.name}"
        )
    rows = (output or []) if report is None else [report.rows]
    plan = _plan(source, given, config, job, store, rows, fresh)
    check_places(output or plan.settings.output, summary)
    plan = replace(plan, metrics=metrics or "", trace=trace)
    start_options.say_without_effect(plan)
    if debug:
        from shoal.spider.debugger import stop_in_handlers

        stop_in_handlers(plan.spider, debug)
    shown = beside(store, dashboard, dashboard_port)
    view = run_plan(plan, quiet, beside=shown)
    finish(plan, view, summary, quiet)
    if report is not None:
        link_checks.tell(plan, view, report, quiet)
        return
    endings.check_ending(view.job, share, view.report.refused, dead_command(plan))


def check_places(output: Output, summary: Path | None) -> None:
    """Checks before the crawl that files can be written after it."""
    from shoal.sink.outputs import read_output

    places = read_output(output)
    if is_closed("stdout") and any(place.kind == "stdout" for place in places):
        raise UsageError("-o -: standard output is closed; name a file, or leave it open")
    paths = [place.path for place in places if place.kind == "file"]
    for path in [*paths, summary] if summary is not None else paths:
        if path.is_dir():
            raise UsageError(f"{path} is a directory: name a file")
        if not path.parent.is_dir() and "{" not in str(path.parent):  # a folder with a template is made
            raise UsageError(f"{path}: there is no directory {path.parent}: make it first")


def _plan(
    source: SpiderSource,
    given: dict[str, object],
    config: Path | None,
    job: str | None,
    store: str,
    output: list[str],
    fresh: bool,
) -> JobPlan:
    from shoal.config import load
    from shoal.runtime.crawl import JobPlan
    from shoal.sink.outputs import expand, plain_name, with_archive
    from shoal.spider.arguments import job_name

    spider = source.load()
    name = job or source.name or job_name(spider)
    settings = load(config, spider.settings, os.environ, given)
    return JobPlan(
        spider=spider.fitted(settings),
        settings=settings,
        job=name,
        store=store,
        output=with_archive(expand(output or settings.output or f"{plain_name(name)}.jsonl", name), settings),
        fresh=fresh,
        source=source,
        feeds=source.feeds,
    )


def run_plan(
    plan: JobPlan,
    quiet: bool,
    seconds: float | None = None,
    beside: AbstractAsyncContextManager[None] | None = None,
) -> View:
    """Runs the crawl with its progress on stderr, and stops it as Ctrl-C would when its time is up."""
    import asyncio
    import signal

    from shoal.engine.event_loop import run_loop
    from shoal.runtime.crawl import execute
    from shoal.sink.jsonl import standard_output
    from shoal.sink.outputs import read_output
    from shoal.terminal.progress_lines import make_progress

    async def crawling() -> View:
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, signal.raise_signal, signal.SIGTERM)
        async with beside or nullcontext():
            return await execute(plan, watch=progress.update)

    # Rows scrolling through the same terminal would tear the live panel.
    prints = any(place.kind == "stdout" for place in read_output(plan.output))
    live = not prints or not standard_output().isatty()
    with make_progress(sys.stderr, quiet, live) as progress:
        return run_loop(crawling())


def _rest(plan: JobPlan) -> str:
    """Where items go that no output takes by name."""
    from shoal.sink.outputs import read_output, with_rest
    from shoal.spider.schemas import kinds_of

    places = with_rest(read_output(plan.output), plan.job)
    others = set(kinds_of(plan.spider)) - {place.item for place in places}
    rest = [str(place.path) for place in places if place.is_rest]
    return f", others in {rest[0]}" if rest and others else ""


def finish(plan: JobPlan, view: View, summary_file: Path | None, quiet: bool) -> None:
    """Says how it ended, and what to do next."""
    from shoal.inspect.job import left_over
    from shoal.jobs.note import note_of
    from shoal.sink import describe, describe_noted
    from shoal.telemetry.logging import only_json
    from shoal.terminal import summary
    from shoal.terminal.console import say, stderr
    from shoal.text import humanize

    where = describe(plan.output)
    if "{date}" in where:
        where = describe_noted(note_of(view.job.spec).output)
    where += _rest(plan)
    if summary_file is not None:
        _write_summary(summary_file, view, where)
    if view.note == "already finished":
        counters = view.job.counters
        done, rows = humanize.plural(counters.done, "page"), humanize.plural(counters.items, "row")
        left = f", {said}" if (said := left_over(view.job)) else ""
        if counters.rejected:
            left += f", {humanize.plural(counters.rejected, 'rejected item')}"
        say(f"job {plan.job} is finished: {done}, {rows} in {where}{left}; run with --fresh to start again")
        return
    if quiet or only_json():
        return
    stderr().print(summary.render(view, output=where, dead_command=dead_command(plan)))
    if view.job.state == "finished" and not view.job.counters.admitted and not view.report.refused:
        say("its start gave no URL: there was nothing to crawl")
    if view.job.state != "finished":
        again = "run the same command again to go on"
        if plan.source is not None and plan.source.input == "-":
            again = f"to go on, run it again with the same input and --job {plan.job}"
        say(f"stopped before the end; {again}")


def dead_command(plan: JobPlan) -> str:
    """The command that shows the job's dead letters."""
    return command(f"dead list --job {plan.job}")


def _write_summary(path: Path, view: View, output: str) -> None:
    import msgspec

    from shoal.terminal import summary

    content = msgspec.json.format(msgspec.json.encode(summary.as_json(view, output=output)), indent=2)
    try:
        path.write_bytes(content + b"\n")
    except OSError as error:
        raise SinkError(
            f"cannot write the summary to {path}: {error.strerror}; the crawl itself is done"
        ) from None
