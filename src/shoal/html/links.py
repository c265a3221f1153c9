"""Links of a page: what its markup says, and the absolute URLs it means."""

from __future__ import annotations

import re
from collections.abc import Iterable

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.html.xml import XmlNode

# The tags that lead to other pages, and by which attribute.
_LINKS = (("a", "href"), ("area", "href"), ("iframe", "src"), ("frame", "src"))

# "5; url=/next", as the HTML standard reads it: the word "url" may be missing, and a blank may stand for the semicolon.
_REFRESH = re.compile(
    r"[\t\n\f\r ]*+[0-9.]++(?=[\t\n\f\r ;,])[\t\n\f\r ]*+[;,]?+[\t\n\f\r ]*+"
    r"(?:url[\t\n\f\r ]*+=[\t\n\f\r ]*+)?+(.+)",
    re.IGNORECASE | re.DOTALL,
)


def targets_in(tree: LexborHTMLParser) -> list[str]:
    """Where a page leads: its links, the areas of its maps, its frames, and what it says it moves on to."""
    targets = [
        target
        for tag, attribute in _LINKS
        for node in tree.tags(tag)
        if (target := node.attributes.get(attribute))
    ]
    return targets + [target for node in tree.tags("meta") if (target := _refresh_of(node))]


def _refresh_of(node: LexborNode) -> str | None:
    attributes = node.attributes
    if (attributes.get("http-equiv") or "").lower() != "refresh":
        return None
    found = _REFRESH.match(attributes.get("content") or "")
    if found is None:
        return None
    target = found[1]
    quote = target[0]
    return target[1:].partition(quote)[0] if quote in "\"'" else target


def target_of(node: LexborNode | XmlNode) -> str | None:
    """Where an element points: its href or src, as written."""
    if isinstance(node, XmlNode):
        return node.target
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
