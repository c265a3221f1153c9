"""Fifty shops on loopback, each built in another manner, and the whole truth to compare with.

    Plan (how a shop is built) ──▶ Storefront (its pages, its truth) ──▶ Shops (in this event loop) ───┐
                                                                  └───▶ ShopsProcess (in its own process) ─┴──▶ Visit

JSON-LD in the shapes that shop systems write, also broken; microdata, RDFa Lite, OpenGraph, Twitter cards, or nothing but what
people see; prices and words of many countries; listings in pages, categories, and sitemaps of every form.
"""

from __future__ import annotations

from shoal.testing.shops.server import Shops, ShopsProcess, ShopsSpec, Visit
from shoal.testing.shops.shop_plans import PLANS, Plan
from shoal.testing.shops.storefront import Storefront, Truth

__all__ = ["PLANS", "Plan", "Shops", "ShopsProcess", "ShopsSpec", "Storefront", "Truth", "Visit"]
