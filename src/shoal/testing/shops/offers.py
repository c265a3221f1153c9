"""What an offer looks like in JSON-LD: how its price, currency and availability are written."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from shoal.testing.shops.product_view import View

JSON = dict[str, Any]


def offer(view: View, **changes: Any) -> JSON:
    fields: JSON = {
        "@type": "Offer",
        "url": view.url,
        "price": view.plain,
        "priceCurrency": view.product.currency,
        "availability": f"https://schema.org/{view.schema}",
        "itemCondition": "https://schema.org/NewCondition",
    }
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not None}


def number_price(view: View) -> Any:
    """As a number: 1234.5 for 1234.50."""
    price: float | int = float(view.product.price)
    return offer(view, price=int(price) if price == int(price) else price)


def local_price(view: View) -> Any:
    """As the country writes it: 1.234,50."""
    return offer(view, price=view.money.number(view.product.price))


def price_with_sign(view: View) -> Any:
    """With the sign of the currency, and no code."""
    return offer(view, price=view.price, priceCurrency=None)


def sign_for_code(view: View) -> Any:
    sign = view.money.pattern.replace("{}", "").strip()
    return offer(view, priceCurrency=sign, availability=f"http://schema.org/{view.schema}")


def small_code(view: View) -> Any:
    return offer(view, priceCurrency=view.product.currency.lower(), availability=view.schema)


def words_for_state(view: View) -> Any:
    """Availability as feeds write it."""
    words = {"InStock": "in stock", "OutOfStock": "out of stock", "PreOrder": "preorder"}
    return offer(view, availability=words.get(view.schema, view.schema))


def sold_out_for_state(view: View) -> Any:
    """SoldOut and PreSale, which mean nearly the same as OutOfStock and PreOrder."""
    words = {"OutOfStock": "SoldOut", "PreOrder": "PreSale"}
    state = "http://schema.org/" + words.get(view.schema, view.schema)
    return offer(view, availability=state)


def offer_list(view: View) -> Any:
    """One for each size, all at one price. A sold-out product has none left; else some sizes may be gone."""
    gone = "https://schema.org/OutOfStock"
    sizes = ("S", "M", "L")
    return [
        offer(
            view,
            url=f"{view.url}?variant={place}",
            sku=f"{view.product.sku}-{size}",
            price=float(view.product.price),
            **({"availability": gone} if place == 0 else {}),
        )
        for place, size in enumerate(sizes)
    ]


def aggregate(view: View) -> Any:
    """A range: the page says "from"."""
    return offer(
        view,
        **{"@type": "AggregateOffer"},
        price=None,
        lowPrice=view.plain,
        highPrice=view.money.plain(view.product.price * 2),
        offerCount=3,
    )


def aggregate_of_offers(view: View) -> Any:
    """A range, and the offers that it is made of, the dearest first."""
    offers = [
        offer(view, price=view.money.plain(view.product.price * times), **{"@type": "Offer"})
        for times in (3, 2, 1)
    ]
    return {
        "@type": "AggregateOffer",
        "lowPrice": view.plain,
        "highPrice": offers[0]["price"],
        "priceCurrency": view.product.currency,
        "offerCount": len(offers),
        "offers": offers,
    }


def unit_price(view: View) -> Any:
    """As WooCommerce does: the price in a list of specifications, the plain field left out."""
    specification = {
        "@type": "UnitPriceSpecification",
        "price": view.plain,
        "priceCurrency": view.product.currency,
        "valueAddedTaxIncluded": False,
        "validThrough": "2027-12-31",
    }
    return [offer(view, price=None, priceCurrency=None, priceSpecification=[specification])]


def struck_price(view: View) -> Any:
    """The crossed-out price as a specification before the one that is asked for."""
    asked = {"@type": "UnitPriceSpecification", "price": view.plain, "priceCurrency": view.product.currency}
    old = view.product.was
    before = [_struck(view, old)] if old is not None else []
    return offer(view, price=None, priceCurrency=None, priceSpecification=[*before, asked])


def _struck(view: View, old: Decimal) -> JSON:
    return {
        "@type": "UnitPriceSpecification",
        "priceType": "https://schema.org/StrikethroughPrice",
        "price": view.money.plain(old),
        "priceCurrency": view.product.currency,
    }


def with_shipping(view: View) -> Any:
    """Other amounts inside the offer: shipping, and the price of a member."""
    rate = {"@type": "MonetaryAmount", "value": "4.90", "currency": view.product.currency}
    points = {
        "@type": "UnitPriceSpecification",
        "price": view.money.plain(view.product.price / 2),
        "priceCurrency": view.product.currency,
        "validForMemberTier": {"@type": "MemberProgramTier", "name": "gold"},
    }
    details = {"@type": "OfferShippingDetails", "shippingRate": rate}
    return offer(view, shippingDetails=details, priceSpecification=points)


OFFERS: dict[str, Callable[[View], Any]] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        offer,
        number_price,
        local_price,
        price_with_sign,
        sign_for_code,
        small_code,
        words_for_state,
        sold_out_for_state,
        offer_list,
        aggregate,
        aggregate_of_offers,
        unit_price,
        struck_price,
        with_shipping,
    )
}
