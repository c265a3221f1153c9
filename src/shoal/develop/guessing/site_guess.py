"""Explores a site with few requests: which pages list products, which are about one, and what its sitemap has."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Literal, TypeAlias
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from shoal.develop.guessing.cards import Cards, cards_on, leads_elsewhere, own_links
from shoal.develop.guessing.detail_fields import best_price, is_one_price
from shoal.develop.guessing.found_fields import (
    Sample,
    find_fields,
    find_page_fields,
    home_currency,
    main_product,
)
from shoal.develop.guessing.guess_file import Guess, SitemapFound
from shoal.develop.guessing.outline import Outline
from shoal.develop.guessing.paging import next_page
from shoal.develop.guessing.url_shapes import most_common_shape, pattern_for
from shoal.html.sitemap import Sitemap, SitemapEntry, sitemaps_in
from shoal.spider.page import Page

PageKind: TypeAlias = Literal["product", "listing", "other"]
Fetch: TypeAlias = Callable[[str], Awaitable[Page | None]]  # None: there is no such page

PRODUCTS = 5  # pages of products that are looked at
_LEAST_PAGES = 2  # of a list of links that are no products
_MENU_TRIES = 4  # links of a start page that are tried
_ENTRIES = 5_000  # of a sitemap that are looked at
_INDEXED = 2  # sitemaps of an index that are read
_ROBOTS = 500_000  # bytes
_LISTED = 4  # blocks with a price that make a listing
_SHOP = re.compile(
    r"shop|product|catalog|categor|collection|katalog|produkt|store|all|boutique|tienda|kategori",
    re.IGNORECASE,
)


class Looked(Struct):
    page: Page
    outline: Outline
    cards: list[Cards]
    kind: PageKind


def looked_at(page: Page) -> Looked:
    outline = Outline(page)
    cards = cards_on(outline)
    return Looked(page, outline, cards, _kind(page, outline, cards))


def _kind(page: Page, outline: Outline, cards: Sequence[Cards]) -> PageKind:
    data = main_product(page)
    products = len(page.data("product")) if data else 0
    if data.get("price") and (products == 1 or data.get("url") == page.url):
        return "product"
    best = cards[0] if cards else None
    if best is not None and best.priced >= _LISTED:
        return "listing"
    if data.get("price") or is_one_price(outline, home_currency(page)):
        return "product"
    if best is not None and (best.priced >= _LISTED - 1 or (len(best.urls) > _LISTED and next_page(outline))):
        return "listing"
    return "other"


class Explorer:
    """One site. `pages` are those that were looked at, by URL."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self.pages: dict[str, Looked] = {}
        self.remarks: list[str] = []

    async def guess(self, urls: Sequence[str], name: str) -> Guess | None:
        """Of the products of a shop; of a site without any, of the pages that it lists. None: neither was found."""
        for url in urls:
            await self._look(url)
        if not self._of_kind("listing"):
            await self._find_listing()
        entries, sitemap_url = await self._sitemap()
        listing = next(iter(self._of_kind("listing")), None)
        await self._look_further(listing)
        products = await self._products(listing, entries)
        if not products:
            return await self._guess_pages(name, entries, sitemap_url)
        known = self._product_urls(listing, entries, products)
        match = pattern_for(known, self._other_urls(set(known)))
        menu = self._menu(listing)
        return Guess(
            name=name,
            start=self._start(listing, menu, products),
            listing=listing.cards[0] if listing is not None else None,
            listing_url=listing.page.url if listing is not None else "",
            menu=menu,
            following=next_page(listing.outline) if listing is not None else None,
            sitemap=_sitemap_found(sitemap_url, entries, match),
            match=match,
            fields=tuple(find_fields([Sample.of(one.page) for one in products])),
            samples=tuple(one.page.url for one in products),
            remarks=tuple(self.remarks),
        )

    async def _guess_pages(
        self, name: str, entries: Sequence[SitemapEntry], sitemap_url: str
    ) -> Guess | None:
        """Articles and the like: the best list of links that was seen, and what its pages have in common."""
        lists = [looked for looked in self.pages.values() if looked.cards]
        if not lists:
            return None
        best = max(lists, key=lambda looked: looked.cards[0].score)
        listed = best.cards[0].urls
        seen = [await self._look(url) for url in _spread(listed, PRODUCTS)]
        pages = [one for one in seen if one is not None and one.outline.heading >= 0]
        if len(pages) < _LEAST_PAGES:
            return None
        others = [looked.page.url for looked in self.pages.values() if looked not in pages]
        others += [url for _, url in own_links(best.outline) if url not in set(listed)]
        match = pattern_for(listed, others)
        return Guess(
            name=name,
            start=(best.page.url,),
            listing=best.cards[0],
            listing_url=best.page.url,
            menu=None,
            following=next_page(best.outline),
            sitemap=_sitemap_found(sitemap_url, entries, match),
            match=match,
            fields=tuple(find_page_fields([Sample.of(one.page) for one in pages])),
            samples=tuple(one.page.url for one in pages),
            remarks=(
                *self.remarks,
                "No page of a product was found: this is about the pages that the site lists.",
            ),
            handler="page",
        )

    def _of_kind(self, kind: PageKind) -> list[Looked]:
        return [looked for looked in self.pages.values() if looked.kind == kind]

    async def _look(self, url: str) -> Looked | None:
        if url not in self.pages:
            page = await self._fetch(url)
            if page is None or not page.is_html:
                return None
            self.pages[url] = looked_at(page)
        return self.pages[url]

    # -- listings

    async def _find_listing(self) -> None:
        """From the pages that are known, else from the home page."""
        seen = list(self.pages.values())
        home = await self._look(urljoin(seen[0].page.url, "/")) if seen else None
        for looked in [*seen, *([home] if home is not None else [])]:
            for url in islice(_menu_links(looked), _MENU_TRIES):
                found = await self._look(url)
                if found is not None and found.kind == "listing":
                    return

    async def _look_further(self, listing: Looked | None) -> None:
        """At one more listing of the menu: products of one category may have more in common than all have."""
        menu = next(
            (
                cards
                for looked in self.pages.values()
                for cards in looked.cards
                if _has(listing, looked, cards)
            ),
            None,
        )
        for url in reversed(menu.urls if menu is not None else ()):
            if url not in self.pages and not leads_elsewhere(url):
                await self._look(url)
                return

    def _menu(self, listing: Looked | None) -> tuple[str, int] | None:
        """The links of another page among which there is one to the listing."""
        if listing is None:
            return None
        for looked in self.pages.values():
            for cards in looked.cards:
                if _has(listing, looked, cards):
                    return cards.css, len(cards.urls)
        return None

    def _start(
        self, listing: Looked | None, menu: tuple[str, int] | None, products: Sequence[Looked]
    ) -> tuple[str, ...]:
        if listing is None:
            return tuple(one.page.url for one in products)
        if menu is None:
            return tuple(one.page.url for one in self._of_kind("listing"))
        return tuple(
            looked.page.url
            for looked in self.pages.values()
            if any(listing.page.url in cards.urls for cards in looked.cards)
        )[:1]

    # -- products

    async def _products(self, listing: Looked | None, entries: Sequence[SitemapEntry]) -> list[Looked]:
        given = self._of_kind("product")
        urls = [url for one in self._of_kind("listing") for url in one.cards[0].urls]
        reduced = [url for one in self._of_kind("listing") for url in one.cards[0].reduced]
        for source in (
            reduced[:1],
            urls,
            most_common_shape(entry.url for entry in entries if not entry.is_sitemap),
        ):
            for url in _spread(source, PRODUCTS):
                if len(self._of_kind("product")) >= max(PRODUCTS, len(given)):
                    break
                await self._look(url)
        found = self._of_kind("product")
        if not urls:
            return found
        # A page from the menu may look like a product, and one that is listed need not.
        listed = [one for one in self.pages.values() if one.page.url in set(urls)]
        with_price = [one for one in listed if one.kind == "other" and best_price(one.outline) is not None]
        return [one for one in found if one in listed or one in given] or found or with_price

    def _product_urls(
        self, listing: Looked | None, entries: Sequence[SitemapEntry], products: Sequence[Looked]
    ) -> list[str]:
        if listing is not None:
            listed = [url for one in self._of_kind("listing") for url in one.cards[0].urls]
            return list(dict.fromkeys([*listed, *(one.page.url for one in products)]))
        like = most_common_shape(one.page.url for one in products)
        alike = most_common_shape(entry.url for entry in entries)
        return list(dict.fromkeys([*like, *(alike if like and like[0] in set(alike) else [])]))

    def _other_urls(self, products: set[str]) -> Iterator[str]:
        for looked in self.pages.values():
            if looked.page.url not in products and looked.kind != "product":
                yield looked.page.url
            if looked.kind != "product":
                yield from (url for _, url in own_links(looked.outline) if url not in products)

    # -- the sitemap

    async def _sitemap(self) -> tuple[list[SitemapEntry], str]:
        """Entries of pages, and the URL of what has them."""
        seen = next(iter(self.pages.values()), None)
        if seen is None:
            return [], ""
        robots = await self._fetch(urljoin(seen.page.url, "/robots.txt"))
        named = sitemaps_in(robots.body, most=_ROBOTS) if robots is not None else []
        host = urlsplit(seen.page.url).netloc
        foreign = [url for url in named if urlsplit(url).netloc != host]
        self.remarks += [f"robots.txt names a sitemap on another host: {url}" for url in foreign[:3]]
        own = [url for url in named if urlsplit(url).netloc == host] or [
            urljoin(seen.page.url, "/sitemap.xml")
        ]
        for url in own[:_INDEXED]:
            if entries := await self._entries(url, host, _INDEXED):
                return entries, url
        return [], ""

    async def _entries(self, url: str, host: str, levels: int) -> list[SitemapEntry]:
        page = await self._fetch(url)
        if page is None or page.status != 200:
            return []
        sitemap = Sitemap(page.body, page.headers.get("Content-Type", ""))
        found = list(islice(sitemap, _ENTRIES))
        if sitemap.kind == "html":
            return []
        entries = [one for one in found if not one.is_sitemap and urlsplit(one.url).netloc == host]
        inner = [one.url for one in found if one.is_sitemap and urlsplit(one.url).netloc == host]
        preferred = sorted(inner, key=lambda one: "product" not in one.lower())
        for one in preferred[:_INDEXED] if levels else ():
            entries += await self._entries(one, host, levels - 1)
        return entries[:_ENTRIES]


