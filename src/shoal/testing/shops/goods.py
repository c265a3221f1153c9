"""What a shop sells: the truth that its pages tell, and that a crawl is compared with."""

from __future__ import annotations

import random
import re
from decimal import Decimal

from msgspec import Struct

from shoal.testing.shops.languages import WORDS
from shoal.testing.shops.money import MONEY

_BRANDS = ("Nordal", "Tide & Co", "Kestrel", "Ombra", "Halvorsen", "O'Dell")
_CATEGORIES = 3
_REDUCED = 0.3  # of the products have a crossed-out price
STATES = ("in_stock",) * 7 + ("out_of_stock",) * 2 + ("preorder",)


class Product(Struct, frozen=True):
    number: int
    name: str
    sku: str
    gtin: str
    brand: str
    price: Decimal
    was: Decimal | None  # the crossed-out price
    currency: str  # ISO 4217
    availability: str
    category: int

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", f"{self.brand} {self.sku}".lower()).strip("-")


def products(shop: str, *, count: int, money: str, language: str, states: tuple[str, ...]) -> list[Product]:
    """The same for the same arguments. The first ones have every state there is."""
    rng = random.Random(f"{shop} {count}")
    spelling, things = MONEY[money], WORDS[language].things
    found = []
    for number in range(count):
        price = _price(rng, spelling.scale, spelling.digits)
        reduced = rng.random() < _REDUCED
        brand = rng.choice(_BRANDS)
        found.append(
            Product(
                number=number,
                name=f"{brand} {rng.choice(things)} {rng.randrange(100, 999)}",
                sku=f"{rng.choice('ABCDEFGH')}{rng.randrange(10, 99)}-{number:04}",
                gtin=_ean(rng),
                brand=brand,
                price=price,
                was=_higher(price, spelling.digits) if reduced else None,
                currency=spelling.currency,
                availability=sorted(set(states))[number] if number < len(set(states)) else rng.choice(states),
                category=number % _CATEGORIES,
            )
        )
    return found


def _price(rng: random.Random, scale: int, digits: int) -> Decimal:
    """From a few euros to thousands of them; whole ones and odd ones."""
    euros = rng.choice(
        (rng.uniform(2, 10), rng.uniform(10, 100), rng.uniform(100, 999), rng.uniform(1_000, 9_000))
    )
    amount = Decimal(str(round(euros * scale, 6)))
    if rng.random() < 0.35:
        return _rounded(amount.to_integral_value(), digits)
    if digits == 0 and scale >= 100:
        amount = (amount / 10).to_integral_value() * 10
    return _rounded(amount, digits)


def _higher(price: Decimal, digits: int) -> Decimal:
    return _rounded(price * Decimal("1.25"), digits)


def _rounded(amount: Decimal, digits: int) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(-digits))


def _ean(rng: random.Random) -> str:
    digits = [rng.randrange(10) for _ in range(12)]
    check = -sum(digit * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10
    return "".join(map(str, [*digits, check]))
