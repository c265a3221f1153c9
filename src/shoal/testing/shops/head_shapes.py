"""What pages say in `meta` elements: OpenGraph with its product fields, and Twitter cards."""

from __future__ import annotations

from html import escape

from shoal.testing.shops.jsonld_shapes import Shape
from shoal.testing.shops.product_view import View


def _meta(pairs: dict[str, str], attribute: str = "property") -> str:
    return "\n".join(
        f'<meta {attribute}="{name}" content="{_attribute(value)}">' for name, value in pairs.items() if value
    )


def _attribute(value: str) -> str:
    """Entities in a price stay what they are."""
    return value.replace('"', "&quot;") if value.startswith("&") or "&nbsp;" in value else escape(value)


def _basics(view: View, kind: str = "product") -> dict[str, str]:
    return {
        "og:type": kind,
        "og:title": view.product.name,
        "og:url": view.url,
        "og:image": view.image,
        "og:site_name": view.shop,
        "og:description": view.description,
    }


def og_basic(view: View) -> str:
    """For sharing: no price."""
    return _meta(_basics(view, "website"))


def og_product(view: View) -> str:
    state = {"in_stock": "instock", "out_of_stock": "oos", "preorder": "preorder"}[view.product.availability]
    fields = {
        "product:brand": view.product.brand,
        "product:retailer_item_id": view.product.sku,
        "product:price:amount": view.plain,
        "product:price:currency": view.product.currency,
        "product:availability": state,
        "product:condition": "new",
    }
    return _meta({**_basics(view, "og:product"), **fields})


def og_words(view: View) -> str:
    """Availability in words, and `name` where it should be `property`."""
    words = {"in_stock": "in stock", "out_of_stock": "out of stock", "preorder": "pre-order"}
    state = words[view.product.availability]
    fields = {
        "og:price:amount": view.plain,
        "og:price:currency": view.product.currency,
        "og:availability": state,
    }
    return _meta({**_basics(view), **fields}, "name")


def og_local(view: View) -> str:
    """As Shopify's themes do: the amount as the country writes it, no availability."""
    fields = {
        "og:price:amount": view.money.number(view.product.price),
        "og:price:currency": view.product.currency,
    }
    return _meta({**_basics(view), **fields})


def og_sale(view: View) -> str:
    """The price before the sale is the price; the sale has fields of its own."""
    full = view.product.was or view.product.price
    fields = {
        "product:price:amount": view.money.plain(full),
        "product:price:currency": view.product.currency,
        "product:availability": view.schema.lower(),
    }
    if view.product.was is not None:
        fields["product:sale_price:amount"] = view.plain
        fields["product:sale_price:currency"] = view.product.currency
    return _meta({**_basics(view), **fields})


def og_original(view: View) -> str:
    """The crossed-out price has a field of its own."""
    fields = {}
    if view.product.was is not None:
        fields["product:original_price:amount"] = view.money.plain(view.product.was)
        fields["product:original_price:currency"] = view.product.currency
    fields["product:price:amount"] = view.plain
    fields["product:price:currency"] = view.product.currency
    fields["product:availability"] = {"out_of_stock": "out of stock"}.get(
        view.product.availability, view.product.availability.replace("_", " ")
    )
    return _meta({**_basics(view), **fields})


def twitter_labels(view: View) -> str:
    """Labels and data, as older product cards had them. The words are the shop's."""
    fields = {
        "twitter:card": "product",
        "twitter:title": view.product.name,
        "twitter:label1": "Price",
        "twitter:data1": view.price,
        "twitter:label2": "Availability",
        "twitter:data2": view.state(view.product),
    }
    return _meta(fields, "name")


def twitter_summary(view: View) -> str:
    fields = {
        "twitter:card": "summary_large_image",
        "twitter:title": view.product.name,
        "twitter:image": view.image,
    }
    return _meta(fields, "name")


HEADS: dict[str, Shape] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        og_basic,
        og_product,
        og_words,
        og_local,
        og_sale,
        og_original,
        twitter_labels,
        twitter_summary,
    )
}
