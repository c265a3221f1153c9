"""`shoal submit`: hand a job to a fleet."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast
from urllib.parse import urlsplit

import typer

from shoal.cli import endings, options, start_options
from shoal.errors import UsageError
from shoal.limits import REQUEST_NUMBER
from shoal.text import command

if TYPE_CHECKING:
    from shoal.engine.tally import TallyReport
    from shoal.frontier.values import Job
    from shoal.runtime.job_plan import JobPlan
    from shoal.runtime.submit import Watch
    from shoal.settings.keywords import SpiderSettings
    from shoal.spider.loading import SpiderSource
    from shoal.spider.spider import Spider

Priority = Annotated[
    int,
    options.option(
        "--priority",
        value="N",
        text="Jobs with a higher one are served first.",
        panel="When",
        most=REQUEST_NUMBER,
    ),
]
Wait = Annotated[bool, options.switch("--wait", text="Show progress until it is finished.", panel="When")]
Every = Annotated[
    str | None, options.option("--every", value="TIME", text="Run it again every 30m, 2h, 1d …", panel="When")
]
CronLine = Annotated[
    str | None,
    options.option(
        "--cron", value="LINE", text="Run it at such times, in UTC: '30 4 * * 1-5'.", panel="When"
    ),
]
Keep = Annotated[
    int,
    options.option(
        "--keep", value="N", text="Runs of a recurring job that the store remembers.", panel="When"
    ),
]


def submit(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET", help="A spider (FILE.py, FILE.py:name, module:name), URLs to start at, or both."
        ),
    ] = None,
    input_file: options.Input = None,
    column: start_options.UrlColumn = None,
    sitemaps: start_options.Sitemaps = None,
    feeds: start_options.Feeds = None,
    since: start_options.Since = None,
    output: options.Output = None,
    archive: options.Archive = None,
    store: options.Store = options.DEFAULT_STORE,
    job: Annotated[
        str | None,
        options.option(
            "-j",
            "--job",
            value="NAME",
            text="The job to start or go on with.",
            panel="Where",
            env="SHOAL_JOB",
        ),
    ] = None,
    fresh: options.Fresh = False,
    wait: Wait = False,
    fail_above: endings.FailAbove = None,
    priority: Priority = 0,
    every: Every = None,
    cron: CronLine = None,
    keep: Keep = 10,
    max_pages: options.MaxPages = None,
    depth: options.Depth = None,
    revisit: options.Revisit = None,
    per_host: options.PerHost = None,
    rate: options.Rate = None,
    no_robots: options.NoRobots = False,
    allow_network: options.AllowNetwork = None,
    pairs: options.Pairs = None,
    arguments: options.Arguments = None,
    config: options.Config = None,
    quiet: options.Quiet = False,
    log_level: options.LogLevel = None,
) -> None:
    """Hand a job to the workers of a store. The same command again goes on where it stopped."""
    from shoal.jobs.schedule import read_times

    options.set_up_logging(log_level)
    share = endings.read_share(fail_above)
    given = options.flags(
        pairs,
        max_pages=max_pages,
        depth=depth,
        revisit=revisit,
        per_host=per_host,
        rate=rate,
        robots=False if no_robots else None,
        allow_network=allow_network or None,
        archive=archive,
    )
    maps, feeds = start_options.listed_words(sitemaps, feeds)
    aimed = _targets(targets or [], input_file, arguments, maps, feeds, column or "", since)
    plan = _plan(aimed, output or [], store, job, fresh, priority, given, config)
    start_options.say_without_effect(plan)
    if every is not None or cron is not None:
        seconds, cron = read_times(every or "", cron or "", mark="--")
        if not seconds and not cron:
            raise UsageError("--every and --cron need a time: --every 1h, --cron '30 4 * * *'")
    else:
        seconds, cron = read_times(plan.settings.every, plan.settings.cron)
        if wait or plan.start is not None:  # one run, now
            seconds, cron = 0.0, ""
    if seconds or cron:
        if plan.start is not None:
            raise UsageError(
                "a recurring job starts where its spider says: leave out the URLs, or --every and --cron"
            )
        if wait:
            raise UsageError("give one of --wait, --every and --cron")
        _schedule(plan, seconds, cron, keep, every or plan.settings.every)
    else:
        _submit(plan, wait, quiet, share)


def _plan(
    aimed: tuple[Spider, Spider | None, SpiderSource, str],
    output: list[str],
    store: str,
    job: str | None,
    fresh: bool,
    priority: int,
    given: dict[str, object],
    config: Path | None,
) -> JobPlan:
    from shoal.config import load
    from shoal.runtime.job_plan import JobPlan
    from shoal.runtime.submit import place_on_fleet
    from shoal.spider.arguments import job_name

    spider, start, source, address = aimed
    name = job or source.name or job_name(spider)
    settings = load(config, spider.settings, os.environ, given)
    return JobPlan(
        spider=spider.fitted(settings),
        settings=settings,
        job=name,
        store=store,
        output=place_on_fleet(output or settings.output, name, store, settings),
        fresh=fresh,
        fed_by="submit" if start is not None else "coordinator",
        feeds=source.feeds,
        priority=priority,
        start=start,
        address=address,
    )


def _targets(
    words: Sequence[str],
    input_file: Path | None,
    arguments: Sequence[str] | None,
    sitemaps: Sequence[str] = (),
    feeds: Sequence[str] = (),
    column: str = "",
    since: str | None = None,
) -> tuple[Spider, Spider | None, SpiderSource, str]:
    """The spider, the same one started at the URLs that were given (if any were), where they come from, and the
    spider's address."""
    from shoal.cli.targets import read_targets, split_spider, take_stdin
    from shoal.jobs.note import SUMMARY
    from shoal.spider.default import summary_spider
    from shoal.spider.loading import SpiderSource, load_spider
    from shoal.spider.spider import Spider

    words, input_file = take_stdin(words, input_file)
    spec, urls = split_spider(words)
    if spec is None:
        source = read_targets(urls, input_file, arguments, sitemaps=sitemaps, feeds=feeds, column=column)
        source = start_options.with_since(source, since)
        return summary_spider(SUMMARY, (), **source.settings), source.load(), source, ""
    spider = load_spider(spec, arguments or ())
    _check_stored(spider)
    if not urls and input_file is None and not sitemaps and not feeds:
        if since is not None:
            raise UsageError(
                f"--since: the coordinator feeds the start of {spec}: write since={since!r} in its Sitemap or Feed"
            )
        return spider, None, SpiderSource(name="", spec=spec), spec
    # The same words that a crawl without code would have, beside the spider.
    source = read_targets(urls, input_file, sitemaps=sitemaps, feeds=feeds, column=column)
    source = start_options.with_since(source, since)
    started = Spider(spider.name, source.start(), **cast("SpiderSettings", spider.settings))
    started.handlers = spider.handlers
    started.route = spider.route
    started.made_by = spider.made_by
    return spider, started, SpiderSource(name="", feeds=source.feeds), spec


