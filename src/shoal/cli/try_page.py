"""`shoal try`: one handler on one page."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.errors import ShoalError, UsageError

if TYPE_CHECKING:
    from shoal.develop.trying import Tried
    from shoal.settings import Settings
    from shoal.spider.loading import SpiderSource
    from shoal.spider.spider import Spider


@dataclass(frozen=True, kw_only=True)
class TryPlan:
    """What is to be tried, as it was typed."""

    source: SpiderSource
    page: str
    handler: str
    cache: Path | None
    offline: bool
    refresh: bool
    browser: bool
    given: dict[str, object]
    config: Path | None


def try_page(
    spider: Annotated[
        str,
        typer.Argument(metavar="SPIDER", help="The spider: FILE.py, FILE.py:name, FILE.toml or module:name."),
    ],
    page: Annotated[
        str,
        typer.Argument(
            metavar="PAGE", help="A URL, or a saved page. None: the spider's start.", show_default=False
        ),
    ] = "",
    handler: Annotated[
        str,
        options.option(
            "--handler",
            value="NAME",
            text="The handler; without PAGE, on a page that the start leads to.",
            default="the first",
        ),
    ] = "",
    watch: Annotated[bool, options.switch("--watch", text="Run again whenever the spider is saved.")] = False,
    cache: options.PageCache = None,
    no_cache: options.NoCache = False,
    refresh: Annotated[
        bool, options.switch("--refresh", text="Fetch the page again.", panel=options.PLACES)
    ] = False,
    offline: options.Offline = False,
    browser: Annotated[
        bool, options.switch("--browser", text="Open the page in a browser, as the browser lane does.")
    ] = False,
    no_robots: options.NoRobots = False,
    allow_network: options.AllowNetwork = None,
    every: Annotated[
        bool, options.switch("--all", text="Every item and request, not the first 20.", panel=options.SHOWN)
    ] = False,
    as_json: options.AsJson = False,
    arguments: options.Arguments = None,
    pairs: options.Pairs = None,
    config: options.Config = None,
    log_level: options.LogLevel = None,
) -> None:
    """Run one handler of SPIDER on one page, and show what it yields. A page is fetched once."""
    from shoal.cli.targets import spider_source

    options.set_up_logging(log_level, usual="info")
    if refresh and offline:
        raise UsageError("--refresh fetches the page and --offline fetches nothing: leave one of them out")
    plan = TryPlan(
        source=spider_source(spider, arguments),
        page=page,
        handler=handler,
        cache=options.page_cache(cache, no_cache),
        offline=offline,
        refresh=refresh,
        browser=browser,
        given=options.flags(pairs, robots=False if no_robots else None, allow_network=allow_network or None),
        config=config,
    )
    if watch:
        _watch(plan, every=every, as_json=as_json)
    elif not _try(plan, every=every, as_json=as_json):
        raise typer.Exit(1)


def _try(plan: TryPlan, *, every: bool, as_json: bool) -> bool:
    """Whether anything came of it."""
    from asyncio import CancelledError

    from shoal.develop.prompt_loop import PromptLoop
    from shoal.develop.watching import without_bytecode
    from shoal.spider import debugging
    from shoal.telemetry.printing import give_stdout_back, take_stdout

    if not sys.stdout.isatty():  # what the spider prints is no result
        take_stdout()
    try:
        with without_bytecode():
            spider = plan.source.load()
        with debugging.breakpoints(), PromptLoop() as loop:  # Ctrl-C ends also what computes for ever
            tried = loop.run(_tried(plan, spider))
    except CancelledError:  # somebody quit the debugger
        raise KeyboardInterrupt from None
    finally:
        give_stdout_back()
    if as_json:
        from shoal.develop.trying import as_dict
        from shoal.terminal.console import print_json

        print_json(as_dict(tried))
    else:
        from shoal.terminal.try_view import print_tried

        print_tried(tried, every=every)
    return tried.error is None and not tried.is_empty


async def _tried(plan: TryPlan, spider: Spider) -> Tried:
    from shoal.config import load
    from shoal.develop.trying import wants_a_browser

    if plan.handler:
        spider.handler_named(plan.handler)
    settings = load(plan.config, spider.settings, os.environ, plan.given)
    tried = await _once(plan, spider, settings)
    if wants_a_browser(tried) and not plan.offline:  # as in a crawl
        tried = await _once(replace(plan, refresh=True), spider, settings)
    return tried


async def _once(plan: TryPlan, spider: Spider, settings: Settings) -> Tried:
    from shoal.develop.page_choice import page_for
    from shoal.develop.page_source import find_page
    from shoal.develop.trying import check_is_page, run_handler

    cache, offline = plan.cache, plan.offline
    async with AsyncExitStack() as stack:
        if plan.page:
            found = await find_page(
                plan.page,
                spider=spider,
                settings=settings,
                cache=cache,
                offline=offline,
                refresh=plan.refresh,
                browser=plan.browser,
                handler=plan.handler,
                stays_open=stack,
            )
        else:
            found = await page_for(
                spider,
                plan.handler,
                settings=settings,
                cache=cache,
                offline=offline,
                refresh=plan.refresh,
                browser=plan.browser,
                stays_open=stack,
            )
        check_is_page(found)
        return await run_handler(spider, found, plan.handler, settings=settings, cache=cache, offline=offline)


def _watch(plan: TryPlan, *, every: bool, as_json: bool) -> None:
    from shoal.cli import complain
    from shoal.develop.page_source import saved_file
    from shoal.develop.watching import Watch, forget_modules, project_files
    from shoal.terminal.console import say

    code = Path((plan.source.spec or "").partition(":")[0])  # or a module, which is found once it is imported
    folders = [Path.cwd(), code.parent]
    named = [code, plan.config or Path("shoal.toml"), saved_file(plan.page)]
    try:
        while True:
            watch = Watch([path for path in named if path is not None])
            try:
                _try(plan, every=every, as_json=as_json)
            except ShoalError as error:
                complain(str(error), error.exit_code)
            watch.add(project_files(*folders))
            say(f"waiting for {code} to be saved; Ctrl-C ends it")
            saved = watch.wait()
            say(f"\n── {time.strftime('%H:%M:%S')} {saved.name} was saved")
            forget_modules(*folders)
            plan = replace(plan, refresh=False)
    except KeyboardInterrupt:
        return
