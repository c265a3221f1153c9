"""Normalised records of a page: what is read, from which syntax, and what counts when they differ."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.html.parsing import parse
from shoal.html.records import FIELDS, records
from shoal.model import Response, Task
from shoal.spider.page import Page

BASE = "https://shop.example/lamps/1"


def page_of(html: str, url: str = BASE) -> Page:
    headers = {"Content-Type": "text/html; charset=utf-8"}
    return Page(Task(url=url), Response(url, 200, headers, html.encode("utf-8", "replace")), "h")


def ld(text: str) -> str:
    return f'<script type="application/ld+json">{text}</script>'


def one(html: str, kind: str = "product", url: str = BASE) -> dict[str, Any]:
    [record] = page_of(html, url).data(kind)
    return record


def given(record: dict[str, Any], *names: str) -> list[Any]:
    return [record[name] for name in names]


def test_a_product_in_three_syntaxes_is_one_and_the_same() -> None:
    wanted = ["Lamp", "1234.50", "EUR", "in_stock", "L-1", "4006381333931", "Lumen"]
    names = ("name", "price", "currency", "availability", "sku", "gtin", "brand")
    json = ld(
        '{"@context": "https://schema.org", "@type": "Product", "name": "Lamp", "sku": "L-1",'
        ' "gtin13": "4006381333931", "brand": {"@type": "Brand", "name": "Lumen"}, "offers": {"@type": "Offer",'
        ' "price": 1234.5, "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}}'
    )
    microdata = (
        '<div itemscope itemtype="http://schema.org/Product"><h1 itemprop=name>Lamp</h1><b itemprop=sku>L-1</b>'
        "<meta itemprop=gtin13 content=4006381333931><span itemprop=brand itemscope itemtype=http://schema.org/Brand>"
        "<i itemprop=name>Lumen</i></span><p itemprop=offers itemscope itemtype=http://schema.org/Offer>"
        "<span itemprop=price>1.234,50 €</span><link itemprop=availability href=http://schema.org/InStock></p></div>"
    )
    opengraph = "".join(
        f'<meta property="{name}" content="{value}">'
        for name, value in {
            "og:type": "product",
            "og:title": "Lamp",
            "product:price:amount": "1,234.50",
            "product:price:currency": "eur",
            "product:availability": "in stock",
            "product:retailer_item_id": "L-1",
            "product:ean": "4006381333931",
            "product:brand": "Lumen",
        }.items()
    )
    for html, source in ((json, "jsonld"), (microdata, "microdata"), (opengraph, "opengraph")):
        record = one(html)
        assert given(record, *names) == wanted, source
        assert record["source"] == [source]
        assert tuple(record) == FIELDS["product"]


def test_a_page_without_any_has_none() -> None:
    assert page_of("<p>Lamp, 10 €").data() == []
    assert records(parse(b"")[0], BASE) == []
    xml = Page(Task(url=BASE), Response(BASE, 200, {"Content-Type": "text/xml"}, b"<a/>"), "h")
    assert xml.data() == []
    assert xml.structured()["jsonld"] == []


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="no kind 'produkt': it is one of product"):
        page_of("").data("produkt")


def test_what_a_handler_changes_is_its_own() -> None:
    page = page_of(ld('{"@type": "Product", "name": "Lamp", "offers": {"price": 1}}'))
    page.data("product")[0]["offers"].clear()
    assert len(page.data("product")[0]["offers"]) == 1
