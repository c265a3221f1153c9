"""What kind of document a body is."""

from __future__ import annotations

import re

_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
_UNTOLD = frozenset(("", "application/octet-stream", "unknown/unknown", "application/unknown"))
_SNIFF = 1024
_XML = b"<?xml"
_BLANK = re.compile(rb"\s*+")
_MARK = re.compile(rb"\s*+(?:\xef\xbb\xbf)?+\s*+")  # a byte-order mark
# The tags by which the WHATWG's MIME sniffing knows HTML, and <meta>.
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


def is_html(media_type: str, body: bytes) -> bool:
    """By its media type (lower case, without parameters); if that says nothing, by how the body begins."""
    if media_type in _HTML_TYPES:
        return True
    return media_type in _UNTOLD and _begins_like_html(body[:_SNIFF])


def _begins_like_html(head: bytes) -> bool:
    """Whether the first thing that is no comment and no XML declaration is a tag of HTML.

    Every step starts where the last one ended. As one pattern, in which a comment could end at any later "-->", 140
    empty comments kept a crawl busy for ever.
    """
    at = _after(_MARK, head, 0)
    while True:
        if head.startswith(b"<!--", at):
            end = head.find(b"-->", at + 2) + 3
        elif head[at : at + len(_XML)].lower() == _XML:
            end = head.find(b">", at) + 1
        else:
            return _HTML_TAG.match(head, at) is not None
        if end <= at:  # it does not end in here
            return False
        at = _after(_BLANK, head, end)


def _after(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
