"""A list of products, looked at once a day: URLs from a file, typed items, one row per product.

    shoal crawl examples/price_monitor.py --job prices-monday -o prices-monday.jsonl

Every run with a new --job is a new look at all prices; the same --job again resumes it.
PRODUCTS names the file of URLs; products.txt beside this file is the default.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from shoal import Page, Spider

PRODUCTS = Path(os.environ.get("PRODUCTS", Path(__file__).with_name("products.txt")))

# A product that is gone is news, not a failure: its status goes to the handler.
spider = Spider("prices", start=PRODUCTS, handle_status=[404, 410])


@dataclass(frozen=True)
class Price:
    url: str
    title: str
    amount: float | None
    available: bool


@spider.handler(key="url")
def product(page: Page):
    if page.status != 200:
        return Price(page.task.origin, "", None, available=False)
    amount = page.text(".product_main .price_color").lstrip("£$€")
    available = "In stock" in page.text(".product_main .availability")
    return Price(page.task.origin, page.text("h1"), float(amount), available)
