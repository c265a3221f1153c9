"""Records from OpenGraph, Twitter cards and `meta`: one of a kind, for the page as a whole. Pure."""

from __future__ import annotations

from typing import Any

from shoal.html.records.availability import availability_of
from shoal.html.records.currencies import CODES, code_of
from shoal.html.records.dates import iso_date
from shoal.html.records.merging import fill
from shoal.html.records.nodes import plain_text
from shoal.html.records.prices import Price, parse_price
from shoal.html.records.product import gtin_of
from shoal.html.structured import Structured
from shoal.html.structured.metadata import Values, every, first

Record = dict[str, Any]

_ARTICLE_TYPES = (
    "article",
    "og:article",
    "news",
    "blog",
    "news.article",
    "newsarticle",
    "blogposting",
    "post",
)
_PRODUCT_TYPES = ("product", "og:product", "product.item", "product.group", "good", "item")


def add_meta(found: Structured, home: str | None, kind: str, main: Record | None) -> Record | None:
    """Fills the record that the page is about, or gives one if there is none and the page says that it is of that
    kind."""
    meta = found.metadata
    for syntax, record in (
        ("opengraph", _opengraph(found, home, kind)),
        ("twitter", _twitter(found, home, kind)),
        ("meta", _meta(found, kind)),
    ):
        if not any(record.values()):
            continue
        record |= {"type": kind, "source": [syntax]}
        if main is not None:
            fill(main, record)
        elif _says(meta.opengraph, meta.twitter, kind, syntax):
            main = record
    return main


def _says(opengraph: Values, twitter: Values, kind: str, syntax: str) -> bool:
    """Whether the page is of that kind."""
    if syntax == "twitter":
        return kind == "product" and first(twitter, "twitter:card") == "product"
    if syntax != "opengraph":
        return False
    given = (first(opengraph, "og:type") or "").lower()
    if kind == "product":
        return given in _PRODUCT_TYPES or first(opengraph, *_AMOUNTS) is not None
    if kind == "article":
        return given in _ARTICLE_TYPES or (
            not given and first(opengraph, "article:published_time") is not None
        )
    return given == kind


_AMOUNTS = (
    "product:sale_price:amount",
    "product:price:amount",
    "og:price:amount",
    "product:price",
    "og:price",
)
_CURRENCIES = ("product:sale_price:currency", "product:price:currency", "og:price:currency", "og:currency")
_USUAL = ("product:original_price:amount", "og:price:standard_amount", "product:price:amount")


def _opengraph(found: Structured, home: str | None, kind: str) -> Record:
    values = found.metadata.opengraph
    if not values:
        return {}
    images = [
        url
        for text in every(values, "og:image", "og:image:url", "og:image:secure_url")
        if (url := found.absolute(text))
    ]
    common: Record = {
        "description": _text(values, "og:description"),
        "url": found.absolute(first(values, "og:url") or ""),
        "image": images[0] if images else None,
        "images": images[:50],
    }
    if kind == "product":
        return common | {"name": _text(values, "og:title")} | _sold(values, home)
    if kind == "article":
        return common | _written(values)
    if kind in ("event", "recipe"):
        return common | {"name": _text(values, "og:title")}
    return {}


def _written(values: Values) -> Record:
    names = every(values, "article:author", "og:article:author", "book:author")
    authors = [text for name in names if not name.startswith("http") and (text := plain_text(name))]
    return {
        "headline": _text(values, "og:title"),
        "author": authors[0] if authors else None,
        "authors": authors[:50],
        "published": iso_date(
            first(values, "article:published_time", "og:article:published_time", "og:pubdate")
        ),
        "modified": iso_date(
            first(values, "article:modified_time", "og:updated_time", "og:article:modified_time")
        ),
        "section": _text(values, "article:section", "og:article:section"),
        "keywords": [text for tag in every(values, "article:tag") if (text := plain_text(tag))][:100],
        "publisher": _text(values, "og:site_name"),
        "language": (first(values, "og:locale") or "").replace("_", "-") or None,
    }


