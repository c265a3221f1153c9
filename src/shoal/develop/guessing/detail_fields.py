"""What a page of a product shows a reader: its price, whether it is available, its number. Guesses with a score."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from shoal.develop.guessing.outline import Outline, Spot
from shoal.html.records.availability import availability_of
from shoal.html.records.prices import Price, parse_price

_SHORT = 40  # characters of a price with what is around it
_WORDS = 70  # of a text about availability
_CODE = 40
_PRICE = re.compile(
    r"price|prix|preis|precio|preco|prezzo|prijs|cena|pris(?!ma)|hinta|amount|fiyat|ár\b|cost|now|buy"
)
_STOCK = re.compile(
    r"stock|avail|lager|dispo|inventory|status|delivery|magazyn|sklad|alert|state|voorraad|saldo"
)
_SKU = re.compile(
    r"sku|\bref\b|refer|artnr|artikelnummer|ordernumber|product-?code|item-?no|mpn|\bcode\b|\bnr\b"
)
_SKU_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{2,30}")
_NO_CENTS = re.compile(r"\d(?:[.,:]-|[.,]–)")  # 12:- and 12,–
_NO_DIGIT = re.compile(r"\D")
_AMOUNT_ATTRIBUTES = ("data-price", "data-price-amount", "data-product-price", "data-amount")
_STATE_ATTRIBUTES = ("data-availability", "data-stock-status", "data-stock")
_SKU_ATTRIBUTES = ("data-sku", "data-product-sku", "data-product-code")
_NEAR = 60  # elements behind the heading
_SURE = 4.0  # the score of a price that is surely the product's
_RIVALS = 4  # prices of about the same score, which make it a list


class Pick(Struct, frozen=True):
    """An element and what it says."""

    spot: Spot
    value: str  # normalised: the amount, the availability, the code
    text: str  # as it is on the page
    attribute: str = ""  # that has it; "": the text
    score: float = 0.0
    currency: str | None = None


def best_price(outline: Outline, home: str | None = None) -> Pick | None:
    return _best(_prices(outline, home))


def is_one_price(outline: Outline, home: str | None = None) -> bool:
    """Whether one price stands out, near the heading: the page is about one product."""
    picks = sorted(_prices(outline, home), key=lambda pick: -pick.score)
    if outline.heading < 0 or not picks or picks[0].score < _SURE:
        return False
    rivals = {pick.value for pick in picks if pick.score > picks[0].score - 2.5}
    return len(rivals) < _RIVALS


def best_availability(outline: Outline) -> Pick | None:
    return _best(_availabilities(outline))


def old_prices(outline: Outline) -> Iterator[str]:
    """Amounts that are crossed out."""
    for spot in outline.spots:
        if spot.is_old and spot.length <= _SHORT and (price := price_in(outline.text(spot))) is not None:
            yield str(price.amount)


def heading_pick(outline: Outline) -> Pick | None:
    if outline.heading < 0:
        return None
    spot = outline.spots[outline.heading]
    text = outline.text(spot)
    return Pick(spot, text, text)


def best_sku(outline: Outline) -> Pick | None:
    return _best(_skus(outline))


def _best(picks: Iterator[Pick]) -> Pick | None:
    best = max(picks, key=lambda pick: pick.score, default=None)
    return best if best is not None and best.score > 0 else None


def price_in(text: str, home: str | None = None) -> Price | None:
    """Of a short text that is a price."""
    price = parse_price(text, home=home) if len(text) <= 2 * _SHORT else None
    return price if price is not None and price.amount > 0 else None


def _prices(outline: Outline, home: str | None) -> Iterator[Pick]:
    for spot in outline.spots:
        for name, text in _attributes(spot, _AMOUNT_ATTRIBUTES):
            if (price := price_in(text)) is not None:
                yield Pick(spot, str(price.amount), text, name, 6 + _place(outline, spot), None)
        if not spot.has_digit or spot.length > _SHORT:
            continue
        for around in _small_around(outline, spot, _SHORT):
            text = outline.text(around)
            price = price_in(text, home)
            has_sign = price is not None and (price.symbol is not None or bool(_NO_CENTS.search(text)))
            named = _named(outline, around, _PRICE)
            if price is None or around.holds_old or not (has_sign or named):
                continue
            # The narrowest: what is around a price holds more on other pages, such as the one before a sale.
            score = _place(outline, around) + 3 * has_sign + 4 * named - around.length / 40
            score -= 0.3 * min(around.children, 3)
            score += _as_one(outline, spot, around, price, text)
            yield Pick(around, str(price.amount), text, "", score, price.currency)


def _as_one(outline: Outline, spot: Spot, around: Spot, price: Price, text: str) -> float:
    """Cents may have an element of their own: the whole is better than a part. A text with further numbers is worse."""
    if sum(map(str.isdigit, text)) > len(_NO_DIGIT.sub("", str(price.amount))):
        return -2.5
    own = price_in(outline.text(spot)) if around is not spot else price
    return 1.5 if own is None or own.amount != price.amount else 0.0


def _availabilities(outline: Outline) -> Iterator[Pick]:
    for spot in outline.spots:
        for name, text in _attributes(spot, _STATE_ATTRIBUTES):
            if (state := availability_of(text)) is not None:
                yield Pick(spot, state, text, name, 5 + _place(outline, spot))
        if not 1 < spot.length <= _WORDS or spot.tag in ("h1", "h2", "title", "a"):
            continue
        text = outline.text(spot)
        state = availability_of(text)
        if state is None:
            continue
        score = _place(outline, spot) + 4 * _named(outline, spot, _STOCK) - len(text) / 30 - spot.children
        yield Pick(spot, state, text, "", score - (spot.tag == "button"))


def _skus(outline: Outline) -> Iterator[Pick]:
    for spot in outline.spots:
        for name, text in _attributes(spot, _SKU_ATTRIBUTES):
            yield Pick(spot, text, text, name, 5 + _place(outline, spot))
        if not 2 < spot.length <= _CODE or not _SKU.search(spot.names):
            continue
        text = outline.text(spot)
        if _SKU_TEXT.fullmatch(text) and any(map(str.isdigit, text)):
            yield Pick(spot, text, text, "", 3 + _place(outline, spot) - spot.children)


def _attributes(spot: Spot, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    attributes = spot.node.attributes
    for name in names:
        if (text := (attributes.get(name) or "").strip()) and len(text) <= _CODE:
            yield name, text


def _place(outline: Outline, spot: Spot) -> float:
    """Where it is: near the heading is good, among other products is not."""
    distance = spot.place - outline.heading
    near = 2 * max(0.0, 1 - abs(distance) / _NEAR) if outline.heading >= 0 else 0.0
    return near - 8 * spot.is_old - 7 * spot.is_other - 4 * spot.is_beside - (distance < 0)


def _named(outline: Outline, spot: Spot, names: re.Pattern[str]) -> bool:
    """Itself, or the element around it."""
    if names.search(spot.names):
        return True
    return spot.parent >= 0 and bool(names.search(outline.spots[spot.parent].names))


def _small_around(outline: Outline, spot: Spot, most: int) -> Iterator[Spot]:
    """The element, and the ones around it as long as they hold little more."""
    place = spot.place
    for _ in range(3):
        if place < 0 or outline.spots[place].length > most:
            return
        yield outline.spots[place]
        place = outline.spots[place].parent
