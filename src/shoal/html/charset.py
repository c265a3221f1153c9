"""Which character encoding a body is in, as browsers decide it. Nothing in here raises, whatever the bytes are.

A byte-order mark comes first, then the Content-Type header, then what the document says of itself (see `prescan`).
What says nothing is UTF-8 if it can be, and otherwise looked at more closely (see `guessing`): a browser would take it
for windows-1252, or ask.
"""

from __future__ import annotations

import re
from functools import lru_cache

from webencodings.labels import LABELS  # type: ignore[import-untyped]

from shoal.html.decoding import UTF8, codec_for, mark_of
from shoal.html.detection import guess
from shoal.html.media import is_json, is_xml_type, media_type
from shoal.html.prescan import prescan, utf16_xml, xml_encoding

_PRESCAN = 1024  # where the HTML standard stops looking ahead for <meta charset>
_LATE = 64 * 1024  # … and the parser may still meet one: then browsers start anew
_LATE_META = re.compile(rb"<meta[\t\n\f\r /]", re.IGNORECASE)
_LONGEST_HEADER = 1024  # characters of a Content-Type that are looked at
_LONGEST_LABEL = 40  # twice the longest there is
_HEADER_CHARSET = re.compile(r"""(?:^|[;,\s])charset\s*+=\s*+["']?\s*+([^\s"';,]++)""", re.IGNORECASE)
# Labels that servers send though no browser knows them. Python's other names are none of the web's.
_ALSO = {
    "cp874": "windows-874",
    "cp932": "shift_jis",
    "cp936": "gbk",
    "cp949": "euc-kr",
    "cp950": "big5",
    "eucjp": "euc-jp",
    "latin-1": "windows-1252",
    "utf_8": "utf-8",
}
_BLANK = "\t\n\f\r "


@lru_cache(maxsize=256)
def encoding_named(label: str) -> str | None:
    """The WHATWG's name of the encoding that a server or page calls `label`; None if there is none."""
    if len(label) > _LONGEST_LABEL or not label.isascii():
        return None
    label = label.strip(_BLANK).lower()
    return LABELS.get(label) or _ALSO.get(label)


def codec_named(label: str) -> str | None:
    """Python's name of the encoding; None if it is none of the web's."""
    name = encoding_named(label)
    return None if name is None else codec_for(name)


def codec_of(body: bytes, content_type: str = "") -> str:
    """The encoding of a body, by Python's name (or "x-user-defined" or "replacement", which Python has not)."""
    return (
        mark_of(body) or _codec_of_header(content_type[:_LONGEST_HEADER]) or _codec_inside(body, content_type)
    )


@lru_cache(maxsize=256)
def _codec_of_header(content_type: str) -> str | None:
    found = _HEADER_CHARSET.search(content_type)
    return codec_named(found[1]) if found else None


def _codec_inside(body: bytes, content_type: str) -> str:
    """By what the document says, or looks like."""
    media = media_type(content_type)
    if is_json(media):
        return UTF8  # always, by its standard
    declared = _xml_declared(body) if is_xml_type(media) else _html_declared(body)
    if declared is not None:
        return codec_for(declared)
    return UTF8 if is_xml_type(media) and body.isascii() else guess(body)


def _html_declared(body: bytes) -> str | None:
    declared = prescan(body[:_PRESCAN], _lookup)
    if declared is None and _LATE_META.search(body, _PRESCAN - 5, _LATE):
        return prescan(body[:_LATE], _lookup)
    return declared


def _xml_declared(body: bytes) -> str | None:
    """Blanks in front of the declaration are a mistake that feeds make."""
    head = body[:_PRESCAN].lstrip()
    return utf16_xml(head) or xml_encoding(head, _lookup)


def _lookup(label: bytes) -> str | None:
    return encoding_named(label.decode("latin-1"))
