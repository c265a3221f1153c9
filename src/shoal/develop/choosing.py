"""Which page a handler is tried on, if nobody says: the spider's start, or a page that a link of it leads to."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from pathlib import Path

from msgspec.structs import replace

from shoal.develop.page_source import Found, find_page
from shoal.develop.trying import run_handler
from shoal.errors import PageMissing, UsageError
from shoal.model import Request
from shoal.model.built_in import is_built_in
from shoal.settings import Settings
from shoal.spider.spider import Spider
from shoal.spider.start_sources import handlers_of_entries

_NESTED = 5  # robots.txt and sitemaps that lead to a page


async def page_for(
    spider: Spider,
    handler: str,
    *,
    settings: Settings,
    cache: Path | None,
    offline: bool = False,
    refresh: bool = False,
    browser: bool = False,
    stays_open: AsyncExitStack | None = None,
) -> Found:
    """A page for that handler; "": for the handler of the spider's start. `refresh`: the page is fetched again, but not
    the one that leads to it. `stays_open`: as for `find_page`."""
    request, typed = await _first(spider)
    trusted = [request.url] if typed or settings.trust_start else []
    first = spider.handler_named(request.handler).name

    async def find(target: Request, refresh: bool = refresh) -> Found:
        return await find_page(
            target,
            spider=spider,
            settings=settings,
            cache=cache,
            offline=offline,
            refresh=refresh,
            browser=browser,
            typed=trusted,
            stays_open=stays_open,
        )

    if not handler and is_built_in(first):  # people try their own code
        handler = spider.handler_named(handlers_of_entries(request)[0]).name
    if not handler or handler == first:
        return await find(request)
    for _ in range(_NESTED):
        start = await find(request, refresh=False)
        tried = await run_handler(spider, start, first, settings=settings, cache=cache, offline=offline)
        taken = [one for one in tried.requests if one.task is not None]
        for one in taken:
            if one.handler == handler:
                return await find(replace(one.request, url=one.url, base=None))
        nested = next((one for one in taken if is_built_in(one.handler)), None)
        if nested is None:
            break
        # Another sitemap of an index.
        request, first = replace(nested.request, url=nested.url, base=None), nested.handler
    if tried.error is not None:
        raise PageMissing(
            start.response.url,
            f"handler {first!r}, which leads to {handler!r}, fails there: {tried.error.detail}",
        )
    raise PageMissing(
        start.response.url,
        f"handler {first!r} yields no request there that {handler!r} would get; give a URL",
    )


async def first_start(spider: Spider) -> Request:
    request, _ = await _first(spider)
    return request


async def _first(spider: Spider) -> tuple[Request, bool]:
    """The first start request, and whether a person typed it."""
    if spider.reads_stdin():
        raise UsageError(f"spider {spider.name!r} reads its start URLs from standard input: give a URL")
    async with aclosing(spider.starts()) as starts:
        async for _, request, typed in starts:
            return request, typed
    raise UsageError(f"the start of spider {spider.name!r} gives no URL: give one")
