"""A shop: list pages lead to products, products become rows.

    shoal crawl examples/books.py -o books.jsonl

BOOKS_URL names another site with the same markup.
"""

import os

from shoal import Page, Spider

spider = Spider("books", start=os.environ.get("BOOKS_URL", "https://books.toscrape.com/"))

STARS = {"One": 1, "Two": 2, "Three": 3, "Four": 4, "Five": 5}


@spider.handler  # the first handler gets the start URLs
def listing(page: Page):
    yield from page.follow_all("article.product_pod h3 a", book)
    yield from page.paginate("li.next a")  # the next list page, for this same handler


# Products are fetched before further list pages (priority), and written once per UPC (key).
@spider.handler(key="upc", priority=1)
def book(page: Page):
    rows = page.css("table.table-striped tr")
    facts = {row.css_first("th").text(): row.css_first("td").text() for row in rows}
    stars = (page.attr("p.star-rating", "class") or "").removeprefix("star-rating").strip()
    yield {
        "upc": facts["UPC"],
        "title": page.text("h1"),
        "price": page.text(".product_main .price_color"),
        "stars": STARS.get(stars),
        "in_stock": "In stock" in page.text(".product_main .availability"),
        "url": page.url,
    }
