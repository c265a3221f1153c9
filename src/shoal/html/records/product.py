"""Products: name, price, availability, offers and variants. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from shoal.html.records.availability import availability_of
from shoal.html.records.dates import iso_date
from shoal.html.records.fields import OFFER
from shoal.html.records.nodes import Node, Nodes
from shoal.html.records.prices import Price, decimal_text

Record = dict[str, Any]

_MOST_OFFERS = 500
_MOST_VARIANTS = 1_000
_MOST_PROPERTIES = 200
_CONDITIONS = {
    "new": "new",
    "used": "used",
    "refurbished": "refurbished",
    "damaged": "damaged",
    "renewed": "refurbished",
}
_LIST_PRICES = ("listprice", "strikethroughprice", "msrp", "srp", "regularprice", "rrp")
_GTINS = ("gtin13", "gtin", "gtin14", "gtin12", "gtin8", "ean", "ean13", "upc", "isbn")
_NO_DIGITS = re.compile(r"[^\dXx]")
_TRAITS = ("color", "size", "material", "pattern")


def product(nodes: Nodes, node: Node) -> Record:
    offers = offers_of(nodes, node)
    variants = _variants(nodes, node)
    images = nodes.urls(node, "image", "images", "photo", "thumbnailUrl")
    record: Record = {
        "name": nodes.text(node, "name", "title"),
        "description": nodes.text(node, "description"),
        "url": nodes.url(node, "url"),
        "image": images[0] if images else None,
        "images": images[:50],
        **identifiers(nodes, node),
        "brand": nodes.text(node, "brand", "manufacturer"),
        "category": _category(nodes, node),
        **sale(nodes, node, offers, variants),
        "rating": rating(nodes, node),
        "properties": _properties(nodes, node),
        "offers": offers,
        "variants": variants,
    }
    return record


def identifiers(nodes: Nodes, node: Node) -> Record:
    return {
        "sku": nodes.text(node, "sku", "productID", "productId"),
        "gtin": gtin_of(nodes.text(node, *_GTINS) or ""),
        "mpn": nodes.text(node, "mpn"),
    }


def gtin_of(text: str) -> str | None:
    """The digits of "978-3-16-148410-0", "ean:4006381333931"; None if there are too few or too many."""
    digits = _NO_DIGITS.sub("", text[:100]).upper()
    return digits if 8 <= len(digits) <= 14 else None


def rating(nodes: Nodes, node: Node) -> Record | None:
    """value, count and best of the reviews."""
    given = nodes.node(node, "aggregateRating")
    if given is None:
        return None
    value = nodes.number(given, "ratingValue")
    count = nodes.number(given, "ratingCount", "reviewCount")
    if value is None and count is None:
        return None
    return {"value": value, "count": count, "best": nodes.number(given, "bestRating")}


def _category(nodes: Nodes, node: Node) -> str | None:
    return nodes.text(node, "category")


def _properties(nodes: Nodes, node: Node) -> dict[str, str]:
    """Color, size and the like, and what the page names itself."""
    found = {name: text for name in _TRAITS if (text := nodes.text(node, name))}
    for one in nodes.nodes(node, "additionalProperty")[:_MOST_PROPERTIES]:
        name, value = nodes.text(one, "name", "propertyID"), nodes.text(one, "value")
        if name and value:
            found.setdefault(name, value)
    return found


# -- offers


def offers_of(nodes: Nodes, node: Node) -> list[Record]:
    """Every offer; an AggregateOffer gives those in it, or one for itself."""
    found: list[Record] = []
    currency = nodes.currency(node)
    given = nodes.values(node, "offers", "offer")
    if not given and _has_price(node):
        given = [node]  # a price without an offer around it
    for one in given[:_MOST_OFFERS]:
        if isinstance(one, str):
            continue
        if not isinstance(one, dict):
            one = {"price": one}
        inner = nodes.nodes(one, "offers")
        around = nodes.currency(one) or currency
        if inner:
            found += [offer(nodes, each, around) for each in inner[:_MOST_OFFERS] if each is not one]
        else:
            found.append(offer(nodes, one, around))
    return [one for one in found[:_MOST_OFFERS] if one["price"] or one["availability"]]


def _has_price(node: Node) -> bool:
    return any(name in node for name in ("price", "priceSpecification", "lowPrice"))


def offer(nodes: Nodes, node: Node, currency: str | None = None) -> Record:
    price, list_price = _prices(nodes, node, nodes.currency(node) or currency)
    return {
        "price": None if price is None else price.text,
        "currency": (price and price.currency) or nodes.currency(node) or currency,
        "list_price": None if list_price is None else list_price.text,
        "availability": availability(nodes, node),
        "condition": condition(nodes, node),
        "name": nodes.text(node, "name"),
        "sku": nodes.text(node, "sku"),
        "gtin": gtin_of(nodes.text(node, *_GTINS) or ""),
        "url": nodes.url(node, "url"),
        "seller": nodes.text(node, "seller", "offeredBy"),
        "valid_until": iso_date(nodes.first(node, "priceValidUntil", "validThrough")),
    }


def availability(nodes: Nodes, node: Node) -> str | None:
    """What the page says, or what the number of pieces means."""
    text = nodes.text(node, "availability")
    found = availability_of(text) if text else None
    if found is None and (level := nodes.node(node, "inventoryLevel")) is not None:
        pieces = nodes.number(level, "value", "minValue")
        found = None if pieces is None else "in_stock" if pieces > 0 else "out_of_stock"
    return found


def condition(nodes: Nodes, node: Node) -> str | None:
    text = nodes.text(node, "itemCondition", "condition")
    if not text:
        return None
    lower = text.rpartition("/")[2].lower()
    return next((known for word, known in _CONDITIONS.items() if word in lower), None)


def _prices(nodes: Nodes, node: Node, currency: str | None) -> tuple[Price | None, Price | None]:
    """What it costs, and what it would cost otherwise (list price), if the page says so."""
    price = _first_price(nodes, node, currency, "price", "lowPrice", "minPrice", "highPrice")
    usual: Price | None = None
    specifications = nodes.nodes(node, "priceSpecification")
    parts = [part for one in specifications for part in nodes.nodes(one, "priceComponent")]
    for one in [*specifications, *parts]:
        found = _first_price(nodes, one, nodes.currency(one) or currency, "price", "minPrice")
        if found is None or nodes.values(one, "validForMemberTier"):
            continue
        kind = (nodes.text(one, "priceType") or "").rpartition("/")[2].lower()
        if kind in _LIST_PRICES:
            usual = usual or found
        elif price is None and not nodes.values(one, "referenceQuantity", "unitCode"):
            price = found
    if price is None:  # a price per piece, or a list price alone
        found_prices = (
            _first_price(nodes, one, nodes.currency(one) or currency, "price", "minPrice")
            for one in specifications
        )
        price = next((one for one in found_prices if one is not None), None)
    return price, usual if usual and price and usual.amount > price.amount else None


def _first_price(nodes: Nodes, node: Node, currency: str | None, *names: str) -> Price | None:
    for name in names:
        for value in nodes.values(node, name):
            if (found := nodes.price(value, currency)) is not None:
                return found
    return None


# -- which of them is the product's


def sale(nodes: Nodes, node: Node, offers: list[Record], variants: list[Record]) -> Record:
    """The price that counts: of the offer for this page, else of the first that can be bought."""
    from_variants = [one for one in variants if one["price"] or one["availability"]]
    sold = offers or from_variants
    chosen = _chosen(sold, nodes.base) if sold else {}
    low, high = _range(nodes, node, sold, chosen.get("currency"))
    availabilities = [one["availability"] for one in sold if one["availability"]]
    return {
        "price": chosen.get("price"),
        "currency": chosen.get("currency"),
        "list_price": chosen.get("list_price"),
        "low_price": low,
        "high_price": high,
        "availability": chosen.get("availability") or next(iter(availabilities), None),
        "condition": condition(nodes, node) or chosen.get("condition"),
        "seller": chosen.get("seller"),
        "valid_until": chosen.get("valid_until"),
    }


def _chosen(sold: list[Record], base: str) -> Record:
    here = base.partition("#")[0]
    priced = [one for one in sold if one["price"]] or sold
    of_page = [one for one in priced if one["url"] == here] if len(priced) > 1 and "?" in here else []
    buyable = [one for one in priced if one["availability"] not in ("out_of_stock", "discontinued")]
    return (of_page or buyable or priced)[0]


def _range(
    nodes: Nodes, node: Node, sold: list[Record], currency: str | None
) -> tuple[str | None, str | None]:
    """The lowest and the highest price, if there is more than one."""
    amounts = [Decimal(one["price"]) for one in sold if one["price"] and one["currency"] == currency]
    for one in nodes.nodes(node, "offers"):
        found = (_first_price(nodes, one, nodes.currency(one), name) for name in ("lowPrice", "highPrice"))
        amounts += [price.amount for price in found if price is not None]
    if len(set(amounts)) < 2:
        return None, None
    return decimal_text(min(amounts), currency), decimal_text(max(amounts), currency)


# -- variants


def _variants(nodes: Nodes, node: Node) -> list[Record]:
    given = nodes.variants(node)
    return [_variant(nodes, one, node) for one in given[:_MOST_VARIANTS] if one is not node]


def _variant(nodes: Nodes, node: Node, group: Node) -> Record:
    offers = offers_of(nodes, node)
    chosen = _chosen(offers, nodes.base) if offers else dict.fromkeys(OFFER)
    images = nodes.urls(node, "image")
    return {
        "name": nodes.text(node, "name"),
        "url": nodes.url(node, "url") or chosen["url"],
        "image": images[0] if images else None,
        **identifiers(nodes, node),
        **{name: chosen[name] for name in ("price", "currency", "list_price", "availability", "condition")},
        "seller": chosen["seller"],
        "valid_until": chosen["valid_until"],
        "properties": _properties(nodes, node),
    }
