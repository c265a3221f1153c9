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
        "<meta itemprop=gtin13 content=4006381333931><span itemprop=brand itemscope"
        " itemtype=http://schema.org/Brand>"
        "<i itemprop=name>Lumen</i></span><p itemprop=offers itemscope itemtype=http://schema.org/Offer>"
        "<span itemprop=price>1.234,50 €</span><link itemprop=availability"
        " href=http://schema.org/InStock></p></div>"
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


# -- products


def offer_of(text: str, url: str = BASE) -> dict[str, Any]:
    return one(ld(f'{{"@type": "Product", "name": "x", "offers": {text}}}'), url=url)


def test_a_sale_price_and_a_list_price() -> None:
    record = offer_of(
        '{"@type": "Offer", "priceCurrency": "USD", "priceSpecification": [{"price": 20, "priceType":'
        ' "https://schema.org/StrikethroughPrice"}, {"price": 15.5}, {"price": 10, "validForMemberTier":'
        ' {"name": "gold"}}]}'
    )
    assert given(record, "price", "list_price", "currency") == ["15.50", "20.00", "USD"]
    record = offer_of(
        '{"price": 10, "priceSpecification": {"priceType": "ListPrice", "price": 8, "priceCurrency": "EUR"}}'
    )
    assert given(record, "price", "list_price") == ["10.00", None]  # a list price below the price is none


def test_a_price_per_kilo_is_not_the_price() -> None:
    record = offer_of(
        '{"priceCurrency": "EUR", "priceSpecification": [{"price": 39.8, "unitCode": "KGM",'
        ' "referenceQuantity": 1},'
        ' {"price": 1.99}]}'
    )
    assert record["price"] == "1.99"


def test_an_aggregate_offer() -> None:
    record = offer_of(
        '{"@type": "AggregateOffer", "lowPrice": "10", "highPrice": "20", "priceCurrency": "EUR"}'
    )
    assert given(record, "price", "low_price", "high_price", "currency") == ["10.00", "10.00", "20.00", "EUR"]
    record = offer_of(
        '{"@type": "AggregateOffer", "priceCurrency": "EUR", "offers": [{"price": 12, "availability": "SoldOut"},'
        ' {"price": 14, "availability": "InStock", "seller": {"name": "S"}}]}'
    )
    assert given(record, "price", "low_price", "high_price", "availability", "seller") == [
        "14.00",
        "12.00",
        "14.00",
        "in_stock",
        "S",
    ]
    assert [one["price"] for one in record["offers"]] == ["12.00", "14.00"]


def test_the_offer_of_this_page_counts() -> None:
    offers = '[{"price": 1, "url": "/lamps/1?v=a"}, {"price": 2, "url": "/lamps/1?v=b"}]'
    assert offer_of(offers)["price"] == "1.00"
    assert offer_of(offers, "https://shop.example/lamps/1?v=b")["price"] == "2.00"


def test_variants_of_a_group() -> None:
    record = one(
        ld(
            '{"@graph": [{"@type": "ProductGroup", "@id": "#g", "name": "Shirt", "hasVariant": [{"@id":'
            ' "#s"}, {"@id": "#l"}]},'
            ' {"@type": "Product", "@id": "#s", "name": "Shirt S", "sku": "S", "size": "S", "color": "red",'
            ' "offers": {"price":'
            ' 5, "priceCurrency": "EUR", "availability": "OutOfStock"}}, {"@type": "Product", "@id": "#l",'
            ' "sku": "L", "size":'
            ' {"@type": "SizeSpecification", "name": "L"}, "offers": {"price": 7, "priceCurrency": "EUR",'
            ' "availability":'
            ' "InStock"}}]}'
        )
    )
    assert given(record, "name", "price", "availability", "low_price", "high_price") == [
        "Shirt",
        "7.00",
        "in_stock",
        "5.00",
        "7.00",
    ]
    assert [(one["sku"], one["price"], one["properties"]) for one in record["variants"]] == [
        ("S", "5.00", {"color": "red", "size": "S"}),
        ("L", "7.00", {"size": "L"}),
    ]


def test_variants_that_name_their_group() -> None:
    html = ld(
        '[{"@type": "Product", "sku": "S", "isVariantOf": {"@id": "#g"}, "offers": {"price": 5,'
        ' "priceCurrency": "EUR"}},'
        ' {"@type": "ProductGroup", "@id": "#g", "name": "Shirt"}, {"@type": "Product", "sku": "L", "isVariantOf":'
        ' {"@id": "#g"}}]'
    )
    record = one(html)
    assert given(record, "name", "price") == ["Shirt", "5.00"]
    assert [variant["sku"] for variant in record["variants"]] == ["S", "L"]


