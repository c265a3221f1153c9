"""The fifty shops: how each is built. They differ on purpose; no two have the same combination."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from shoal.testing.shops.goods import STATES

Card: TypeAlias = Literal["list", "grid", "articles", "rows", "figures", "bare"]
Paging: TypeAlias = Literal["next", "numbers", "more", "path", "offset", "all"]
SitemapKind: TypeAlias = Literal["", "xml", "robots", "gz", "index", "index gz", "text"]
Paths: TypeAlias = Literal[
    "products", "product", "html", "number html", "route", "p", "sw", "php", "category", "folder", "words"
]
RARE = (*STATES, "backorder", "limited")
ENDING = (*STATES, "discontinued")


class Plan(Struct, frozen=True):
    name: str
    language: str
    money: str
    layout: str  # of LAYOUTS or ANNOTATED
    head: tuple[str, ...] = ()  # of SHAPES, BROKEN and HEADS
    offers: str = "offer"  # of OFFERS, for JSON-LD
    paths: Paths = "p"
    card: Card | None = "list"  # None: no listing leads to the products, only the sitemap
    paging: Paging = "next"
    categories: bool = False
    sitemap: SitemapKind = ""
    encoding: str = "utf-8"
    declared: Literal["header", "meta", "mark"] = "header"  # where the encoding is said
    states: tuple[str, ...] = STATES

    @property
    def is_range(self) -> bool:
        """Whether its pages say "from" before the price."""
        return self.offers.startswith("aggregate") or "group range" in self.head


def _jsonld() -> list[Plan]:
    """JSON-LD that is in order."""
    return [
        Plan("dawn-single", "en", "us", "dawn", ("single", "og local"), "offer", "products", "grid", "numbers", sitemap="robots"),
        Plan("woo-unit-price", "de", "germany", "woo", ("graph", "og basic"), "unit price", "product", "list", "path", sitemap="index"),
        Plan("shopware-array", "de", "germany code", "shopware", ("array",), "small code", "sw", "grid", "numbers"),
        Plan("presta-several", "fr", "france", "presta", ("several", "og product"), "local price", "number html", "articles", "next"),
        Plan("stencil-shipping", "en", "canada", "stencil", ("single",), "with shipping", "words", "grid", "more", sitemap="xml"),
        Plan("magento-main-entity", "nl", "netherlands", "magento", ("main entity",), "aggregate", "html", "list", "numbers", True),
        Plan("item-page", "no", "norway", "hashed", ("item page",), "sold out for state", "p", "articles", "all", True),
        Plan("references", "es", "spain", "utility", ("references",), "offer", "products", "figures", "next", sitemap="gz"),
        Plan("beside-others", "pl", "poland", "presta", ("beside others",), "offer", "number html", "grid", "numbers", True),
        Plan("similar", "cs", "czechia", "definitions", ("similar",), "number price", "category", "rows", "offset"),
        Plan("prefixed", "sv", "sweden", "sentence", ("prefixed",), "offer", "p", None, sitemap="xml"),
        Plan("expanded", "da", "denmark", "utility", ("expanded",), "offer", "folder", "list", "next"),
        Plan("price-with-sign", "pt", "brazil", "woo", ("several",), "price with sign", "product", "list", "path"),
        Plan("sign-for-code", "fr", "france spaces", "sentence", ("graph",), "sign for code", "php", "bare", "next"),
        Plan("feed-words", "en", "ireland", "opencart", ("array",), "words for state", "route", "grid", "numbers", True),
        Plan("offer-list", "en", "india", "dawn", ("single", "og local"), "offer list", "products", "grid", "next", sitemap="index"),
        Plan("aggregate-of-offers", "tr", "turkey", "definitions", ("main entity",), "aggregate of offers", "p", "rows", "next", True),
        Plan("struck-price", "en", "us code", "woo", ("graph", "twitter summary"), "struck price", "product", "list", "path", states=RARE),
        Plan("group", "en", "us behind", "dawn", ("group",), "offer", "products", "grid", "numbers", sitemap="index gz", states=ENDING),
        Plan("group-range", "ko", "korea", "utility", ("group range",), "offer", "p", "figures", "more", encoding="euc-kr"),
        Plan("entity-strings", "ro", "romania", "opencart", ("entity strings",), "offer", "route", "grid", "next"),
        Plan("three-decimals", "en", "kuwait", "magento", ("single",), "number price", "html", None, sitemap="text"),
    ]  # fmt: skip


def _broken() -> list[Plan]:
    """JSON-LD that no strict parser takes."""
    return [
        Plan("trailing-commas", "es", "mexico", "presta", ("trailing commas",), "offer", "number html", "articles", "next"),
        Plan("raw-line-breaks", "de", "switzerland", "shopware", ("raw line breaks",), "unit price", "sw", "grid", "numbers"),
        Plan("bare-quotes", "en", "south africa", "opencart", ("bare quotes",), "offer", "route", "grid", "next", True),
        Plan("script-comments", "ru", "russia", "sentence", ("script comments",), "number price", "php", "rows", "next", encoding="windows-1251"),
        Plan("escaped-whole", "hu", "hungary", "hashed", ("escaped whole",), "offer", "p", "list", "numbers", encoding="iso-8859-2", declared="meta"),
        Plan("one-after-another", "uk", "ukraine", "utility", ("one after another",), "small code", "category", "figures", "more"),
        Plan("cut-short", "ja", "japan", "definitions", ("cut short",), "offer", "php", "list", "numbers", encoding="shift_jis", declared="meta"),
    ]  # fmt: skip


def _annotated() -> list[Plan]:
    """Microdata and RDFa Lite."""
    return [
        Plan("microdata-meta", "en", "us", "microdata meta", (), "", "html", "list", "numbers", True, states=RARE),
        Plan("microdata-content", "fr", "quebec", "microdata content", ("og basic",), "", "number html", "articles", "next"),
        Plan("microdata-text", "en", "uk entity", "microdata text", (), "", "route", "grid", "numbers"),
        Plan("microdata-itemref", "de", "switzerland dash", "microdata itemref", ("without offer",), "offer", "sw", "rows", "next"),
        Plan("microdata-range", "es", "spain bare", "microdata range", (), "", "p", "figures", "next", encoding="iso-8859-15", declared="meta"),
        Plan("microdata-neighbours", "it", "italy", "microdata neighbours", (), "", "products", "grid", "more", True),
        Plan("microdata-old-and-new", "en", "emirates", "microdata old and new", (), "", "product", "list", "path"),
        Plan("microdata-types", "fi", "finland", "microdata types", (), "", "category", "rows", "next"),
        Plan("rdfa", "zh", "china", "rdfa", ("twitter summary",), "", "php", "grid", "numbers", encoding="gb18030"),
        Plan("rdfa-prefix", "vi", "vietnam", "rdfa prefix", (), "", "words", None, sitemap="robots"),
    ]  # fmt: skip


def _heads() -> list[Plan]:
    """OpenGraph and Twitter cards."""
    return [
        Plan("og-product", "th", "thailand", "split", ("og product",), "", "p", "list", "next", sitemap="xml"),
        Plan("og-sale", "es", "chile", "hashed", ("og sale",), "", "products", "grid", "more"),
        Plan("og-words", "he", "israel", "button", ("og words",), "", "number html", "list", "numbers", True),
        Plan("twitter-labels", "de", "germany entity", "button", ("twitter labels",), "", "p", "articles", "next"),
    ]  # fmt: skip


def _visible() -> list[Plan]:
    """Nothing but what people see."""
    return [
        Plan("visible-split", "fr", "france", "split", ("og basic",), "", "html", "list", "numbers", encoding="iso-8859-1", declared="meta"),
        Plan("visible-table", "sv", "sweden dash", "table", (), "", "folder", "rows", "next", encoding="windows-1252"),
        Plan("visible-attributes", "id", "indonesia", "attributes", (), "", "words", "grid", "offset"),
        Plan("visible-arabic", "ar", "egypt", "dawn", ("og basic", "twitter summary"), "", "products", "list", "next", declared="mark"),
        Plan("visible-kanji", "ja", "japan kanji", "stencil", ("og basic",), "", "p", "figures", "numbers", encoding="euc-jp"),
        Plan("visible-hashed", "el", "greece", "hashed", (), "", "category", "grid", "next", True),
        Plan("visible-sentence", "bg", "bulgaria", "sentence", (), "", "folder", "bare", "all", sitemap="xml"),
    ]  # fmt: skip


PLANS: tuple[Plan, ...] = (*_jsonld(), *_broken(), *_annotated(), *_heads(), *_visible())
