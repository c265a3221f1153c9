"""A whole shop: what it answers to every path, and the truth about what it sells."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from html import escape
from urllib.parse import quote

from msgspec import Struct

from shoal.testing.shops.annotated import ANNOTATED
from shoal.testing.shops.broken_jsonld import BROKEN
from shoal.testing.shops.goods import Product, products
from shoal.testing.shops.head_shapes import HEADS
from shoal.testing.shops.jsonld_shapes import SHAPES
from shoal.testing.shops.languages import WORDS
from shoal.testing.shops.layouts import LAYOUTS, banner
from shoal.testing.shops.listings import CARDS, PER_PAGE, Entry, page_url, pager
from shoal.testing.shops.money import MONEY
from shoal.testing.shops.product_view import View
from shoal.testing.shops.shop_plans import Plan
from shoal.testing.shops.shop_sitemaps import robots_lines, sitemap_files

_HEADS = {**SHAPES, **BROKEN, **HEADS}
_BODIES = {**LAYOUTS, **ANNOTATED}
_RELATED = 2
_MEDIA_TYPES = {"gz": "application/gzip", "txt": "text/plain", "xml": "application/xml"}
_PRIVATE = ("/cart", "/account", "/search")  # robots.txt forbids them


class Truth(Struct, frozen=True):
    """What is so about one product."""

    url: str
    name: str
    sku: str
    price: Decimal
    currency: str
    availability: str


class Answer(Struct, frozen=True):
    body: bytes
    content_type: str
    status: int = 200


class Storefront:
    """The shop of a plan at an address such as http://127.0.1.1:8000. Pages are made when they are asked for."""

    def __init__(self, plan: Plan, base: str, count: int) -> None:
        self.plan, self.base = plan, base
        self._words, self._money = WORDS[plan.language], MONEY[plan.money]
        self._sold_out = self._words.sold_out[len(plan.name) % len(self._words.sold_out)]
        self.products = products(
            plan.name, count=count, money=plan.money, language=plan.language, states=plan.states
        )
        self._by_path = {self._path(one): one for one in self.products}
        self._listings = self._all_listings() if plan.card is not None else {}
        urls = [self.url(one) for one in self.products]
        self._files = {
            **sitemap_files(plan.sitemap, base, urls),
            "/robots.txt": "\n".join(
                [*(f"Disallow: {path}" for path in _PRIVATE), *robots_lines(plan.sitemap, base)]
            ).encode(),
        }

    def truth(self) -> list[Truth]:
        return [
            Truth(self.url(one), one.name, one.sku, one.price, one.currency, one.availability)
            for one in self.products
        ]

    def url(self, product: Product) -> str:
        return self.base + self._path(product)

    def is_product(self, path: str) -> bool:
        return path in self._by_path

    def answer(self, path: str) -> Answer:
        """`path` has the query."""
        if path == "/robots.txt":
            return Answer(b"User-agent: *\n" + self._files[path], "text/plain")
        if path in self._files:
            return Answer(
                self._files[path], "application/gzip" if path.endswith(".gz") else "application/xml"
            )
        if (product := self._by_path.get(path)) is not None:
            return self._html(self._product_page(product))
        if path in self._listings:
            return self._html(self._listings[path])
        if path == "/":
            return self._html(self._home())
        if path in ("/about", "/terms"):
            return self._html(
                self._page(path[1:].title(), f"<h1>{path[1:].title()}</h1><p>{self.plan.name}</p>")
            )
        private = path.partition("?")[0] in _PRIVATE
        return Answer(b"", "text/plain", 403 if private else 404)

    # -- paths

    def _path(self, product: Product) -> str:
        slug, number = product.slug, product.number
        match self.plan.paths:
            case "products":
                return f"/products/{slug}"
            case "product":
                return f"/product/{slug}/"
            case "html":
                return f"/{slug}.html"
            case "number html":
                return f"/{number + 1}-{slug}.html"
            case "route":
                return f"/index.php?route=product/product&product_id={number + 40}"
            case "p":
                return f"/p/{number + 1}"
            case "sw":
                return f"/{slug}/SW{10_000 + number}"
            case "php":
                return f"/item.php?id={number + 1}"
            case "category":
                return f"/c{product.category}/{slug}"
            case "folder":
                return f"/shop/detail/{number + 1}/index.html"
            case "words":
                return (
                    f"/{quote(product.name.replace(' ', '-').replace('/', '-').lower(), safe='')}-{number}/"
                )

    def _listing_paths(self) -> dict[str, list[Product]]:
        """Where listings begin."""
        if not self.plan.categories:
            path = "/index.php?route=product/category" if self.plan.paths == "route" else "/catalogue"
            return {path + ("/" if self.plan.paging == "path" else ""): self.products}
        return {
            f"/category/{number}": [one for one in self.products if one.category == number]
            for number in sorted({one.category for one in self.products})
        }

    # -- pages

    def _all_listings(self) -> dict[str, str]:
        assert self.plan.card is not None
        found = {}
        for path, listed in self._listing_paths().items():
            per_page = len(listed) if self.plan.paging == "all" else PER_PAGE
            pages = -(-len(listed) // per_page)
            for page in range(1, pages + 1):
                cards = CARDS[self.plan.card](self._entries(listed[(page - 1) * per_page : page * per_page]))
                links = pager(path, page, pages, self.plan.paging, self._words)
                body = f"<h1>{escape(self.plan.name)}</h1>{cards}{links}"
                found[page_url(path, page, self.plan.paging)] = self._page(self.plan.name, body)
        return found

    def _entries(self, listed: Sequence[Product]) -> list[Entry]:
        return [Entry(one, escape(self._path(one)), self._state(one), self._money) for one in listed]

    def _home(self) -> str:
        links = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a></li>' for path in self._starts())
        return self._page(self.plan.name, f'<h1>{self.plan.name}</h1><ul class="menu">{links}</ul>')

    def _starts(self) -> list[str]:
        return list(self._listing_paths()) if self.plan.card is not None else []

    def _product_page(self, product: Product) -> str:
        view = self._view(product)
        head = "\n".join(_HEADS[name](view) for name in self.plan.head)
        canonical = f'<link rel="canonical" href="{escape(view.url)}">'
        body = banner(view) + _BODIES[self.plan.layout](view)
        return self._page(product.name, body, f"{canonical}\n{head}")

    def _view(self, product: Product) -> View:
        others = [
            self.products[(product.number + step) % len(self.products)] for step in range(1, _RELATED + 1)
        ]
        return View(
            shop=self.plan.name,
            language=self.plan.language,
            words=self._words,
            money=self._money,
            sold_out=self._sold_out,
            product=product,
            url=self.url(product),
            home=self.base,
            related=tuple((one, self.url(one)) for one in others if one is not product),
            offers=self.plan.offers,
            is_range=self.plan.is_range,
            ascii=self.plan.encoding != "utf-8",
        )

    def _state(self, product: Product) -> str:
        return self._view(product).state(product)

    def _page(self, title: str, body: str, head: str = "") -> str:
        charset = f'<meta charset="{self.plan.encoding}">' if self.plan.declared == "meta" else ""
        menu = "".join(f'<a href="{path}">{path[1:]}</a> ' for path in (*_PRIVATE, "/about", "/terms"))
        return (
            f'<!doctype html>\n<html lang="{self.plan.language}"><head>{charset}<title>{escape(title)} | {self.plan.name}</title>\n'
            f'{head}</head>\n<body><header><a class="logo" href="/">{self.plan.name}</a><nav>{menu}</nav>'
            f'<span class="basket">0 | {self._money.text(Decimal(0))}</span></header>\n{body}\n'
            f"<footer>© {self.plan.name}</footer></body></html>\n"
        )

    def _html(self, text: str) -> Answer:
        encoded = text.encode(self.plan.encoding, "xmlcharrefreplace")
        if self.plan.declared == "mark":
            return Answer(b"\xef\xbb\xbf" + encoded, "text/html")
        header = f"; charset={self.plan.encoding}" if self.plan.declared == "header" else ""
        return Answer(encoded, "text/html" + header)


def storefronts(plans: Sequence[Plan], bases: Sequence[str], count: int) -> list[Storefront]:
    return [Storefront(plan, base, count) for plan, base in zip(plans, bases, strict=True)]
