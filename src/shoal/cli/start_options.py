"""Options for where a crawl starts, besides URLs: sitemaps, feeds and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from shoal.cli.options import PLACES, option
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.runtime.job_plan import JobPlan
    from shoal.spider.loading import SpiderSource

Sitemaps = Annotated[
    list[str] | None,
    option(
        "--sitemap",
        value="URL",
        text="Start with the pages of a sitemap, or of all sitemaps of a site. Repeatable.",
        panel=PLACES,
    ),
]
Feeds = Annotated[
    list[str] | None,
    option("--feed", value="URL", text="Start with the pages of a feed. Repeatable.", panel=PLACES),
]
Since = Annotated[
    str | None,
    option(
        "--since",
        value="DATE",
        text="Of sitemaps and feeds, only what has changed since a date, or since the 'last' run.",
        panel=PLACES,
    ),
]
UrlColumn = Annotated[
    str | None,
    option("--url-column", value="NAME", text="The column with the URLs, if -i names a table.", panel=PLACES),
]


def listed_words(sitemaps: Sequence[str] | None, feeds: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The addresses of sitemaps and feeds, as URLs."""
    return list(dict.fromkeys(map(_url, sitemaps or ()))), list(dict.fromkeys(map(_url, feeds or ())))


def _url(word: str) -> str:
    from shoal.admit.sending import typed_url, unwrapped

    return typed_url(unwrapped(word))


def with_since(source: SpiderSource, since: str | None) -> SpiderSource:
    """Checked here, before anything is begun."""
    from shoal.spider.start_sources import LAST, Sitemap

    if since is None:
        return source
    if since != LAST:
        try:
            Sitemap("https://a.example/", since=since)
        except UsageError:
            raise UsageError(
                f"--since {since}: give a date such as 2026-01-31, or 'last' for the last run"
            ) from None
    if source.spec is None and not source.sitemaps and not source.feed_urls:
        raise UsageError("--since goes with --sitemap, --feed, or a spider that starts with them")
    return replace(source, since=since)


def say_without_effect(plan: JobPlan) -> None:
    """Says what was asked for and does nothing. Of a plan that cannot run, only the error is said."""
    from shoal.runtime.job_plan import check_parts, without_effect
    from shoal.terminal.console import say

    if lines := list(without_effect(plan)):
        check_parts(plan)
    for line in lines:
        say(line)
