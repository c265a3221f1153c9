"""What `shoal guess` makes of pages: lists, ways to the next page, prices, patterns, and the file."""

from __future__ import annotations

import asyncio
import tomllib

import pytest

from shoal.develop.guessing.cards import cards_on
from shoal.develop.guessing.detail_fields import best_availability, best_price
from shoal.develop.guessing.found_fields import Sample, find_fields
from shoal.develop.guessing.guess_file import Guess, written
from shoal.develop.guessing.outline import Outline
from shoal.develop.guessing.paging import next_page
from shoal.develop.guessing.site_guess import Explorer
from shoal.develop.guessing.toml_text import quoted
from shoal.develop.guessing.url_shapes import pattern_for
from shoal.spider.declared.url_patterns import url_pattern
from shoal.spider.page import Page
from shoal.testing import page
from shoal.testing.shops import PLANS, Storefront

BASE = "https://shop.example"


def outline(body: str, path: str = "/") -> Outline:
    return Outline(page(f"<html><body>{body}</body></html>", BASE + path))


# -- lists


def test_the_links_of_products_and_not_those_of_the_menu() -> None:
    menu = "".join(f'<li><a href="/c{n}">Category {n}</a></li>' for n in range(20))
    cards = "".join(
        f'<div class="card"><a class="pic" href="/p/{n}"><img></a><a href="/p/{n}">Lamp</a> {n},50 €</div>'
        for n in range(6)
    )
    [best, *_] = cards_on(outline(f"<nav><ul>{menu}</ul></nav><div id=grid>{cards}</div>"))
    assert set(best.urls) == {f"{BASE}/p/{n}" for n in range(6)}
    assert best.priced == 6
    assert best.block == ".card"


@pytest.mark.parametrize(
    ("links", "manner", "css"),
    [
        ('<a rel="next" href="?page=2">2</a>', "next", 'a[rel~="next"]'),
        ('<a class="onward" href="?page=2">Weiter »</a>', "next", ".onward"),
        ('<a id="more" href="?page=2">Load more</a>', "more", "#more"),
        ('<ul class="pg"><li><a href="?page=2">2</a><li><a href="?page=3">3</a></ul>', "numbers", ".pg a"),
        ('<a href="/other">Other</a>', None, ""),
    ],
)
def test_the_way_to_the_next_page(links: str, manner: str | None, css: str) -> None:
    found = next_page(outline(links, "/list"))
    assert (found.manner if found else None) == manner
    assert (found.css if found else "") == css


@pytest.mark.parametrize(
    ("products", "others", "pattern"),
    [
        (["/p/1", "/p/2"], ["/", "/about"], "/p/*"),
        (["/1-lamp.html", "/22-vase.html"], ["/lamps.html"], r"re:/\d+-[^/]+\.html$"),
        (["/item.php?id=1", "/item.php?id=20"], ["/item.php?list=1"], r"re:/item\.php\?id=\d+$"),
        (["/lamp/SW1001", "/vase/SW1002"], ["/lamp/list"], r"re:/[^/]+/SW\d+$"),
        (["/lamp", "/vase"], ["/about"], None),  # nothing tells them apart
    ],
)
def test_the_pattern_of_product_urls(products: list[str], others: list[str], pattern: str | None) -> None:
    found = pattern_for([BASE + path for path in products], [BASE + path for path in others])
    assert found == pattern
    if found is not None:
        fits = url_pattern(found).fits
        assert all(fits(BASE + path) for path in products)
        assert not any(fits(BASE + path) for path in others)


# -- a product


@pytest.mark.parametrize(
    ("body", "amount"),
    [
        ("<h1>Lamp</h1><s>20,00 €</s> <b>15,00 €</b>", "15.00"),
        ('<h1>Lamp</h1><p class="old-price">$20.00</p><p class="price">$15.00</p>', "15.00"),
        (
            '<div>Free from 50 €</div><h1>Lamp</h1><i class="price">15,00 €</i><aside><b>9,00 €</b></aside>',
            "15.00",
        ),
        ('<h1>Lamp</h1><p class="price"><span>15</span><sup>€</sup><sup>50</sup></p>', "15.50"),
        ('<h1>Lamp</h1><div data-price="15.5" id="x"></div>', "15.5"),
        ("<h1>Lamp 2000</h1><p>In 24 hours</p>", None),
    ],
)
def test_the_price_that_a_reader_would_name(body: str, amount: str | None) -> None:
    found = best_price(outline(body))
    assert (found.value if found else None) == amount


