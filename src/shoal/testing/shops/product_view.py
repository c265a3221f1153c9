"""A product as a page of its shop shows it: what every template is given."""

from __future__ import annotations

import json
from decimal import Decimal
from html import escape
from typing import Any

from msgspec import Struct

from shoal.testing.shops.goods import Product
from shoal.testing.shops.languages import Words
from shoal.testing.shops.money import Money

_SCHEMA = {
    "in_stock": "InStock",
    "out_of_stock": "OutOfStock",
    "preorder": "PreOrder",
    "backorder": "BackOrder",
    "limited": "LimitedAvailability",
    "discontinued": "Discontinued",
}
_RARE_STATES = {  # of shops in English
    "backorder": "Available on backorder",
    "limited": "Only 2 left in stock",
    "discontinued": "This product has been discontinued",
}


class View(Struct, frozen=True):
    shop: str
    language: str
    words: Words
    money: Money
    sold_out: str  # the words of this shop for it
    product: Product
    url: str
    home: str
    related: tuple[tuple[Product, str], ...]  # other products, with their URLs
    offers: str  # which of OFFERS
    is_range: bool  # variants have several prices, and this is the lowest
    ascii: bool  # the page is in a legacy encoding, so scripts escape what is not ASCII

    @property
    def name(self) -> str:
        """For HTML."""
        return escape(self.product.name)

    @property
    def plain(self) -> str:
        """The price as programs write it."""
        return self.money.plain(self.product.price)

    @property
    def price(self) -> str:
        """The price as people read it, for HTML."""
        text = self.text(self.product.price)
        return f"{escape(self.words.since)} {text}" if self.is_range else text

    @property
    def stock(self) -> str:
        """The availability in words, for HTML."""
        return escape(self.state(self.product))

    @property
    def schema(self) -> str:
        """The availability in the words of schema.org, without its address."""
        return _SCHEMA[self.product.availability]

    @property
    def image(self) -> str:
        return f"{self.home}/media/{self.product.sku}.jpg"

    @property
    def description(self) -> str:
        return f"{self.product.name}: {self.words.related.lower()}. {self.product.brand}, No. {self.product.number + 1}."

    def state(self, product: Product) -> str:
        ours = {
            "in_stock": self.words.in_stock,
            "preorder": self.words.preorder,
            "out_of_stock": self.sold_out,
        }
        return ours.get(product.availability) or _RARE_STATES[product.availability]

    def text(self, price: Decimal) -> str:
        return self.money.text(price)

    def dump(self, value: Any, *, indent: int | None = 2) -> str:
        """As JSON inside a script."""
        text = json.dumps(value, ensure_ascii=self.ascii, indent=indent)
        return text.replace("</", "<\\/")

    def script(self, *values: Any) -> str:
        """A JSON-LD script for each."""
        return "\n".join(
            f'<script type="application/ld+json">{value if isinstance(value, str) else self.dump(value)}</script>'
            for value in values
        )
