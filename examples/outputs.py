"""Two kinds of items, each in the format that suits it, and everything in one file besides.

    shoal crawl examples/outputs.py
    shoal rows outputs                                 the newest rows
    shoal export outputs -o everything.sqlite          the same rows in another format

Needs pyarrow, for Parquet: pip install 'shoal[parquet]'. QUOTES_URL names another site with this markup.
"""

import os
from dataclasses import dataclass

from shoal import Page, Spider

spider = Spider(
    "outputs",
    start=os.environ.get("QUOTES_URL", "https://quotes.toscrape.com/"),
    output=[
        "quote=quotes.parquet",
        "author=authors.csv",
        "everything.jsonl.gz",
    ],  # what -o names, if it is not given
    row_meta=["url", "item"],  # rows say where they are from, and which kind they are
)


@dataclass
class Quote:  # its fields are the columns, and their types those of Parquet
    text: str
    author: str
    tags: list[str]


@dataclass
class Author:
    name: str
    born: str


@spider.handler(item=Quote)
def listing(page: Page):
    for box in page.css("div.quote"):
        tags = [tag.text() for tag in box.css("a.tag")]
        yield Quote(box.css_first("span.text").text().strip("“”"), box.css_first("small.author").text(), tags)
    yield from page.follow_all("div.quote span a[href^='/author/']", author)
    yield from page.paginate("li.next a")


@spider.handler(item=Author, key="name")
def author(page: Page):
    yield Author(page.text("h3.author-title"), page.text(".author-born-date"))
