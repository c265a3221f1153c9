"""What the fifty shops taught: whose record comes first, quotes in broken JSON, cents behind a sign."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from shoal.html.records.prices import parse_price
from shoal.testing import page

URL = "https://shop.example/lamp"
OTHERS = {
    "@type": "ItemList",
    "itemListElement": [
        {"@type": "Product", "name": "Vase", "url": "https://shop.example/vase", "offers": {"price": 5}},
        {"@type": "Product", "name": "Clock", "url": "/clock", "offers": {"price": 6}},
    ],
}


def names(own: dict[str, object], head: str = "", url: str = URL) -> list[str]:
    scripts = "".join(
        f'<script type="application/ld+json">{json.dumps({"@context": "https://schema.org", **one})}</script>'
        for one in (OTHERS, {"@type": "Product", "name": "Lamp", "offers": {"price": 7}, **own})
    )
    return [one["name"] for one in page(f"<html><head>{head}{scripts}</head></html>", url).data("product")]


@pytest.mark.parametrize(
    ("own", "head", "url"),
    [
        ({"url": URL}, "", URL),
        ({"url": URL + "/#product"}, "", URL),
        ({"url": URL}, f'<link rel="canonical" href="{URL}">', URL + "?utm_source=mail"),
        ({"url": URL}, f'<meta property="og:url" content="{URL}">', URL + "?ref=1"),
        ({}, "", URL),  # without a URL of its own
    ],
)
def test_the_product_of_the_page_is_before_those_that_it_recommends(
    own: dict[str, object], head: str, url: str
) -> None:
    assert names(own, head, url) == ["Lamp", "Vase", "Clock"]


def test_else_the_order_of_the_page_counts() -> None:
    assert names({"url": "https://shop.example/another"}) == ["Vase", "Clock", "Lamp"]


def test_a_word_and_a_colon_behind_a_bare_quote_do_not_end_a_text() -> None:
    text = '{"@type": "Product", "description": "A 19" wide: lamp, the "best"", "name": "Lamp"\n offers: {"price": 7}}'
    [found] = page(f'<html><script type="application/ld+json">{text}</script></html>', URL).data("product")
    assert (found["name"], found["price"]) == ("Lamp", "7.00")
    assert found["description"] == 'A 19" wide: lamp, the "best"'


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("7\u202f388€81", "7388.81"),
        ("1 234 567€99", "1234567.99"),
        ("1'299€50", "1299.50"),
        ("12€50", "12.50"),
        ("$15 $10", "15"),  # two prices: no cents behind a sign
        ("£ 5 £10", "5"),
        ("1 234 € 50 pièces", "1234"),
    ],
)
def test_cents_behind_the_sign_of_the_currency(text: str, amount: str) -> None:
    price = parse_price(text)
    assert price is not None
    assert price.amount == Decimal(amount)
