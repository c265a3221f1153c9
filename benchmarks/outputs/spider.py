"""The spider that reads the site: one handler for each kind of row. SITE_URL says where the site is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shoal import Page, Spider

spider = Spider("site", start=os.environ["SITE_URL"] + "/page/0", robots=False)


@dataclass
class Review:
    kind: str
    id: str
    stars: int
    text: str
    at: datetime
    helpful: int | None = None
    tags: list[str] = field(default_factory=list)


@spider.handler(name="brand", key="id")
def brands(page: Page) -> Iterator[Any]:
    yield from rows_and_links(page)


@spider.handler(name="product")
def products(page: Page) -> Iterator[Any]:
    yield from rows_and_links(page)


@spider.handler(item=Review)
def reviews(page: Page) -> Iterator[Any]:
    yield from rows_and_links(page)


HANDLERS = {"brand": "brand", "product": "product", "review": "reviews"}


def rows_and_links(page: Page) -> Iterator[Any]:
    content = page.json()
    yield from content["rows"]
    for link in content["links"]:
        yield page.follow(f"/page/{link['page']}", HANDLERS[link["kind"]])
