"""Of several products on a page, the one that the page is about comes first."""

from __future__ import annotations

import json

import pytest

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