@pytest.mark.parametrize(
    ("price", "currency", "expected"),
    [
        ("1234.5", "EUR", "1234.50"),
        ('"1.234,50 €"', "", "1234.50"),
        ('"1,234.50"', "USD", "1234.50"),
        ('"12.345"', "KWD", "12.345"),
        ('"1200"', "JPY", "1200"),
        ('"0"', "EUR", "0.00"),
        ("0", "EUR", "0.00"),
        ('"-1"', "EUR", None),
        ("-1", "EUR", None),
        ('""', "EUR", None),
        ('"call us"', "EUR", None),
        ("true", "EUR", None),
        ("1e999", "EUR", None),
        ("NaN", "EUR", None),
        ('["19,90"]', "EUR", "19.90"),
        ('{"@value": "19.90"}', "EUR", "19.90"),
    ],
)
def test_prices_of_offers(price: str, currency: str, expected: str | None) -> None:
    found = page_of(
        ld(
            f'{{"@type": "Product", "name": "x", "offers": {{"price": {price}, "priceCurrency": "{currency}"}}}}'
        )
    ).data("product")
    assert [record["price"] for record in found] == [expected]


@pytest.mark.parametrize(
    ("html", "url", "currency"),
    [
        ('<html lang="en-CA">', BASE, "CAD"),
        ("", "https://shop.example.com.au/x", "AUD"),
        ('<html lang="en">', BASE, "USD"),
        ('<meta property="og:price:currency" content="NZD">', BASE, "NZD"),
    ],
)
def test_a_dollar_is_that_of_the_page(html: str, url: str, currency: str) -> None:
    assert one(html + ld('{"@type": "Product", "offers": {"price": "$5"}}'), url=url)["currency"] == currency


def test_crowns_without_a_country_have_no_currency() -> None:
    html = ld('{"@type": "Product", "offers": {"price": "5 kr"}}')
    assert one(html)["currency"] is None
    assert one(html, url="https://butikk.example.no/")["currency"] == "NOK"
    assert one('<html lang="sv">' + html)["currency"] == "SEK"


def test_products_of_a_list_and_in_other_objects() -> None:
    found = page_of(
        ld(
            '{"@type": "WebPage", "mainEntity": {"@type": "ItemList", "itemListElement": [{"item": {"@type":'
            ' "Product",'
            ' "name": "a", "url": "/a"}}, {"@type": "ListItem", "item": {"@type": "Product", "name": "b"}}]}}'
        )
        + ld('{"@type": "Product", "name": "c", "isRelatedTo": {"@type": "Product", "name": "d"}}')
        + ld('{"@type": "Book", "name": "no offer"}')
        + ld('{"@type": "Book", "name": "e", "isbn": "978-3-16-148410-0", "offers": {"price": 3}}')
    ).data("product")
    assert [record["name"] for record in found] == ["a", "b", "c", "e"]
    assert found[0]["url"] == "https://shop.example/a"
    assert found[3]["gtin"] == "9783161484100"


def test_what_the_page_is_about_comes_first() -> None:
    other = ld(
        '{"@type": "ItemList", "itemListElement": [{"item": {"@type": "Product", "name": "Bulb", "url": "/bulb"}}]}'
    )
    for markup in (
        ld('{"@type": "Product", "name": "Lamp", "url": "/lamps/1"}'),
        "<h1>Lamp</h1>" + ld('{"@type": "Product", "name": "Lamp"}'),
        "<title>Lamp - Shop</title>" + ld('{"@type": "Product", "name": "Lamp"}'),
    ):
        assert [record["name"] for record in page_of(other + markup).data("product")] == ["Lamp", "Bulb"]


def test_opengraph_fills_what_the_page_is_about() -> None:
    html = (
        ld('[{"@type": "Product", "name": "Bulb"}, {"@type": "Product", "name": "Lamp"}]') + "<h1>Lamp</h1>"
    )
    html += '<meta property="og:image" content="/lamp.png">'
    found = page_of(html).data("product")
    assert [(one["name"], one["image"]) for one in found] == [
        ("Lamp", "https://shop.example/lamp.png"),
        ("Bulb", None),
    ]
    found = page_of(html.replace("<h1>Lamp", "<h1>All")).data("product")
    assert [(one["name"], one["image"]) for one in found] == [("Bulb", None), ("Lamp", None)]


