"""A spider that looks closely at its pages: several selectors, all words of the text, a row with what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from shoal import Page, Request, Spider

spider = Spider("parsing", start=Path("starts.txt"), trust_start=True)


@spider.handler
def page(page: Page) -> Iterator[dict[str, object] | Request]:
    words = Counter(word for text in page.texts("main p") for word in text.split())
    yield {
        "url": page.url,
        "status": page.status,
        "title": page.text("title"),
        "links": len(page.css("li.link a")),
        "description": page.attr('meta[name="description"]', "content"),
        "canonical": page.attr('link[rel="canonical"]', "href"),
        "topic": page.text("main > h1"),
        "stressed": len(page.texts("p strong")) + len(page.texts("p em")),
        "usual": [word for word, _ in words.most_common(10)],
    }
    yield from page.follow_all("li.link a")
