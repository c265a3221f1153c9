"""Pages that list products: cards in several manners, and ways to the next page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from msgspec import Struct

from shoal.testing.shops.goods import Product
from shoal.testing.shops.languages import Words
from shoal.testing.shops.money import Money

PER_PAGE = 12


class Entry(Struct, frozen=True):
    """A product in a listing."""

    product: Product
    href: str  # as the page writes it: absolute or relative, for HTML
    state: str
    money: Money

    @property
    def name(self) -> str:
        return escape(self.product.name)

    @property
    def price(self) -> str:
        return self.money.text(self.product.price)

    @property
    def old(self) -> str:
        return f"<del>{self.money.text(self.product.was)}</del> " if self.product.was is not None else ""


def _list(entries: Sequence[Entry]) -> str:
    items = "".join(
        f'<li class="product type-product"><a href="{entry.href}" class="woocommerce-LoopProduct-link"><img src="/media/{entry.product.sku}.jpg" alt="">'
        f'<h2 class="loop-title">{entry.name}</h2><span class="price">{entry.old}{entry.price}</span></a>'
        f'<a class="button add_to_cart" rel="nofollow" href="/cart?add={entry.product.number}">+</a></li>'
        for entry in entries
    )
    return f'<ul class="products columns-4">{items}</ul>'


def _grid(entries: Sequence[Entry]) -> str:
    items = "".join(
        f'<div class="grid__item"><div class="card"><a class="card__media" href="{entry.href}" tabindex="-1"><img src="/media/{entry.product.sku}.jpg" alt="{entry.name}"></a>'
        f'<h3 class="card__heading"><a href="{entry.href}">{entry.name}</a></h3><div class="card__price">{entry.old}<b>{entry.price}</b></div></div></div>'
        for entry in entries
    )
    return f'<div id="product-grid" class="grid grid--4-col">{items}</div>'


def _articles(entries: Sequence[Entry]) -> str:
    items = "".join(
        f'<article class="product-miniature js-product-miniature" data-id-product="{entry.product.number}"><h2 class="h3 product-title"><a href="{entry.href}">{entry.name}</a></h2>'
        f'<div class="product-price-and-shipping"><span class="price">{entry.price}</span></div><span class="flag">{escape(entry.state)}</span></article>'
        for entry in entries
    )
    return f'<section id="products"><div class="products row">{items}</div></section>'


def _rows(entries: Sequence[Entry]) -> str:
    rows = "".join(
        f'<tr><td>{entry.product.sku}</td><td><a href="{entry.href}">{entry.name}</a></td><td align="right">{entry.price}</td></tr>'
        for entry in entries
    )
    return f'<table class="liste"><thead><tr><th>#</th><th></th><th></th></tr></thead><tbody>{rows}</tbody></table>'


def _figures(entries: Sequence[Entry]) -> str:
    items = "".join(
        f'<a class="tile" href="{entry.href}"><figure><img src="/media/{entry.product.sku}.jpg" alt=""><figcaption>{entry.name} · {entry.price}</figcaption></figure></a>'
        for entry in entries
    )
    return f'<div class="tiles">{items}</div>'


def _bare(entries: Sequence[Entry]) -> str:
    return "".join(f'<p><a href="{entry.href}">{entry.name}</a>, {entry.price}</p>' for entry in entries)


CARDS: dict[str, Callable[[Sequence[Entry]], str]] = {
    "list": _list,
    "grid": _grid,
    "articles": _articles,
    "rows": _rows,
    "figures": _figures,
    "bare": _bare,
}


def page_url(path: str, page: int, paging: str) -> str:
    """Where a page of a listing is; the first is at its path."""
    if page == 1:
        return path
    if paging == "path":
        return f"{path.rstrip('/')}/page/{page}/"
    joint = "&" if "?" in path else "?"
    if paging == "offset":
        return f"{path}{joint}start={(page - 1) * PER_PAGE}"
    return f"{path}{joint}{'p' if paging == 'more' else 'page'}={page}"


def pager(path: str, page: int, pages: int, paging: str, words: Words) -> str:
    """The links to other pages."""
    if pages == 1 or paging == "all":
        return ""
    following = escape(page_url(path, page + 1, paging)) if page < pages else ""
    if paging in ("next", "offset"):
        before = escape(page_url(path, page - 1, paging)) if page > 1 else ""
        back = f'<a class="prev" href="{before}">«</a> ' if before else ""
        return f'<div class="pager">{back}' + (
            f'<a class="next" rel="next" href="{following}">{escape(words.following)} »</a></div>'
            if following
            else "</div>"
        )
    if paging == "more":
        link = f'<a class="btn load-more" href="{following}" data-page="{page + 1}">{escape(words.more)}</a>'
        return f'<div class="load-more-wrap">{link}</div>' if following else ""
    numbers = "".join(
        f'<li><span aria-current="page" class="page-numbers current">{number}</span></li>'
        if number == page
        else f'<li><a class="page-numbers" href="{escape(page_url(path, number, paging))}">{number}</a></li>'
        for number in range(1, pages + 1)
    )
    return f'<nav class="pagination"><ul class="page-list">{numbers}</ul></nav>'
