"""The kind of a document, by its media type and its first bytes."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["html", "xhtml", "xml", "other"]

_HTML = "text/html"
_XHTML = "application/xhtml+xml"
_UNTOLD = frozenset(("", "application/octet-stream", "unknown/unknown", "application/unknown"))
# Types that servers give feeds and sitemaps by mistake. Browsers look for feeds in HTML ("mislabeled feed" in the
# WHATWG's MIME sniffing); no HTML page begins like one.
_MISTAKEN = frozenset((_HTML, "text/plain", *_UNTOLD))
_FEEDS = frozenset((b"rss", b"feed", b"rdf", b"urlset", b"sitemapindex", b"opml"))
_SNIFF = 1024
_MARK = b"\xef\xbb\xbf"  # a byte-order mark
_BLANK = re.compile(rb"\s*+")
_DOCTYPE = re.compile(rb"<!doctype(?![^>]*+\[)[^>]*+>", re.IGNORECASE)  # without an internal subset
_ROOT = re.compile(rb"<(?:[\w.-]++:)?([a-zA-Z_][\w.-]*+)[\s/>]")
# The tags by which the WHATWG's MIME sniffing recognises HTML, and <meta>.
_HTML_TAG = re.compile(
    rb"<(?:!doctype\s++html|html|head|body|script|iframe|style|title|meta|div|table|font|h1|p|a|b|br)\b",
    re.IGNORECASE,
)


def media_type(content_type: str) -> str:
    """In lower case and without parameters; "" if the server gave none."""
    return content_type.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return media == "application/json" or media.endswith("+json")


def is_xml_type(media: str) -> bool:
    return media in ("text/xml", "application/xml") or media.endswith("+xml")


def is_html(media: str, body: bytes) -> bool:
    return kind_of(media, body) in ("html", "xhtml")


def kind_of(media: str, body: bytes) -> Kind:
    """`media` is in lower case, without parameters. "xhtml" is HTML written as XML."""
    head = body[:_SNIFF]
    if is_xml_type(media):
        return "xhtml" if media == _XHTML or _root(head) == b"html" else "xml"
    if media in _MISTAKEN and _root(head) in _FEEDS:
        return "xml"
    if media == _HTML:
        return "html"
    if media not in _UNTOLD:
        return "other"
    start, is_xml = _skip(head)
    if _HTML_TAG.match(head, start):
        return "html"
    return "xml" if is_xml and _root(head) is not None else "other"


def _root(head: bytes) -> bytes | None:
    """The name of the first element, in lower case and without prefix; None if there is none."""
    start, _ = _skip(head)
    if doctype := _DOCTYPE.match(head, start):
        start, _ = _skip(head, doctype.end())
    found = _ROOT.match(head, start)
    return found[1].lower() if found else None


def _skip(head: bytes, at: int = 0) -> tuple[int, bool]:
    """The position after blanks, comments and instructions, and whether an XML declaration was among them.

    Every step starts where the last one ended. As one pattern, in which a comment could end at any later "-->", 140
    empty comments took forever.
    """
    is_xml, at = False, _after_blanks(head, at)
    if head.startswith(_MARK, at):
        at = _after_blanks(head, at + len(_MARK))
    while True:
        if head.startswith(b"<!--", at):
            end = head.find(b"-->", at + 2) + 3
        elif head.startswith(b"<?", at):
            is_xml = is_xml or head[at : at + 5].lower() == b"<?xml"
            end = head.find(b">", at) + 1
        else:
            return at, is_xml
        if end <= at:  # it does not end in here
            return len(head), is_xml
        at = _after_blanks(head, end)


def _after_blanks(head: bytes, at: int) -> int:
    found = _BLANK.match(head, at)
    return found.end() if found else at