def test_names_with_prefixes_and_markup_in_texts() -> None:
    record = one(
        ld(
            '{"@type": "http://schema.org/Product", "schema:name": "A &amp; B", "http://schema.org/description":'
            ' [{"@value": "<p>One</p><p>two &lt;3</p>"}]}'
        )
    )
    assert given(record, "name", "description") == ["A & B", "One two <3"]


# -- what several say


def test_the_more_trusted_syntax_counts_and_the_others_fill_gaps() -> None:
    html = (
        ld('{"@type": "Product", "name": "from JSON-LD"}')
        + "<div itemscope itemtype=http://schema.org/Product><p itemprop=name>from json-ld</p><p"
        " itemprop=brand>M</p></div>"
        + "<div vocab=http://schema.org/ typeof=Product><p property=brand>R</p><p property=mpn>r-1</p></div>"
        + '<meta property="og:title" content="from OpenGraph"><meta property="product:price:amount" content="5">'
        + '<meta property="product:price:currency" content="GBP"><meta name="twitter:image" content="/t.png">'
        + '<meta name=description content="from meta">'
    )
    record = one(html)
    assert given(record, "name", "brand", "mpn", "price", "currency", "image", "description") == [
        "from JSON-LD",
        "M",
        "r-1",
        "5.00",
        "GBP",
        "https://shop.example/t.png",
        "from meta",
    ]
    assert record["source"] == ["jsonld", "microdata", "rdfa", "opengraph", "twitter", "meta"]


def test_a_price_keeps_its_own_currency() -> None:
    html = ld(
        '{"@type": "Product", "name": "x", "offers": {"priceCurrency": "USD", "availability": "InStock"}}'
    )
    html += '<meta property="og:price:amount" content="5"><meta property="og:price:currency" content="EUR">'
    assert given(one(html), "price", "currency") == ["5.00", "EUR"]


def test_different_products_are_not_put_together() -> None:
    html = ld('{"@type": "Product", "name": "a", "sku": "1"}')
    html += (
        "<div itemscope itemtype=http://schema.org/Product><p itemprop=name>b</p><p itemprop=sku>2</p></div>"
    )
    assert [record["name"] for record in page_of(html).data("product")] == ["a", "b"]


def test_a_related_product_does_not_fill_gaps() -> None:
    html = ld('{"@type": "Product", "name": "Lamp"}')
    html += "<div itemscope itemtype=http://schema.org/Product><p itemprop=name>Bulb</p><p itemprop=brand>B</p></div>"
    assert [(one["name"], one["brand"]) for one in page_of(html).data("product")] == [
        ("Lamp", None),
        ("Bulb", "B"),
    ]


@pytest.mark.parametrize(
    ("markup", "price"),
    [
        ("12<sup>99</sup> €", "12.99"),
        ("€ 1.012 <sup>50</sup>", "1012.50"),
        ("<b>12</b><sup>99</sup>", "12.99"),
        ("12,99<sup>1</sup> €", "12.99"),
        ("<span>12</span><span>,99</span> €", "12.99"),
        ("<del><b>20 €</b></del> <ins><b>15 €</b></ins>", "15.00"),
        ("<s>20 €</s>", "20.00"),
    ],
)
def test_raised_cents(markup: str, price: str) -> None:
    html = f"<div itemscope itemtype=http://schema.org/Product><p itemprop=offers itemscope><b itemprop=price>{markup}"
    assert one(html)["price"] == price


def test_a_page_with_opengraph_alone_is_a_product_only_if_it_says_so() -> None:
    assert (
        page_of('<meta property="og:title" content="x"><meta property="og:type" content="website">').data()
        == []
    )


# -- other kinds


def test_an_article() -> None:
    record = one(
        ld(
            '{"@type": "NewsArticle", "headline": "H", "author": [{"@type": "Person", "name": "A"}, "B"],'
            ' "datePublished":'
            ' "2026-05-01T10:00:00Z", "dateModified": "2026-05-02", "articleSection": "Politics", "image":'
            ' {"url": "/i.jpg"},'
            ' "publisher": {"name": "P"}, "keywords": "a, b", "articleBody": "Text", "isAccessibleForFree":'
            ' "False",'
            ' "mainEntityOfPage": {"@id": "/news/1"}}'
        ),
        "article",
    )
    wanted = {
        "headline": "H",
        "author": "A",
        "authors": ["A", "B"],
        "published": "2026-05-01T10:00:00+00:00",
        "modified": "2026-05-02",
        "section": "Politics",
        "image": "https://shop.example/i.jpg",
        "publisher": "P",
        "keywords": ["a", "b"],
        "body": "Text",
        "free": False,
        "url": "https://shop.example/news/1",
    }
    assert wanted.items() <= {name: record[name] for name in wanted}.items()


