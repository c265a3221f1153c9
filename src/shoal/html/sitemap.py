"""Sitemaps: what a site says that its pages are. All forms that the protocol knows, as they are found. Pure.

    urlset, sitemapindex    XML, with the extensions for images, videos, news and translations
    RSS, Atom               a feed may stand for a sitemap
    text                    one URL a line
    robots.txt              names sitemaps

Any of them may be a gzip file. Entries are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from msgspec import Struct

from shoal.html.feed import FEED_ENTRIES, FeedEntry, feed_entry
from shoal.html.unpacking import TextPieces
from shoal.html.xml_stream import Element, XmlStream
from shoal.limits import ENTRY_LISTED, ENTRY_TEXT, SITEMAP_BYTES

_NAMES = ("url", "sitemap")
_ENTRIES = {"urlset": _NAMES, "sitemapindex": _NAMES, "": _NAMES, **FEED_ENTRIES}
_START = re.compile(r"[\s\ufeff]*+")
_ROBOTS_LINE = re.compile(r"[\s\ufeff]*+sitemap[ \t]*+:[ \t]*+([^\s#]++)", re.IGNORECASE)
_NO_URL = re.compile(r"[\s<>\"]")
_LISTS = {"image:image": "images", "video:video": "videos"}
_PLAIN = {"lastmod": "lastmod", "changefreq": "changefreq", "priority": "priority"}


class SitemapEntry(Struct, frozen=True):
    """A page, or another sitemap."""

    url: str
    is_sitemap: bool = False
    lastmod: str = ""  # as written
    details: dict[str, Any] = {}  # what else is said about it: images, videos, news, alternates …


class Sitemap:
    """Iterates over the entries. After that, `kind` says what it was ("html": a page, and no sitemap), `broken` how
    many entries had no URL, `cut` of how many something was left out, and `problem` why it was not read to its end."""

    def __init__(self, body: bytes, content_type: str = "", *, most: int = SITEMAP_BYTES) -> None:
        self._text = TextPieces(body, content_type, most=most)
        self.kind = ""
        self.broken = self.cut = 0

    @property
    def problem(self) -> str:
        return self._text.problem

    def __iter__(self) -> Iterator[SitemapEntry]:
        return (entry for entry in self.read() if entry is not None)

    def read(self) -> Iterator[SitemapEntry | None]:
        """The entries, and None from time to time: whoever reads a hostile file can do something else meanwhile."""
        pieces = iter(self._text)
        first = ""
        for piece in pieces:
            first = piece[_begin(piece) :]
            if first:
                break
        if first.startswith("<"):
            yield from self._xml(chain([first], pieces))
        elif first:
            yield from self._lines(chain([first], pieces))
        else:
            self.kind = "empty"

    def _xml(self, pieces: Iterable[str]) -> Iterator[SitemapEntry | None]:
        stream = XmlStream(pieces, _ENTRIES)
        for element in stream:
            if element is None:
                yield None
                continue
            entry = _entry(element, stream)
            if entry is not None and entry.url:
                yield entry
            elif entry is not None:
                self.broken += 1
        self.cut += stream.cut
        self.kind = stream.root if stream.root in _ENTRIES else "html" if stream.root == "html" else "xml"
        if stream.root in _NAMES:
            self.kind = "urlset"

    def _lines(self, pieces: Iterable[str]) -> Iterator[SitemapEntry | None]:
        self.kind = "text"
        for line in text_lines(pieces):
            if line is None:
                yield None
                continue
            url = line.strip()
            if not url or url.startswith("#"):
                continue
            if url.lower().startswith(("http://", "https://")) and not _NO_URL.search(url):
                yield SitemapEntry(url)
            else:
                self.broken += 1


def sitemaps_in(robots: bytes, *, most: int) -> list[str]:
    """The sitemaps that a robots.txt names, each once."""
    lines = text_lines(TextPieces(robots[:most], most=most))
    found = (_ROBOTS_LINE.match(line) for line in lines if line)
    return list(dict.fromkeys(match[1] for match in found if match))


def text_lines(pieces: Iterable[str]) -> Iterator[str | None]:
    """The lines of a text, each cut to what an entry may have; None where a piece ends."""
    rest = ""
    for piece in pieces:
        lines = (rest + piece).replace("\r", "\n").split("\n")
        rest = lines.pop()[: ENTRY_TEXT + 1]
        yield from lines
        yield None
    if rest:
        yield rest


def _begin(piece: str) -> int:
    found = _START.match(piece)
    return found.end() if found else 0


def _entry(element: Element, stream: XmlStream) -> SitemapEntry | None:
    """None: nothing that an entry is made of."""
    if element.name in _NAMES:
        return _sitemap_entry(element)
    read = feed_entry(element, stream)
    if not isinstance(read, FeedEntry):
        return None
    return SitemapEntry(read.url, lastmod=read.updated or read.published, details=read.details)


def _sitemap_entry(element: Element) -> SitemapEntry:
    url, lastmod, details = "", "", dict[str, Any]()
    for child in element.children:
        name = child.name
        if name == "loc":
            url = url or child.text.strip()
        elif name in _PLAIN:
            if text := child.text.strip():
                details.setdefault(_PLAIN[name], text)
        elif name in _LISTS:
            _listed(details, _LISTS[name], _fields(child))
        elif name == "news:news":
            details.setdefault("news", _fields(child))
        elif name == "xhtml:link":
            _listed(details, "alternates", _alternate(child))
    lastmod = details.get("lastmod", "")
    if not url and element.text.strip().startswith("http"):
        url = element.text.strip()  # <url>https://…</url>
    return SitemapEntry(url, element.name == "sitemap", lastmod, details)


def _listed(details: dict[str, Any], name: str, value: dict[str, Any]) -> None:
    known = details.setdefault(name, [])
    if value and len(known) < ENTRY_LISTED:
        known.append(value)


def _fields(element: Element) -> dict[str, Any]:
    """The children of an extension as a dict; what stands there twice is a list."""
    fields: dict[str, Any] = {}
    for child in element.children:
        name = child.name.rpartition(":")[2]
        value = child.text.strip() or _fields(child)
        if not value:
            continue
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields


def _alternate(element: Element) -> dict[str, Any]:
    attributes = element.attributes
    if not (href := attributes.get("href", "").strip()):
        return {}
    kept = {"hreflang": attributes.get("hreflang", ""), "media": attributes.get("media", ""), "href": href}
    return {name: value for name, value in kept.items() if value}
