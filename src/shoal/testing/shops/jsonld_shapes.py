"""JSON-LD as shop systems and their plug-ins write it. Each shape is what goes into the page, as HTML."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from shoal.testing.shops.goods import Product
from shoal.testing.shops.offers import OFFERS, offer
from shoal.testing.shops.product_view import View

Shape = Callable[[View], str]
CONTEXT = "https://schema.org"
JSON = dict[str, Any]


def product(view: View, **changes: Any) -> JSON:
    fields: JSON = {
        "@context": CONTEXT,
        "@type": "Product",
        "name": view.product.name,
        "description": view.description,
        "image": [view.image],
        "sku": view.product.sku,
        "gtin13": view.product.gtin,
        "brand": {"@type": "Brand", "name": view.product.brand},
        "offers": OFFERS[view.offers](view),
    }
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not None}


def organization(view: View) -> JSON:
    return {"@context": CONTEXT, "@type": "Organization", "name": view.shop, "url": view.home}


def crumbs(view: View) -> JSON:
    steps = [(view.words.home, view.home), (view.product.name, view.url)]
    items = [
        {"@type": "ListItem", "position": place, "name": name, "item": url}
        for place, (name, url) in enumerate(steps, 1)
    ]
    return {"@context": CONTEXT, "@type": "BreadcrumbList", "itemListElement": items}


def other(view: View, one: Product, url: str) -> JSON:
    """Another product, as pages mention it."""
    price = view.money.plain(one.price)
    return {
        "@type": "Product",
        "name": one.name,
        "url": url,
        "offers": {
            "@type": "Offer",
            "price": price,
            "priceCurrency": one.currency,
            "availability": "InStock",
        },
    }


# -- where the product is


def single(view: View) -> str:
    return view.script(product(view))


def graph(view: View) -> str:
    """As SEO plug-ins do."""
    page = {"@type": "WebPage", "@id": view.url, "url": view.url, "name": view.product.name}
    bare = product(view, **{"@context": None, "@id": view.url + "#product"})
    return view.script({"@context": CONTEXT, "@graph": [page, {**crumbs(view), "@context": CONTEXT}, bare]})


def array(view: View) -> str:
    return view.script([organization(view), crumbs(view), product(view)])


def several(view: View) -> str:
    search = {
        "@type": "SearchAction",
        "target": view.home + "/search?q={q}",
        "query-input": "required name=q",
    }
    site = {"@context": CONTEXT, "@type": "WebSite", "url": view.home, "potentialAction": search}
    return view.script(organization(view), site, product(view), crumbs(view))


def main_entity(view: View) -> str:
    page = {"@context": CONTEXT, "@type": "WebPage", "name": view.product.name, "mainEntity": product(view)}
    return view.script(page)


def item_page(view: View) -> str:
    """The main entity in a list, with a type of several words."""
    inner = product(view, **{"@context": None, "@type": ["Product", "IndividualProduct"]})
    return view.script({"@context": CONTEXT, "@type": ["WebPage", "ItemPage"], "mainEntity": [inner]})


def references(view: View) -> str:
    """Parts that name each other by @id."""
    offered = offer(view, **{"@id": view.url + "#offer"})
    brand = {"@type": "Brand", "@id": view.home + "/#brand", "name": view.product.brand}
    main = product(
        view,
        **{"@context": None, "@id": view.url + "#product"},
        offers={"@id": view.url + "#offer"},
        brand={"@id": view.home + "/#brand"},
    )
    return view.script({"@context": CONTEXT, "@graph": [offered, brand, main]})


def beside_others(view: View) -> str:
    """Recommended products have their own objects, before that of the page."""
    listed = [
        {"@type": "ListItem", "position": place, "item": other(view, one, url)}
        for place, (one, url) in enumerate(view.related, 1)
    ]
    recommended = {
        "@context": CONTEXT,
        "@type": "ItemList",
        "name": view.words.related,
        "itemListElement": listed,
    }
    return view.script(recommended, product(view, url=view.url))


def similar(view: View) -> str:
    alike = [other(view, one, url) for one, url in view.related]
    return view.script(product(view, isSimilarTo=alike, isRelatedTo=alike[0]))


def prefixed(view: View) -> str:
    """With a prefix for the vocabulary."""
    offered = {f"schema:{name}" if name[0] != "@" else name: value for name, value in offer(view).items()}
    offered["@type"] = "schema:Offer"
    main: JSON = {
        "@context": {"schema": "http://schema.org/"},
        "@type": "schema:Product",
        "schema:name": view.product.name,
        "schema:sku": view.product.sku,
        "schema:offers": offered,
    }
    return view.script(main)


def expanded(view: View) -> str:
    """Values as objects, types as full addresses."""
    offered = {
        "@type": "http://schema.org/Offer",
        "price": {"@value": view.plain},
        "priceCurrency": {"@value": view.product.currency},
        "availability": {"@id": f"http://schema.org/{view.schema}"},
    }
    names = [{"@value": view.product.name, "@language": view.language}]
    return view.script(product(view, **{"@type": "http://schema.org/Product"}, name=names, offers=[offered]))


# -- variants


def group(view: View) -> str:
    """ProductGroup: each variant is a product, at one price."""
    return view.script(_group(view, (1, 1)))


def group_range(view: View) -> str:
    """ProductGroup with dearer variants: the page says "from"."""
    return view.script(organization(view), _group(view, (2, 1, 3)))


def _group(view: View, times: tuple[int, ...]) -> JSON:
    variants = [
        {
            "@type": "Product",
            "name": f"{view.product.name} – {size}",
            "sku": f"{view.product.sku}-{size}",
            "size": str(size),
            "offers": offer(view, price=view.money.plain(view.product.price * factor)),
        }
        for size, factor in enumerate(times, 1)
    ]
    return {
        "@context": CONTEXT,
        "@type": "ProductGroup",
        "name": view.product.name,
        "url": view.url,
        "productGroupID": view.product.sku,
        "variesBy": ["https://schema.org/size"],
        "brand": {"@type": "Brand", "name": view.product.brand},
        "hasVariant": variants,
    }


# -- only a part of it


def without_offer(view: View) -> str:
    """A review plug-in's: name and rating. The price is elsewhere on the page."""
    rating = {"@type": "AggregateRating", "ratingValue": "4.6", "reviewCount": 12}
    return view.script(product(view, offers=None, sku=None, gtin13=None, aggregateRating=rating))


def entity_strings(view: View) -> str:
    """Strings that were escaped for HTML before they became JSON."""
    escaped = product(view, name=escape(view.product.name), description=escape(view.description, quote=True))
    return view.script(escaped)


SHAPES: dict[str, Shape] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        single,
        graph,
        array,
        several,
        main_entity,
        item_page,
        references,
        beside_others,
        similar,
        prefixed,
        expanded,
        group,
        group_range,
        without_offer,
        entity_strings,
    )
}
