"""Directives of a page for robots: X-Robots-Tag, <meta name="robots">, and links with rel="nofollow". Pure.

By Google's rules, since there is no standard: directives for all and for our agent add up, and "none" means noindex and
nofollow. "nocache" is Bing's word for noarchive. Other directives (max-snippet: 20, unavailable_after: …) are for
search engines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from selectolax.lexbor import LexborHTMLParser

from shoal.html.page_links import absolute
from shoal.text import writable

NOINDEX, NOFOLLOW, NOARCHIVE = "noindex", "nofollow", "noarchive"
_MEANINGS = {
    NOINDEX: {NOINDEX},
    NOFOLLOW: {NOFOLLOW},
    "none": {NOINDEX, NOFOLLOW},
    NOARCHIVE: {NOARCHIVE},
    "nocache": {NOARCHIVE},
}
_SHOWN = 50  # directives of a page, for people to look at
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


def directives(headers: Iterable[str], tree: LexborHTMLParser | None) -> list[str]:
    """All that a page asks of robots, as it is written, each once: for audits. What is for one robot names it, as in
    "googlebot: nofollow"."""
    found: dict[str, None] = {}
    for value in headers:
        agent = ""
        for part in value.lower().split(","):
            named = _AGENT.match(part)
            if named and named[1] not in _WITH_VALUES:
                agent = "" if named[1] in _EVERYBODY else f"{named[1]}: "
                part = part[named.end() :]
            _note(found, agent, part)
    for node in tree.tags("meta") if tree is not None else ():
        attributes = node.attributes
        name = (attributes.get("name") or "").strip().lower()
        if name in _EVERYBODY or name.endswith("bot"):
            for part in (attributes.get("content") or "").lower().split(","):
                _note(found, "" if name in _EVERYBODY else f"{name}: ", part)
    return list(found)


def _note(found: dict[str, None], agent: str, directive: str) -> None:
    said = writable(" ".join(directive[:400].split())[:100])  # a header may hold any bytes
    if said and len(found) < _SHOWN:
        found[f"{agent[:100]}{said}"] = None


def unendorsed(tree: LexborHTMLParser, base: str) -> set[str]:
    """The URLs that the page links to only with rel="nofollow"."""
    links: dict[bool, list[str]] = {True: [], False: []}
    for tag in ("a", "area"):
        for node in tree.tags(tag):
            attributes = node.attributes
            if href := attributes.get("href"):
                links[NOFOLLOW in (attributes.get("rel") or "").lower().split()].append(href)
    return set(absolute(base, links[True])) - set(absolute(base, links[False]))
