"""The handler of a crawl without code: one row a page with its usual facts, and all links."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Unpack

from shoal.html.page_links import join
from shoal.html.visible_text import squeeze, visible_length
from shoal.model import Request
from shoal.settings.keywords import SpiderSettings
from shoal.spider.spider import Spider, Start

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

    from shoal.spider.page import Page

Row = dict[str, str | int | None]


def summary_spider(name: str, start: Start, **settings: Unpack[SpiderSettings]) -> Spider:
    """A spider that follows every link and writes a summary of every page."""
    spider = Spider(name, start, **settings)
    spider.add_handler(summary)
    return spider


def summary(page: Page) -> list[Row | Request]:
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
    requests = page.follow_all()
    tree = page.tree
    row["title"] = _title(tree)
    row["description"] = _description(tree)
    row["canonical"] = _canonical(tree, page.base)
    row["language"] = tree.root.attributes.get("lang") or None if tree.root else None
    row["text_length"] = visible_length(tree)
    row["links"] = len(requests)
    return [row, *requests]


@lru_cache(maxsize=64)  # pages of the same second share it
def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _title(tree: LexborHTMLParser) -> str | None:
    titles = tree.tags("title")
    return squeeze(titles[0].text()) or None if titles else None


def _description(tree: LexborHTMLParser) -> str | None:
    for node in tree.tags("meta"):
        attributes = node.attributes
        if (attributes.get("name") or "").lower() == "description":
            return squeeze(attributes.get("content") or "") or None
    return None


def _canonical(tree: LexborHTMLParser, base: str) -> str | None:
    for node in tree.tags("link"):
        attributes = node.attributes
        if "canonical" in (attributes.get("rel") or "").lower().split():
            return join(base, attributes.get("href") or "") if attributes.get("href") else None
    return None
