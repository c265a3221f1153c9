"""Small sites on loopback with the markup that the README's spider and the examples are written for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

PAGES, PER_PAGE = 3, 4
TITLES = [f"Book {number}" for number in range(PAGES * PER_PAGE)]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def bookshop() -> Iterator[str]:
    """A shop with `PAGES` list pages of `PER_PAGE` books each; the URL of its first page."""
    pages = {f"/catalogue/book-{n}/index.html": _book(n) for n in range(len(TITLES))}
    pages |= {f"/catalogue/page-{n}.html": _book_list(n) for n in range(2, PAGES + 1)}
    yield from _served({**pages, "/": _book_list(1)})


@pytest.fixture(scope="module")
def quotes() -> Iterator[str]:
    """Two pages of quotes by two people; the URL of the first page."""
    people = {"ada": ("Ada Lovelace", "December 10, 1815"), "alan": ("Alan Turing", "June 23, 1912")}
    pages = {
        f"/author/{path}": f'<h3 class="author-title">{name}</h3><span class="author-born-date">{born}</span>'
        for path, (name, born) in people.items()
    }
    both = "".join(_quote(name, path) for path, (name, _) in people.items())
    first = f'{both}<ul><li class="next"><a href="/page/2/">Next</a></li></ul>'
    yield from _served({**pages, "/": first, "/page/2/": both})


def _book(number: int) -> str:
    # As on the real site, a page shows other books too, with prices of their own.
    return (
        f"<title>{TITLES[number]} | Shop</title>"
        f'<div class="product_main"><h1>{TITLES[number]}</h1><p class="price_color">£{number}.50</p>'
        '<p class="instock availability">In stock (3 available)</p><p class="star-rating Three"></p></div>'
        f'<table class="table table-striped"><tr><th>UPC</th><td>upc-{number}</td></tr>'
        "<tr><th>Tax</th><td>£0.00</td></tr></table>"
        '<article class="product_pod"><p class="price_color">£99.99</p></article>'
    )


def _book_list(page: int) -> str:
    prefix = "catalogue/" if page == 1 else ""
    books = range((page - 1) * PER_PAGE, page * PER_PAGE)
    items = "".join(
        f'<article class="product_pod"><h3><a href="{prefix}book-{n}/index.html">{TITLES[n]}</a></h3></article>'
        for n in books
    )
    following = (
        f'<li class="next"><a href="{prefix}page-{page + 1}.html">next</a></li>' if page < PAGES else ""
    )
    return f"<title>Shop, page {page}</title>{items}<ul>{following}</ul>"


def _quote(name: str, path: str) -> str:
    return (
        f'<div class="quote"><span class="text">“Said by {name}.”</span>'
        f'<span>by <small class="author">{name}</small> <a href="/author/{path}">(about)</a></span>'
        '<div class="tags"><a class="tag" href="/tag/a/">a</a><a class="tag" href="/tag/b/">b</a></div></div>'
    )


def _served(pages: Mapping[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head

        def do_GET(self) -> None:
            html = pages.get(self.path)
            body = (html or "not found").encode()
            self.send_response(200 if html else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
