"""Directives of a page for robots: X-Robots-Tag, <meta name="robots">, and links with rel="nofollow". Pure.

By Google's rules, since there is no standard: directives for all and for our agent add up, and "none" means both. Other
directives (noarchive, max-snippet: 20, unavailable_after: …) are for search engines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from selectolax.lexbor import LexborHTMLParser

from shoal.html.page_links import absolute

NOINDEX, NOFOLLOW = "noindex", "nofollow"
_MEANINGS = {NOINDEX: {NOINDEX}, NOFOLLOW: {NOFOLLOW}, "none": {NOINDEX, NOFOLLOW}}
_AGENT = re.compile(r"\s*([a-z_*][a-z0-9_*-]*)\s*:")
_WITH_VALUES = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_EVERYBODY = frozenset({"robots", "*"})


def header_asks(values: Iterable[str], agent: str) -> set[str]:
    """The directives in X-Robots-Tag headers: "noindex", "otherbot: none, shoal: nofollow". `agent` in lower case."""
    asked: set[str] = set()
    for value in values:
        is_ours = True  # until an agent is named
        for part in value.lower().split(","):
            found = _AGENT.match(part)
            if found and found[1] not in _WITH_VALUES:
                is_ours = found[1] == agent or found[1] in _EVERYBODY
                part = part[found.end() :]
            if is_ours:
                asked |= _MEANINGS.get(part.strip(), set())
    return asked


def markup_asks(tree: LexborHTMLParser, agent: str) -> set[str]:
    """The directives in <meta name="robots">, or in one with our name."""
    asked: set[str] = set()
    for node in tree.tags("meta"):
        attributes = node.attributes
        name = (attributes.get("name") or "").strip().lower()
        if name == agent or name in _EVERYBODY:
            for word in (attributes.get("content") or "").lower().replace(",", " ").split():
                asked |= _MEANINGS.get(word, set())
    return asked


def unendorsed(tree: LexborHTMLParser, base: str) -> set[str]:
    """The URLs that the page links to only with rel="nofollow"."""
    links: dict[bool, list[str]] = {True: [], False: []}
    for tag in ("a", "area"):
        for node in tree.tags(tag):
            attributes = node.attributes
            if href := attributes.get("href"):
                links[NOFOLLOW in (attributes.get("rel") or "").lower().split()].append(href)
    return set(absolute(base, links[True])) - set(absolute(base, links[False]))