def test_the_availability_near_the_heading() -> None:
    body = '<h1>Lamp</h1><p class="stock">Ausverkauft</p><aside><p>In stock</p></aside>'
    found = best_availability(outline(body))
    assert found is not None
    assert (found.value, found.text) == ("out_of_stock", "Ausverkauft")


def test_a_sale_price_is_asked_for_before_the_usual_one() -> None:
    plain = '<h1>Lamp</h1><p class="price"><b class="amount">15,00 €</b></p>'
    prices = '<del><b class="amount">20,00 €</b></del><ins><b class="amount">9,00 €</b></ins>'
    sale = f'<h1>Vase</h1><p class="price">{prices}</p>'
    samples = [Sample.of(page(f"<html><body>{body}</body></html>", BASE)) for body in (plain, sale, plain)]
    [price] = [field for field in find_fields(samples) if field.name == "price"]
    for sample, amount in zip(samples, ("15,00 €", "9,00 €", "15,00 €"), strict=True):
        texts = (sample.page.text(css) for css, _ in price.selectors)
        assert next(text for text in texts if text) == amount


# -- the file


def test_texts_of_pages_stay_texts() -> None:
    nasty = 'a"b\\c\n[handler.x]\nkey = 1 # \x00 \u2028 '
    assert tomllib.loads(f"x = {quoted(nasty)}").keys() == {"x"}
    sample = Sample.of(page("<html><h1>Lamp\n\n[site.evil]</h1><b class=price>5 €</b></html>", BASE))
    guess = Guess(
        name=nasty,
        start=(BASE,),
        listing=None,
        listing_url="",
        menu=None,
        following=None,
        sitemap=None,
        match=None,
        fields=tuple(find_fields([sample])),
        samples=(BASE,),
        remarks=(nasty,),
    )
    assert set(tomllib.loads(written(guess))) == {"name", "start", "handler"}


@pytest.mark.parametrize(
    "name", ["woo-unit-price", "rdfa-prefix", "visible-table", "visible-hashed", "microdata-old-and-new"]
)
def test_a_shop_from_its_home_page(name: str) -> None:
    front = Storefront(next(plan for plan in PLANS if plan.name == name), "http://127.0.1.1:8000", 60)
    asked: list[str] = []

    async def fetch(url: str) -> Page | None:
        asked.append(url)
        answer = front.answer(url.removeprefix(front.base))
        headers = {"Content-Type": answer.content_type}
        return page(answer.body, url, headers=headers) if answer.status == 200 else None

    guess = asyncio.run(Explorer(fetch).guess([f"{front.base}/"], name))
    assert guess is not None
    assert len(asked) == len(set(asked)) <= 13
    assert not [url for url in asked if "/cart" in url or "/account" in url]
    table = tomllib.loads(written(guess))
    fields = table["handler"]["product"]["fields"]
    assert {"name", "price", "currency", "availability"} <= fields.keys()
    assert "sitemap" in table if front.plan.sitemap else "next" in table["handler"]["listing"]
    assert guess.match is not None
    assert all(url_pattern(guess.match).fits(truth.url) for truth in front.truth())


def test_a_site_of_articles() -> None:
    links = "".join(
        f'<div class="teaser"><h2><a href="/2026/{n}">Story {n}</a></h2></div>' for n in range(1, 6)
    )
    listing = (
        f'<html><h1>News</h1><a href="/about">About</a>{links}<a rel="next" href="/?page=2">Older</a></html>'
    )
    story = """<html><head><script type="application/ld+json">{"@type": "NewsArticle", "headline": "Story %s",
        "author": {"name": "Ann"}, "datePublished": "2026-01-0%s"}</script></head><h1>Story %s</h1></html>"""

    async def fetch(url: str) -> Page | None:
        number = url.rpartition("/")[2]
        if url in (f"{BASE}/", f"{BASE}/?page=2"):
            return page(listing, url)
        return page(story % ((number,) * 3), url) if "/2026/" in url else None

    guess = asyncio.run(Explorer(fetch).guess([f"{BASE}/"], "news"))
    assert guess is not None
    table = tomllib.loads(written(guess))
    assert table["handler"]["listing"] == {"follow": {"page": ".teaser a"}, "next": 'a[rel~="next"]'}
    assert table["handler"]["page"]["match"] == "/2026/*"
    fields = table["handler"]["page"]["fields"]
    assert fields["headline"] == {"data": "article.headline"}
    assert fields["published"] == {"data": "article.published"}


def test_a_site_without_products() -> None:
    async def fetch(url: str) -> Page | None:
        return page("<html><h1>About us</h1><p>Founded in 1990.</p></html>", url) if url == BASE else None

    assert asyncio.run(Explorer(fetch).guess([BASE], "site")) is None
