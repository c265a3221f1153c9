"""The handler of a crawl without code: one row a page with its usual facts, and all links. On request, more facts
(`row_fields`), or what a page says about products, articles and so on (`extract`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Unpack

from shoal.html.page_facts import canonical_in
from shoal.html.visible_text import squeeze, visible_length
from shoal.model.request import PageLinks
from shoal.settings import Settings
from shoal.spider.row_fields import RowFields
from shoal.spider.spider import Handler, Spider, Start

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

    from shoal.settings.keywords import SpiderSettings
    from shoal.spider.page import Page

Row = dict[str, Any]
NAME = "summary"  # of the handler, and of its rows


class SummarySpider(Spider):
    """A spider without code. What its rows have, the settings of its job say."""

    def fitted(self, settings: Settings) -> Spider:
        if not settings.row_fields and not settings.extract:
            return self
        spider = SummarySpider(self.name, self.start)
        spider.settings, spider.plugins, spider.start_is_typed = (
            self.settings,
            self.plugins,
            self.start_is_typed,
        )
        spider.handlers[NAME] = _handler(settings)
        return spider


def summary_spider(name: str, start: Start, **settings: Unpack[SpiderSettings]) -> Spider:
    """A spider that follows every link and writes a summary of every page."""
    spider = SummarySpider(name, start, **settings)
    spider.add_handler(summary)
    return spider


def _handler(settings: Settings) -> Handler:
    if settings.extract:
        from shoal.spider.extracting import extracting_handler

        return extracting_handler(NAME, settings)
    return Handler(NAME, with_fields(settings))


def with_fields(settings: Settings) -> Callable[[Page], list[Row | PageLinks]]:
    """A handler whose rows have the fields of the setting `row_fields` besides."""
    more = RowFields(settings)

    def summary_with_fields(page: Page) -> list[Row | PageLinks]:
        row, *links = summary(page)
        assert isinstance(row, dict)
        return [row | more.of(page), *links]

    return summary_with_fields


def summary(page: Page) -> list[Row | PageLinks]:
    row: Row = {
        "url": page.url,
        "status": page.status,
        "title": None,
        "description": None,
        "canonical": None,
        "language": None,
        "text_length": None,  # characters of visible text, without white space
        "links": None,
        "fetched_at": _iso(int(page.fetched_at)),
        "depth": page.depth,
        "content_type": page.content_type or None,
        "bytes": len(page.body),
    }
    if not page.is_html:
        return [row]
    # Elements are found by tag: the first use of a selector costs as much as parsing the page.
    links = page._all_links()
    tree = page.tree
    row["title"] = title_of(tree)
    row["description"] = _description(tree)
    row["canonical"] = canonical_in(tree, page.base)
    row["language"] = tree.root.attributes.get("lang") or None if tree.root else None
    row["text_length"] = visible_length(tree)
    row["links"] = len(links)
    return [row, links]


@lru_cache(maxsize=64)  # pages of the same second share it
def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def title_of(tree: LexborHTMLParser) -> str | None:
    titles = tree.tags("title")
    return squeeze(titles[0].text()) or None if titles else None


def _description(tree: LexborHTMLParser) -> str | None:
    for node in tree.tags("meta"):
        attributes = node.attributes
        if (attributes.get("name") or "").lower() == "description":
            return squeeze(attributes.get("content") or "") or None
    return None
