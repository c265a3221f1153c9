"""The shop's pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from shoal.testing.shop.catalogue import Product, Variant

SEARCH_KEY = hashlib.sha256(b"the search form of the shop").hexdigest()[:16]  # in a hidden field


def home() -> str:
    return _page(
        "Welcome",
        '<p><a class="listing" href="/list?page=1">All products</a></p>'
        '<form id="search" method="post" action="/search">'
        f'<input type="hidden" name="form_key" value="{SEARCH_KEY}"><input type="hidden" name="lang" value="en">'
        '<input name="q"><select name="in"><option value="all" selected>everywhere<option value="sale">sale</select>'
        '<button name="go" value="1">Search</button></form>',
    )


def listing(title: str, products: Iterable[Product], following: str = "") -> str:
    items = "".join(
        f'<li class="product" data-sku="{product.sku}"><a href="/product/{product.number}">{product.name}</a></li>'
        for product in products
    )
    more = f'<p class="next"><a href="{following}">next</a></p>' if following else ""
    return _page(title, f"<ul>{items}</ul>{more}")


def product(product: Product) -> str:
    files = "".join(
        f'<li class="file"><a href="{file.path}">{file.path.rpartition("/")[2]}</a></li>'
        for file in product.files
    )
    pages = "".join(
        f'<a href="/product/{product.number}/variants?page={page}">{page}</a> ' for page in (1, 2)
    )
    return _page(
        product.name,
        f'<p class="sku">{product.sku}</p><p class="price">€ {product.price}</p>'
        f'<p class="variants">Variants: {pages}</p><ul>{files}</ul>'
        f'<p><a class="basket" href="/basket/add?sku={product.sku}">into the basket</a></p>',
    )


def variants(title: str, rows: Sequence[Variant]) -> str:
    cells = "".join(
        f'<tr data-sku="{row.sku}"><td class="colour">{row.colour}<td class="size">{row.size}'
        f'<td class="price">€ {row.price}</tr>'
        for row in rows
    )
    return _page(title, f'<table class="variants"><tbody>{cells}</tbody></table>')


def sold_out(name: str) -> str:
    return _page(
        name, '<p class="notice">This product is temporarily sold out. Please come back in a moment.</p>'
    )


def login(token: str, following: str, refused: bool = False) -> str:
    why = '<p class="error">Wrong name or password.</p>' if refused else ""
    return _page(
        "Sign in",
        f'{why}<p>Prices are for members.</p><form id="login" method="post" action="/login">'
        f'<input type="hidden" name="csrf" value="{token}"><input type="hidden" name="next" value="{following}">'
        '<input name="user"><input name="password" type="password"><button>Sign in</button></form>',
    )


def _page(title: str, main: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title} | The shop</title></head>\n'
        f'<body><nav><a href="/">Shop</a> <a href="/basket">Basket</a></nav>\n<main><h1>{title}</h1>{main}</main>'
        "</body></html>\n"
    )
