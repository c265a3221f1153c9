"""Feeds: RSS 0.9x, 1.0 and 2.0, Atom, JSON Feed. Their entries and their next page, as they are found. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from shoal.html.unpacking import TextPieces
from shoal.html.xml_stream import Element, XmlStream
from shoal.limits import ENTRY_LISTED, ENTRY_TEXT, FEED_JSON, SITEMAP_BYTES

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

    def _json(self, first: str, pieces: Iterator[str]) -> Iterator[FeedEntry | NextPage]:
        self.kind = "json"
        text, size = [first], len(first)
        for piece in pieces:
            text.append(piece)
            size += len(piece)
            if size > FEED_JSON:
                self._problem = f"JSON of more than {FEED_JSON:,} characters"
                return
        try:
            feed = msgspec.json.decode("".join(text).encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError) as error:
            self._problem = f"not JSON: {error}"
            return
        if not isinstance(feed, dict) or not isinstance(feed.get("items"), list):
            self._problem = "no JSON Feed: it has no items"
            return
        for item in feed["items"]:
            entry = _json_entry(item) if isinstance(item, dict) else FeedEntry("")
            if entry.url:
                yield entry
            else:
                self.broken += 1
        if following := _text(feed.get("next_url")):
            yield NextPage(following)


def feed_entry(element: Element, stream: XmlStream) -> FeedEntry | NextPage | None:
    """None: a link of the feed itself."""
    if element.name in ("link", "atom:link"):
        rel = element.attributes.get("rel", "").lower().split()
        href = element.attributes.get("href", "").strip()
        return NextPage(href) if "next" in rel and href else None
    base = element.attributes.get("xml:base") or stream.root_attributes.get("xml:base", "")
    url = _atom_link(element) if element.name == "entry" else _rss_link(element)
    return FeedEntry(
        url=_joined(base, url),
        title=_clean(element.first("title", "dc:title")),
        id=_clean(element.first("guid", "id", "dc:identifier")),
        published=element.first("pubdate", "published", "issued", "dc:date", "dcterms:issued")[:100],
        updated=element.first("updated", "modified", "dcterms:modified", "lastmod")[:100],
        author=_clean(_author(element)),
        categories=_categories(element),
        enclosures=_enclosures(element),
    )


def _atom_link(entry: Element) -> str:
    """The page of an entry: an alternate link, HTML if there are several; or the identity, if that is a URL."""
    best, found = 0, ""
    for link in entry.all("link"):
        attributes = link.attributes
        href, rel = attributes.get("href", "").strip(), attributes.get("rel", "alternate").lower()
        if not href and (text := link.text.strip()):
            href = text
        kind = attributes.get("type", "text/html").lower()
        score = 3 if rel == "alternate" and "html" in kind else 2 if rel == "alternate" else 0
        if href and score > best:
            best, found = score, href
    identity = entry.first("id")
    return found or (identity if _is_url(identity) else "")


def _rss_link(item: Element) -> str:
    link = item.first("link")
    if not link:  # as in Atom, by mistake
        link = next((one.attributes["href"] for one in item.all("link") if one.attributes.get("href")), "")
    if link:
        return link.strip()
    if about := item.attributes.get("rdf:about", ""):
        return about.strip()
    for guid in item.all("guid"):
        if guid.attributes.get("ispermalink", "true").lower() != "false" and _is_url(guid.text.strip()):
            return guid.text.strip()
    return ""


def _is_url(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://")) and len(text.split()) == 1


def _joined(base: str, url: str) -> str:
    from shoal.html.page_links import join

    return (join(base, url) or url) if base and url else url


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


def _enclosures(element: Element) -> tuple[dict[str, str], ...]:
    found = list[dict[str, str]]()
    for child in element.children:
        attributes = child.attributes
        is_link = child.name == "link" and attributes.get("rel", "").lower() == "enclosure"
        url = attributes.get("href" if is_link else "url", "").strip()
        if url and (is_link or child.name in ("enclosure", "media:content")):
            kept = {
                "url": url,
                "type": attributes.get("type", "")[:100],
                "length": attributes.get("length", "")[:20],
            }
            found.append({name: value for name, value in kept.items() if value})
    return tuple(found[:ENTRY_LISTED])


def _clean(text: str) -> str:
    return " ".join(text.split())[:_TITLE]


def _json_entry(item: dict[str, Any]) -> FeedEntry:
    url = _text(item.get("url")) or _text(item.get("external_url"))
    identity = item.get("id")
    name = str(identity) if isinstance(identity, int | float) else _text(identity)
    if not url and _is_url(name):
        url = name
    tags = item.get("tags")
    return FeedEntry(
        url=url,
        title=_clean(_text(item.get("title"))),
        id=_clean(name),
        published=_text(item.get("date_published"))[:100],
        updated=_text(item.get("date_modified"))[:100],
        author=_clean(_json_author(item)),
        categories=tuple(_clean(tag) for tag in tags if isinstance(tag, str))[:ENTRY_LISTED]
        if isinstance(tags, list)
        else (),
        enclosures=_attachments(item.get("attachments")),
    )


def _json_author(item: dict[str, Any]) -> str:
    authors = item.get("authors")
    one = authors[0] if isinstance(authors, list) and authors else item.get("author")
    return _text(one.get("name")) if isinstance(one, dict) else ""


def _attachments(given: object) -> tuple[dict[str, str], ...]:
    if not isinstance(given, list):
        return ()
    found = list[dict[str, str]]()
    for one in given[:ENTRY_LISTED]:
        if isinstance(one, dict) and (url := _text(one.get("url"))):
            found.append({"url": url, "type": _text(one.get("mime_type"))[:100]})
    return tuple(found)


def _text(value: object) -> str:
    return value.strip()[:ENTRY_TEXT] if isinstance(value, str) else ""
