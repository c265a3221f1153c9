"""`shoal keep`: one page as files, for tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options

if TYPE_CHECKING:
    from shoal.archive.saved_page import SavedPage
    from shoal.develop.page_source import Found


def keep(
    url: Annotated[str, typer.Argument(metavar="URL", help="The page; https:// may be left out.")],
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to.", show_default="tests/pages")
    ] = Path("tests/pages"),
    name: Annotated[
        str, options.option("--name", value="NAME", text="Of the files; by default made from the URL.")
    ] = "",
    spider: Annotated[
        str | None,
        options.option("--spider", value="SPIDER", text="Fetch it as this spider does: settings, hooks."),
    ] = None,
    any_status: Annotated[
        bool, options.switch("--any-status", text="Also what is no page, such as HTTP 404.")
    ] = False,
    browser: Annotated[
        bool, options.switch("--browser", text="Open it in a browser, as the browser lane does.")
    ] = False,
    refresh: Annotated[
        bool, options.switch("--refresh", text="Fetch it, though it is in the cache.", panel=options.PLACES)
    ] = False,
    cache: Annotated[
        Path | None,
        options.option(
            "--cache",
            value="DIR",
            text="Take it from here, and add it here.",
            panel=options.PLACES,
            default=".shoal/pages",
        ),
    ] = None,
    no_cache: Annotated[
        bool, options.switch("--no-cache", text="Fetch it, and keep only the files.", panel=options.PLACES)
    ] = False,
    no_robots: options.NoRobots = False,
    allow_network: options.AllowNetwork = None,
    pairs: options.Pairs = None,
    arguments: options.Arguments = None,
    config: options.Config = None,
) -> None:
    """Save one page with its headers as files, to test a spider with."""
    from shoal.archive.saved_page import save_page
    from shoal.cli.targets import as_url
    from shoal.config import load
    from shoal.develop.page_source import DEFAULT_CACHE, find_page, saved_file
    from shoal.engine.event_loop import run_loop
    from shoal.errors import UsageError
    from shoal.spider.loading import load_spider

    if arguments and spider is None:
        raise UsageError("-a is an argument of a spider: name one with --spider")
    if saved_file(url) is not None:
        raise UsageError(f"{url} is a file; give the URL of a page")
    if cache is not None and no_cache:
        raise UsageError("--cache and --no-cache exclude each other: leave out one")
    given = options.flags(pairs, robots=False if no_robots else None, allow_network=allow_network or None)
    loaded = load_spider(spider, arguments or ()) if spider is not None else None
    settings = load(config, loaded.settings if loaded is not None else {}, os.environ, given)
    found = run_loop(
        find_page(
            as_url(url),
            spider=loaded,
            settings=settings,
            cache=None if no_cache else cache or DEFAULT_CACHE,
            refresh=refresh,
            browser=browser,
        )
    )
    _check(found, any_status)
    name = name.removesuffix(".html").removesuffix(".json")
    _print(found, save_page(found.response, folder, task=found.task, at=found.at, name=name))


def _check(found: Found, any_status: bool) -> None:
    from shoal.errors import PageMissing
    from shoal.policy.outcomes import rule_for

    if found.kind != "ok" and not any_status:
        raise PageMissing(
            found.task.url,
            f"HTTP {found.response.status}, {found.kind}: {rule_for(found.kind).meaning}; nothing was"
            " saved, --any-status saves it all the same",
            kind=found.kind,
        )


def _print(found: Found, saved: SavedPage) -> None:
    from shoal.archive.saved_page import description_of, secret_parameters
    from shoal.terminal.console import safe, say, stdout
    from shoal.text import humanize

    size = humanize.size(len(found.response.body))
    place = {"live": "fetched now"}.get(found.where, f"from the {found.where}")
    stdout().print(safe(f"{saved.path}: HTTP {found.response.status}, {size}, {place}"), soft_wrap=True)
    if names := secret_parameters(found.response.url):
        where = description_of(saved.path)
        say(f"{where} has the URL with its {', '.join(names)}: look at it before you commit it")
