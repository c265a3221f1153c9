"""Feeds: RSS 0.9x, 1.0 and 2.0, Atom, JSON Feed. Their entries and their next page, as they are found. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw, Struct

from shoal.html.json_parts import elements, is_array, scalar
from shoal.html.unpacking import TextPieces
from shoal.html.xml_base import inner_base, resolved
from shoal.html.xml_stream import Element, XmlStream
from shoal.limits import ENTRY_LISTED, ENTRY_TEXT, FEED_JSON, SITEMAP_BYTES, SITEMAP_ENTRIES

_ATOM = ("entry", "link")
_RSS = ("item", "atom:link", "link")
FEED_ENTRIES: dict[str, tuple[str, ...]] = {
    "rss": _RSS,
    "rdf": ("item", "atom:link"),
    "rdf:rdf": ("item", "atom:link"),
    "feed": _ATOM,
    "channel": _RSS,
}
_TITLE = 1_000  # characters of a title or a category
# Of a JSON Feed: as many as a source takes of one. Beyond: left out, and counted once.
_JSON_ITEMS = 10 * SITEMAP_ENTRIES
_OFTEN = 500  # items between two turns for others


class FeedEntry(Struct, frozen=True):
    """What a feed says about a page."""

    url: str
    title: str = ""
    id: str = ""
    published: str = ""  # dates as written
    updated: str = ""
    author: str = ""
    categories: tuple[str, ...] = ()
    enclosures: tuple[dict[str, str], ...] = ()

    @property
    def details(self) -> dict[str, Any]:
        """What there is of it, besides the URL."""
        given = msgspec.to_builtins(self)
        del given["url"]
        return {name: value for name, value in given.items() if value}


class NextPage(Struct, frozen=True):
    """Where a feed goes on (RFC 5005, JSON Feed)."""

    url: str


# What is read of a JSON Feed. A field of the wrong type is passed over, and any may be missing.
class _JsonFeed(Struct):
    items: Raw = Raw()
    next_url: Raw = Raw()


class _JsonItem(Struct):
    id: Raw = Raw()
    url: Raw = Raw()
    external_url: Raw = Raw()
    title: Raw = Raw()
    date_published: Raw = Raw()
    date_modified: Raw = Raw()
    tags: Raw = Raw()
    authors: Raw = Raw()
    author: Raw = Raw()
    attachments: Raw = Raw()


class _JsonAuthor(Struct):
    name: Raw = Raw()


class _JsonAttachment(Struct):
    url: Raw = Raw()
    mime_type: Raw = Raw()


class Feed:
    """Iterates over the entries, and the next page if one is named. See `Sitemap` for what is known after that."""

    def __init__(self, body: bytes, content_type: str = "", *, most: int = SITEMAP_BYTES) -> None:
        self._text = TextPieces(body, content_type, most=most)
        self.kind = ""
        self.broken = self.cut = 0
        self._problem = ""

    @property
    def problem(self) -> str:
        return self._problem or self._text.problem

    def __iter__(self) -> Iterator[FeedEntry | NextPage]:
        return (entry for entry in self.read() if entry is not None)

    def read(self) -> Iterator[FeedEntry | NextPage | None]:
        """The entries, and None from time to time, as `Sitemap.read`."""
        pieces = iter(self._text)
        first = ""
        for piece in pieces:
            first = piece.lstrip("\ufeff \t\r\n")
            if first:
                break
        if first.startswith("{"):
            yield from self._json(first, pieces)
        elif first.startswith("<"):
            stream = XmlStream(chain([first], pieces), FEED_ENTRIES)
            for element in stream:
                entry = feed_entry(element, stream) if element is not None else None
                if isinstance(entry, FeedEntry) and not entry.url:
                    self.broken += 1
                elif entry is not None or element is None:
                    yield entry
            self.cut += stream.cut
            self.kind = stream.root if stream.root in (*FEED_ENTRIES, "html") else "xml"
        else:
            self.kind = "text" if first else "empty"

    def _json(self, first: str, pieces: Iterator[str]) -> Iterator[FeedEntry | NextPage | None]:
        self.kind = "json"
        text, size = bytearray(first.encode("utf-8", "replace")), len(first)
        for piece in pieces:
            text += piece.encode("utf-8", "replace")
            size += len(piece)
            if size > FEED_JSON:
                self._problem = f"JSON of more than {FEED_JSON:,} characters"
                return
        try:
            yield from self._json_entries(text)
        except (msgspec.DecodeError, RecursionError) as error:
            self._problem = f"not JSON: {error}"

    def _json_entries(self, text: bytearray) -> Iterator[FeedEntry | NextPage | None]:
        feed = msgspec.json.decode(text, type=_JsonFeed)
        if not is_array(feed.items):
            self._problem = "no JSON Feed: it has no items"
            return
        for number, item in enumerate(elements(feed.items, _JSON_ITEMS + 1), 1):
            if number > _JSON_ITEMS:
                self.cut += 1
            elif (entry := _json_entry(item)).url:
                yield entry
            else:
                self.broken += 1
            if number % _OFTEN == 0:
                yield None
        if following := _text(feed.next_url):
            yield NextPage(following)


def feed_entry(element: Element, stream: XmlStream) -> FeedEntry | NextPage | None:
    """None: a link of the feed itself."""
    if element.name in ("link", "atom:link"):
        rel = element.attributes.get("rel", "").lower().split()
        href = element.attributes.get("href", "").strip()
        return NextPage(resolved(stream.base, href)) if "next" in rel and href else None
    base = stream.base
    return FeedEntry(
        url=_atom_link(element, base) if element.name == "entry" else _rss_link(element, base),
        title=_clean(element.first("title", "dc:title")),
        id=_clean(element.first("guid", "id", "dc:identifier")),
        published=element.first("pubdate", "published", "issued", "dc:date", "dcterms:issued")[:100],
        updated=element.first("updated", "modified", "dcterms:modified", "lastmod")[:100],
        author=_clean(_author(element)),
        categories=_categories(element),
        enclosures=_enclosures(element, base),
    )


def _atom_link(entry: Element, base: str) -> str:
    """The page of an entry: an alternate link, HTML if there are several; or the identity, if that is a URL."""
    best, found, chosen = 0, "", entry
    for link in entry.all("link"):
        attributes = link.attributes
        href, rel = attributes.get("href", "").strip(), attributes.get("rel", "alternate").lower()
        if not href and (text := link.text.strip()):
            href = text
        kind = attributes.get("type", "text/html").lower()
        score = 3 if rel == "alternate" and "html" in kind else 2 if rel == "alternate" else 0
        if href and score > best:
            best, found, chosen = score, href, link
    if found:
        return _resolved(base, chosen, found)
    identity = entry.first("id")
    return identity if _is_url(identity) else ""


def _rss_link(item: Element, base: str) -> str:
    links = item.all("link")
    for link in links:
        if text := link.text.strip():
            return _resolved(base, link, text)
    for link in links:  # as in Atom, by mistake
        if href := link.attributes.get("href", "").strip():
            return _resolved(base, link, href)
    if about := item.attributes.get("rdf:about", "").strip():
        return resolved(base, about)
    for guid in item.all("guid"):
        if guid.attributes.get("ispermalink", "true").lower() != "false" and _is_url(guid.text.strip()):
            return guid.text.strip()
    return ""


def _is_url(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://")) and len(text.split()) == 1


def _resolved(base: str, element: Element, url: str) -> str:
    """A URL that stands in an element within the entry."""
    return resolved(inner_base(base, element.attributes.get("xml:base", "")), url)


def _author(element: Element) -> str:
    for author in element.all("author"):
        if name := author.first("name") or author.text.strip():
            return name
    return element.first("dc:creator")


def _categories(element: Element) -> tuple[str, ...]:
    found = [
        _clean(child.text.strip() or child.attributes.get("label", "") or child.attributes.get("term", ""))
        for child in element.children
        if child.name in ("category", "dc:subject")
    ]
    return tuple(dict.fromkeys(name for name in found if name))[:ENTRY_LISTED]


def _enclosures(element: Element, base: str) -> tuple[dict[str, str], ...]:
    found = list[dict[str, str]]()
    for child in element.children:
        if len(found) == ENTRY_LISTED:
            break
        attributes = child.attributes
        is_link = child.name == "link" and attributes.get("rel", "").lower() == "enclosure"
        url = attributes.get("href" if is_link else "url", "").strip()
        if url and (is_link or child.name in ("enclosure", "media:content")):
            kept = {
                "url": _resolved(base, child, url),
                "type": attributes.get("type", "")[:100],
                "length": attributes.get("length", "")[:20],
            }
            found.append({name: value for name, value in kept.items() if value})
    return tuple(found)


def _clean(text: str) -> str:
    return " ".join(text.split())[:_TITLE]


def _json_entry(part: memoryview) -> FeedEntry:
    try:
        item = msgspec.json.decode(part, type=_JsonItem)
    except (msgspec.DecodeError, RecursionError):  # a text or a list, say
        return FeedEntry("")
    url = _text(item.url) or _text(item.external_url)
    identity = scalar(item.id)
    name = str(identity) if isinstance(identity, int | float) else _text(item.id)
    if not url and _is_url(name):
        url = name
    return FeedEntry(
        url=url,
        title=_clean(_text(item.title)),
        id=_clean(name),
        published=_text(item.date_published)[:100],
        updated=_text(item.date_modified)[:100],
        author=_clean(_json_author(item)),
        categories=tuple(_json_tags(item)),
        enclosures=tuple(_attachments(item)),
    )


def _json_author(item: _JsonItem) -> str:
    first = next(elements(item.authors, 1), None)
    try:
        author = msgspec.json.decode(item.author if first is None else first, type=_JsonAuthor)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return _text(author.name)


def _json_tags(item: _JsonItem) -> Iterator[str]:
    for tag in elements(item.tags, ENTRY_LISTED):
        if isinstance(text := scalar(tag), str):
            yield _clean(text)


def _attachments(item: _JsonItem) -> Iterator[dict[str, str]]:
    for part in elements(item.attachments, ENTRY_LISTED):
        try:
            one = msgspec.json.decode(part, type=_JsonAttachment)
        except (msgspec.DecodeError, RecursionError):
            continue
        if url := _text(one.url):
            yield {"url": url, "type": _text(one.mime_type)[:100]}


def _text(value: Raw | memoryview) -> str:
    text = scalar(value)
    return text.strip()[:ENTRY_TEXT] if isinstance(text, str) else ""