def test_an_article_in_meta() -> None:
    record = one(
        '<meta property="og:type" content="article"><meta property="og:title" content="H"><meta name=author'
        ' content="A">'
        '<meta property="article:published_time" content="2026-05-01"><meta property="article:tag" content="x">'
        '<meta property="article:tag" content="y"><meta property="og:site_name" content="P">',
        "article",
    )
    assert given(record, "headline", "author", "published", "keywords", "publisher", "source") == [
        "H",
        "A",
        "2026-05-01",
        ["x", "y"],
        "P",
        ["opengraph", "meta"],
    ]


def test_an_event() -> None:
    record = one(
        ld(
            '{"@type": "MusicEvent", "name": "E", "startDate": "2026-05-01T20:00", "eventStatus":'
            ' "https://schema.org/EventPostponed",'
            ' "eventAttendanceMode": "MixedEventAttendanceMode", "location": {"@type": "Place", "name":'
            ' "Hall", "address":'
            ' {"streetAddress": "1 Main St", "addressLocality": "Town", "addressCountry": {"name": "US"}}},'
            ' "performer":'
            ' [{"name": "B"}, {"name": "C"}], "offers": {"price": "30", "priceCurrency": "USD",'
            ' "availability": "SoldOut"}}'
        ),
        "event",
    )
    assert given(record, "name", "start", "status", "attendance", "location", "address", "performers") == [
        "E",
        "2026-05-01T20:00:00",
        "postponed",
        "mixed",
        "Hall",
        "1 Main St, Town, US",
        ["B", "C"],
    ]
    assert given(record, "price", "currency", "availability") == ["30.00", "USD", "out_of_stock"]


def test_a_recipe() -> None:
    record = one(
        ld(
            '{"@type": ["Recipe"], "name": "Soup", "recipeIngredient": ["1 onion", "water"],'
            ' "recipeInstructions": [{"@type":'
            ' "HowToSection", "name": "s", "itemListElement": [{"@type": "HowToStep", "text": "Cut."}]},'
            ' {"text": "Boil."}],'
            ' "cookTime": "PT1H", "prepTime": "10 min", "recipeYield": ["4", "4 bowls"], "nutrition":'
            ' {"calories": "250 kcal"}}'
        ),
        "recipe",
    )
    assert given(record, "ingredients", "instructions", "cook_time", "prep_time", "yield", "calories") == [
        ["1 onion", "water"],
        ["Cut.", "Boil."],
        "PT1H",
        "PT10M",
        "4",
        250,
    ]


def test_a_job_posting() -> None:
    record = one(
        ld(
            '{"@type": "JobPosting", "title": "Dev", "hiringOrganization": {"name": "Co"}, "jobLocation":'
            ' {"@type": "Place",'
            ' "address": {"addressLocality": "Ulm", "addressCountry": "DE"}}, "employmentType": "FULL_TIME,'
            ' CONTRACTOR",'
            ' "datePosted": "2026-01-02", "validThrough": "2026-02-01T00:00", "jobLocationType":'
            ' "TELECOMMUTE", "baseSalary":'
            ' {"currency": "EUR", "value": {"minValue": 50000, "maxValue": 60000, "unitText": "YEAR"}}}'
        ),
        "job_posting",
    )
    assert given(record, "title", "company", "location", "employment", "posted", "remote") == [
        "Dev",
        "Co",
        "Ulm, DE",
        ["FULL_TIME", "CONTRACTOR"],
        "2026-01-02",
        True,
    ]
    assert given(record, "salary", "salary_max", "currency", "salary_unit") == [
        "50000.00",
        "60000.00",
        "EUR",
        "year",
    ]


def test_breadcrumbs_in_their_order() -> None:
    record = one(
        ld(
            '{"@type": "BreadcrumbList", "itemListElement": [{"position": 2, "name": "Lamps", "item":'
            ' "/lamps"}, {"position": "1",'
            ' "item": {"@id": "/", "name": "Home"}}]}'
        ),
        "breadcrumb",
    )
    assert record["path"] == "Home > Lamps"
    assert record["items"] == [
        {"name": "Home", "url": "https://shop.example/"},
        {"name": "Lamps", "url": "https://shop.example/lamps"},
    ]
