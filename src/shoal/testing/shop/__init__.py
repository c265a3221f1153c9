"""A shop on loopback: everything that makes a real shop hard to scrape, and the whole truth to compare with.

    Catalogue (what is sold) ──▶ Shop (in this event loop) ──────┐
                          └────▶ ShopProcess (in its own process) ─┴──▶ ShopLog (what visitors did)

Listings in pages; variants on two pages each; prices for members only, behind a login with a CSRF token and a session
that ends; a cursor API that wants a signature; a search form with hidden fields; PDFs and images; products that are
"temporarily sold out" twice.
"""

from __future__ import annotations

from shoal.testing.shop.accounts import ACCOUNTS
from shoal.testing.shop.catalogue import Catalogue, Product, ShopFile, Variant
from shoal.testing.shop.paths import ShopSpec
from shoal.testing.shop.server import Shop, ShopProcess
from shoal.testing.shop.signing import API_KEY, signature
from shoal.testing.shop.visits import Login, ShopLog, Visit

__all__ = [
    "ACCOUNTS",
    "API_KEY",
    "Catalogue",
    "Login",
    "Product",
    "Shop",
    "ShopFile",
    "ShopLog",
    "ShopProcess",
    "ShopSpec",
    "Variant",
    "Visit",
    "signature",
]
