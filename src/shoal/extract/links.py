"""Links of a page: what its markup says, and the absolute URLs it means."""

from __future__ import annotations

from collections.abc import Iterable

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode


def target_of(node: LexborNode) -> str | None:
    """Where an element points: its href or src, as written."""
    attributes = node.attributes
    return attributes.get("href") or attributes.get("src")


def document_base(tree: LexborHTMLParser, url: str) -> str:
    """What relative links are relative to: the page's URL unless <base href> says otherwise."""
    for node in tree.tags("base"):
        href = node.attributes.get("href")
        if href is not None:
            return join(url, href) or url
    return url


def join(base: str, target: str) -> str | None:
    """The absolute http(s) URL; None if there is none (mailto:, javascript:, junk)."""
    try:
        url = ada_url.join_url(base, target)
    except (ValueError, UnicodeError):
        return None
    return url if url.startswith(("http://", "https://")) else None


def absolute(base: str, targets: Iterable[str]) -> list[str]:
    """The targets as absolute URLs, each once, in order of appearance; what is no web link is left out."""
    urls = dict.fromkeys(join(base, target) for target in targets)
    return [url for url in urls if url is not None]
