"""Which page a handler is tried on, if nobody says: the spider's start, or the first page for it that the start leads
to, also by way of other handlers: one page of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

from msgspec.structs import replace

from shoal.develop.page_source import Found, as_stored, find_page
from shoal.develop.trying import run_handler
from shoal.errors import PageMissing, UsageError
from shoal.model.built_in import is_built_in
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.spider.spider import Spider
from shoal.spider.start_sources import handlers_of_entries

_FAR = 200  # characters: some five indexes of sitemaps in one another


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
    those that lead to it. `stays_open`: as for `find_page`."""
    request, typed = await _first(spider)
    trusted = [request.url] if typed or settings.trust_start else []
    first = spider.handler_named(request.handler).name

    async def find(target: Request, refresh: bool = refresh) -> Found:
        return await find_page(
            as_stored(target),
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
    ways: dict[str, Request] = {first: request}  # for each handler, the first page that the start leads to
    told = ""
    for way, target in _growing(ways):
        page = await find(target, refresh=False)
        name = spider.handler_named(target.handler).name
        tried = await run_handler(spider, page, name, settings=settings, cache=cache, offline=offline)
        for one in tried.requests:
            if one.task is not None:
                # A sitemap may lead to another one, which the same handler reads.
                key = f"{way} > {one.handler}"[:_FAR] if is_built_in(one.handler) else one.handler
                ways.setdefault(key, replace(one.request, url=one.url, base=None))
        if handler in ways:
            return await find(ways[handler])
        if tried.error is not None:
            told = f"handler {name!r}, which may lead to {handler!r}, fails at {page.response.url}: "
            told += tried.error.detail
    leading = " and ".join(repr(name) for name in ways)
    raise PageMissing(
        request.url, told or f"{leading} yield no request that {handler!r} would get; give a URL"
    )


def _growing(ways: dict[str, Request]) -> Iterator[tuple[str, Request]]:
    """Also what is added meanwhile."""
    done: set[str] = set()
    while left := [name for name in ways if name not in done]:
        done.add(left[0])
        yield left[0], ways[left[0]]


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