def _has(listing: Looked | None, looked: Looked, cards: Cards) -> bool:
    """Whether it is a menu with a link to the listing."""
    return listing is not None and looked.kind == "other" and listing.page.url in cards.urls


def _menu_links(looked: Looked) -> Iterator[str]:
    """Links that may lead to a listing, the most likely first."""
    links = [(spot, url) for spot, url in own_links(looked.outline) if not leads_elsewhere(url)]
    ranked = sorted(
        dict.fromkeys(url for _, url in links),
        key=lambda url: (not _SHOP.search(urlsplit(url).path + urlsplit(url).query), len(url)),
    )
    return (url for url in ranked if urlsplit(url).path != "/" or urlsplit(url).query)


def _spread(urls: Sequence[str], count: int) -> list[str]:
    """Some from everywhere in the list."""
    if len(urls) <= count:
        return list(urls)
    return [urls[number * len(urls) // count] for number in range(count)]


def _sitemap_found(url: str, entries: Sequence[SitemapEntry], match: str | None) -> SitemapFound | None:
    if not url:
        return None
    from shoal.spider.declared.url_patterns import url_pattern

    pattern = url_pattern(match) if match is not None else None
    products = sum(pattern is not None and pattern.fits(entry.url) for entry in entries)
    return SitemapFound(url, len(entries), products)
