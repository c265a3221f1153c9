"""The sitemaps of a shop: where they are, and in which of the usual forms."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from html import escape

_NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def sitemap_files(kind: str, base: str, urls: Sequence[str]) -> dict[str, bytes]:
    """By path."""
    half = len(urls) // 2 or 1
    match kind:
        case "xml":
            return {"/sitemap.xml": _urls(urls)}
        case "robots":
            return {"/media/products-map.xml": _urls(urls)}
        case "gz":
            return {"/sitemap.xml.gz": gzip.compress(_urls(urls), mtime=0)}
        case "index":
            parts = {
                "/sitemap_products_1.xml": _urls(urls[:half]),
                "/sitemap_products_2.xml": _urls(urls[half:]),
            }
            return {"/sitemap.xml": _index(base, list(parts)), **parts}
        case "index gz":
            part = "/sitemaps/products.xml.gz"
            return {"/sitemap_index.xml": _index(base, [part]), part: gzip.compress(_urls(urls), mtime=0)}
        case "text":
            return {"/sitemap.txt": "\n".join(urls).encode()}
        case _:
            return {}


def robots_lines(kind: str, base: str) -> list[str]:
    """What robots.txt says of them. It does not name the one that is where everybody looks."""
    named = {
        "robots": "/media/products-map.xml",
        "gz": "/sitemap.xml.gz",
        "index gz": "/sitemap_index.xml",
        "text": "/sitemap.txt",
    }
    return [f"Sitemap: {base}{named[kind]}"] if kind in named else []


def _urls(urls: Sequence[str]) -> bytes:
    entries = "".join(f"<url><loc>{escape(url)}</loc><lastmod>2026-10-01</lastmod></url>\n" for url in urls)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {_NS}>\n{entries}</urlset>\n'.encode()


def _index(base: str, paths: Sequence[str]) -> bytes:
    entries = "".join(f"<sitemap><loc>{base}{path}</loc></sitemap>\n" for path in paths)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex {_NS}>\n{entries}</sitemapindex>\n'.encode()
    )