def _sold(values: Values, home: str | None) -> Record:
    currency = _currency(values, home)
    price = _price(first(values, *_AMOUNTS), currency, home)
    usual = _price(first(values, *_USUAL), currency, home)
    rated = parse_price(first(values, "og:rating", "product:rating:value") or "")
    return {
        "price": price and price.text,
        "currency": (price and price.currency) or currency,
        "list_price": usual.text if usual and price and usual.amount > price.amount else None,
        "availability": availability_of(
            first(values, "product:availability", "og:availability", "product:available") or ""
        ),
        "condition": first(values, "product:condition", "og:condition"),
        "brand": _text(values, "product:brand", "og:brand"),
        "category": _text(values, "product:category", "og:category"),
        "sku": _text(values, "product:retailer_item_id", "product:sku", "og:sku", "product:retailer_part_no"),
        "gtin": gtin_of(
            first(values, "product:ean", "product:gtin", "product:upc", "product:isbn", "og:upc") or ""
        ),
        "mpn": _text(values, "product:mfr_part_no", "product:mpn"),
        "rating": {"value": float(rated.amount), "count": None, "best": None} if rated else None,
    }


def meta_currency(found: Structured) -> str | None:
    """The currency that the page names for its price."""
    return _currency(found.metadata.opengraph, None)


def _currency(values: Values, home: str | None) -> str | None:
    text = first(values, *_CURRENCIES) or ""
    return text.upper() if text.upper() in CODES else code_of(text, home)


def _price(text: str | None, currency: str | None, home: str | None) -> Price | None:
    return parse_price(text, currency, home=currency or home) if text else None


def _twitter(found: Structured, home: str | None, kind: str) -> Record:
    values = found.metadata.twitter
    if not values:
        return {}
    image = found.absolute(first(values, "twitter:image", "twitter:image:src") or "")
    common: Record = {
        "description": _text(values, "twitter:description"),
        "image": image,
        "images": [image] if image else [],
    }
    if kind == "product":
        labels = {
            (first(values, f"twitter:label{n}") or "").lower(): first(values, f"twitter:data{n}")
            for n in (1, 2, 3)
        }
        price = _price(labels.get("price"), None, home)
        return common | {
            "name": _text(values, "twitter:title"),
            "price": price and price.text,
            "currency": price and price.currency,
            "availability": availability_of(labels.get("availability") or ""),
        }
    if kind == "article":
        return common | {"headline": _text(values, "twitter:title")}
    return common | {"name": _text(values, "twitter:title")} if kind in ("event", "recipe") else {}


def _meta(found: Structured, kind: str) -> Record:
    values = found.metadata.meta
    if not values or kind not in ("product", "article", "event", "recipe"):
        return {}
    record: Record = {"description": _text(values, "description", "dc.description", "dcterms.description")}
    if kind != "article":
        return record
    author = _text(
        values, "author", "dc.creator", "dcterms.creator", "parsely-author", "sailthru.author", "byl"
    )
    words = (first(values, "news_keywords", "keywords", "parsely-tags") or "").split(",")
    return record | {
        "headline": _text(
            values, "dc.title", "dcterms.title", "parsely-title", "sailthru.title", "citation_title"
        ),
        "author": author,
        "authors": [author] if author else [],
        "published": iso_date(first(values, *_PUBLISHED)),
        "modified": iso_date(first(values, "last-modified", "dcterms.modified", "datemodified", "modified")),
        "section": _text(values, "parsely-section", "section", "cxenseparse:section"),
        "keywords": [text for word in words[:100] if (text := plain_text(word))],
        "publisher": _text(values, "dc.publisher", "dcterms.publisher", "application-name"),
    }


_PUBLISHED = (
    "date", "pubdate", "publishdate", "publish-date", "publish_date", "datepublished", "parsely-pub-date",
    "sailthru.date", "dc.date", "dc.date.issued", "dcterms.created", "dcterms.date", "citation_publication_date",
)  # fmt: skip


def _text(values: Values, *names: str) -> str | None:
    return plain_text(first(values, *names) or "")
