"""`shoal shell`: Python with a page."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.develop.shell import Shell
    from shoal.develop.trying import Tried
    from shoal.settings import Settings
    from shoal.spider.spider import Spider

HISTORY = Path(".shoal/shell_history")


def shell(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAGE] [SPIDER]",
            help="A URL, a saved page, or JOB URL: the page as that job kept it. A spider alone: its start.",
        ),
    ] = None,
    code: Annotated[
        str | None,
        options.option("-c", "--code", value="CODE", text="Run this, show the values, and end."),
    ] = None,
    browser: Annotated[
        bool, options.switch("--browser", text="Open pages in a browser, as the browser lane does.")
    ] = False,
    plain: Annotated[
        bool, options.switch("--plain", text="Python's own prompt, also if IPython is there.")
    ] = False,
    cache: options.PageCache = None,
    no_cache: options.NoCache = False,
    refresh: Annotated[
        bool, options.switch("--refresh", text="Fetch the page again.", panel=options.PLACES)
    ] = False,
    offline: options.Offline = False,
    store: options.Store = options.DEFAULT_STORE,
    no_robots: options.NoRobots = False,
    allow_network: options.AllowNetwork = None,
    arguments: options.Arguments = None,
    pairs: options.Pairs = None,
    config: options.Config = None,
    log_level: options.LogLevel = None,
) -> None:
    """Python with a page in it, to try selectors and handlers. A page is fetched once."""
    from shoal.develop.prompt_loop import PromptLoop
    from shoal.develop.shell import Shell, Sources

    options.set_up_logging(log_level)
    job, page, spec = read_words(words or [])
    if refresh and offline:
        raise UsageError("--refresh fetches the page and --offline fetches nothing: leave one of them out")
    if spec is None and arguments:
        raise UsageError("-a is for a spider that takes arguments: name it")
    given = options.flags(pairs, robots=False if no_robots else None, allow_network=allow_network or None)
    spider = None if spec is None else _load(spec, arguments or [])
    settings = _settings(config, spider, given)
    folder = options.page_cache(cache, no_cache)
    if job:
        settings, folder, offline = _with_archive(settings, store, job), None, True
    sources = Sources(settings, folder, offline=offline, browser=browser)
    with PromptLoop() as loop:
        load = None if spec is None else lambda: _load(spec, arguments or [])
        made = Shell(sources, loop, spider, load, _draw)
        try:
            _open(made, page, refresh)
            fine = _interpret(made, code, plain)
        finally:
            made.run(made.close())
        if not fine:
            raise typer.Exit(1)


def read_words(words: Sequence[str]) -> tuple[str, str, str | None]:
    """Job, page and spider that the words mean."""
    from shoal.cli.targets import spider_meant

    # A plain word may be a job that is called like its spider, so only the last one is looked for among files.
    plain, last = re.compile(r"\w+"), len(words) - 1
    found = [
        spider_meant(word) if at == last or not plain.fullmatch(word) else None
        for at, word in enumerate(words)
    ]
    specs = [spec for spec in found if spec is not None]
    others = [word for word, spec in zip(words, found, strict=True) if spec is None]
    if len(specs) > 1:
        raise UsageError(f"{' and '.join(specs)} are spiders: give one")
    if len(others) > 2:
        raise UsageError(
            "give a page (a URL or a file; JOB URL for a page that a job kept), and a spider if you like"
        )
    job, page = others if len(others) == 2 else ("", others[0] if others else "")
    return job, page, specs[0] if specs else None


def _load(spec: str, arguments: Sequence[str]) -> Spider:
    from shoal.spider.loading import load_spider

    return load_spider(spec, arguments)


def _settings(config: Path | None, spider: Spider | None, given: dict[str, object]) -> Settings:
    from shoal.config import load

    return load(config, {} if spider is None else spider.settings, os.environ, given)


def _with_archive(settings: Settings, store: str, name: str) -> Settings:
    """The settings, with the archive that a job writes."""
    from msgspec.structs import replace

    from shoal.frontier.protocol import Frontier
    from shoal.inspect.job import unknown_job
    from shoal.jobs.note import settings_of
    from shoal.terminal.console import ask

    async def archive_of(frontier: Frontier) -> str:
        job = await frontier.job(name)
        if job is None:
            raise await unknown_job(frontier, name)
        of_job = settings_of(job.spec)
        return of_job.archive if of_job is not None and of_job.archive else ""

    archive = ask(store, archive_of)
    if not archive:
        raise UsageError(
            f"job {name} keeps no pages: crawl it with --archive DIR; or leave the job out, and the page is fetched"
        )
    return replace(settings, archive=archive)


def _open(made: Shell, page: str, refresh: bool) -> None:
    """Gets the first page, if one is named."""
    from shoal.develop.page_choice import first_start

    if page:
        made.run(made.get(page, refresh=refresh))
    elif made.spider is not None:
        made.run(made.get(made.run(first_start(made.spider)), refresh=refresh))


def _interpret(made: Shell, code: str | None, plain: bool) -> bool:
    """Whether all went well. Who types sees it."""
    from shoal.develop.consoles import has_ipython, run_code, run_console, run_ipython

    if code is None and not sys.stdin.isatty():
        code = sys.stdin.read()
    if code is not None:
        return run_code(made.names, made.run, code)
    if not plain and has_ipython():
        run_ipython(made.names, made.run, made.banner())
    else:
        run_console(made.names, made.run, made.banner(), HISTORY)
    return True


def _draw(tried: Tried) -> str:
    from shoal.terminal.console import stdout
    from shoal.terminal.try_view import print_tried

    console = stdout()
    with console.capture() as drawn:
        print_tried(tried, console=console)
    return drawn.get().rstrip("\n")