def _check_stored(spider: Spider) -> None:
    """Workers get the arguments from the store, which no secret may be written to."""
    kept_back = spider.made_by.kept_back if spider.made_by is not None else ()
    if kept_back:
        name = kept_back[0]
        raise UsageError(
            f"-a {name}: a secret is not written to the store; give {name}=env:NAME, and each worker reads it from its "
            "own environment"
        )


def _schedule(plan: JobPlan, every: float, cron: str, keep: int, shown: str) -> None:
    from shoal.runtime.submit import schedule
    from shoal.spider.revisits import visits_again
    from shoal.terminal.console import ask, say, when

    if keep < 1:
        raise UsageError(f"--keep {keep}: at least 1")
    if visits_again(plan.spider, plan.settings):
        raise UsageError(
            "a job whose pages are visited again never ends, so no second run of it begins: leave out revisit, or"
            " every and cron"
        )
    kept = ask(
        plan.store,
        lambda frontier: schedule(plan, frontier, every=every, cron=cron, keep=keep),
        create=True,
    )
    beat = f"at {cron!r} (UTC)" if cron else f"every {shown}"
    say(
        f"schedule {kept.name}: runs {beat}, next at {when(kept.next_at)};"
        f" {command(f'cancel {kept.name}')} takes it back"
    )
    _hints(plan)


