"""The shops by code: what pages say of themselves, and nothing else. The TOML file beside it has selectors, too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from shoal import Spider
from shoal.spider.page import Page

STARTS: list[str] = json.loads(os.environ["SHOPS_STARTS"])
spider = Spider("shops", start=STARTS)


@spider.handler(key="url")
def any_page(page: Page) -> Iterator[Any]:
    if page.is_xml or page.url.endswith((".xml", ".gz", ".txt")):
        for loc in page.css("loc"):
            yield page.follow(loc.text())
        return
    found = page.data("product") if not page.css("ul.menu, nav.pagination, .pager, .load-more") else []
    mine = [one for one in found if one.get("url") == page.url] or found
    for one in mine[:1]:
        yield {
            "url": page.url,
            **{name: one.get(name) for name in ("name", "sku", "price", "currency", "availability")},
        }
    yield from page.follow_all("a[href]", any_page)
