"""A list of URLs with Shoal: a row for each, and the pages are not looked into."""

from __future__ import annotations

from pathlib import Path

from shoal import Page, Spider

spider = Spider("list", start=Path("starts.txt"), trust_start=True)


@spider.handler
def page(page: Page) -> dict[str, object]:
    return {"url": page.url, "status": page.status}