def _submit(plan: JobPlan, wait: bool, quiet: bool, fail_above: float | None) -> None:
    from shoal.cli.crawl import dead_command
    from shoal.engine.event_loop import run_loop
    from shoal.terminal.console import say
    from shoal.terminal.progress_lines import make_progress
    from shoal.text.humanize import by_count

    handed: list[str] = []
    try:
        with make_progress(sys.stderr, quiet or not wait) as progress:
            job, report = run_loop(_hand_over(plan, progress.update if wait else None, handed.append))
    except KeyboardInterrupt:
        if not handed:
            say(f"stopped before job {plan.job} was in the store: run the same command again")
        elif plan.start is None:
            say(f"no longer waiting; job {plan.job} goes on")
        else:
            say("stopped; some of the URLs may not be fed: run the same command again")
        raise
    if report.refused:
        say(f"{sum(report.refused.values()):,} start URLs were refused: {by_count(report.refused)}")
    if job.state == "finished":
        say(_ending(plan, job))
        endings.check_ending(job, fail_above, report.refused, dead_command(plan))
    elif not quiet:
        say(_beginning(plan, job))
        _hints(plan)


async def _hand_over(
    plan: JobPlan, watch: Watch | None, handed: Callable[[str], None]
) -> tuple[Job, TallyReport]:
    import asyncio

    from shoal.engine.tally import TallyReport
    from shoal.frontier import open_frontier
    from shoal.runtime.submit import dated, feed, submit, wait_for

    plan = await dated(plan)
    async with open_frontier(plan.store) as frontier:
        job, report = await submit(plan, frontier), TallyReport()
        handed(plan.job)
        if job.state == "finished":
            return job, report
        waiting = asyncio.create_task(wait_for(frontier, plan.job, watch)) if watch is not None else None
        try:
            if plan.start is not None:
                report = await feed(plan, frontier, _FullQueue(plan.job).say)
            if waiting is not None:
                return (await waiting).job, report
        finally:
            if waiting is not None:
                waiting.cancel()
        return await frontier.job(plan.job) or job, report


class _FullQueue:
    """Tells once that the command waits: people stop a command that seems to hang."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._said = False

    def say(self, fed: int, pending: int) -> None:
        from shoal.terminal.console import say

        if not self._said:
            self._said = True
            say(
                f"{fed:,} URLs are fed, and {pending:,} pages of job {self._job} are queued, as many as may be:"
                " this command feeds the rest as workers take them. Leave it running; or stop it, and the same command"
                " again goes on from there"
            )


def _beginning(plan: JobPlan, job: Job) -> str:
    from shoal.sink import describe
    from shoal.text.humanize import plural

    queued = (
        f"{plural(job.counters.open, 'page')} queued"
        if plan.start is not None
        else "its start is fed by the coordinator"
    )
    return f"job {plan.job} is in {options.shown_store(plan.store)}: {queued}, rows go to {describe(plan.output)}"


def _ending(plan: JobPlan, job: Job) -> str:
    from shoal.inspect.job import left_over
    from shoal.sink import describe
    from shoal.text.humanize import duration, plural

    c, name = job.counters, job.spec.name
    took = f" after {duration(job.finished_at - job.created_at)}" if job.finished_at else ""
    pages, rows = plural(c.done, "page"), plural(c.items, "row")
    said = f"job {name} is finished{took}: {pages}, {rows} in {describe(plan.output)}"
    if left := left_over(job):
        said += f", {left}"
    if c.dead:
        letters = plural(c.dead, "dead letter")
        said += f", {letters}: {command(f'dead list --job {name}')}"
    if c.rejected:
        items = plural(c.rejected, "rejected item")
        said += f", {items}: {command(f'rejected list {name}')}"
    return said


def _hints(plan: JobPlan) -> None:
    """What the user may not expect, and what to do next."""
    from shoal.frontier import is_local
    from shoal.sink.outputs import read_output
    from shoal.terminal.console import say

    databases = [place.target for place in read_output(plan.output) if place.kind == "database"]
    if any(urlsplit(address).password for address in databases):
        say("the password is not noted with the job: give it to the workers as PGPASSWORD")
    if not is_local(plan.store) and any(urlsplit(address).netloc for address in databases):
        say("workers write there if their PGHOST or their setting outputs names it, or they trust the store")
    if plan.settings.headers or any(table.headers for table in plan.settings.host.values()):
        say(
            "headers are not noted with the job, they may be secret: workers send those of the spider or their own"
        )
    work = "up" if is_local(plan.store) else "worker"
    say(
        f"next: {command(f'{work} {plan.address}'.rstrip())} works on it, {command('status')} shows how it goes"
    )
