"""Looks for an encoding in the first bytes of a document, as the HTML standard says ("prescan a byte stream").

Every step starts where the last one ended, and the patterns are possessive: the time grows with the bytes, whatever
they are. A step that finds no end means that the bytes end there, and nothing is declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

_BLANK = {b"b": rb"\t\n\f\r "}
_META = re.compile(rb"<meta[%(b)b/]" % _BLANK, re.IGNORECASE)
_TAG_NAME = re.compile(rb"</?[a-zA-Z][^%(b)b>]*+" % _BLANK)
_TAG_END = re.compile(rb"[%(b)b/]*+>" % _BLANK)
# A name may begin with "=". A value that begins with ">" is empty, and the tag ends there.
_ATTRIBUTE = re.compile(
    rb"""
    [%(b)b/]*+ (?P<name> [^%(b)b/>][^%(b)b/>=]*+ )
    (?:
        [%(b)b]*+ = [%(b)b]*+
        (?: "(?P<double>[^"]*+)" | '(?P<single>[^']*+)' | (?P<bare>[^%(b)b>"'][^%(b)b>]*+) | (?=>) )
    |
        (?! [%(b)b]*+ = )
    )
    """.replace(b" ", b"").replace(b"\n", b"")
    % _BLANK
)
_CHARSET = re.compile(rb"charset[%(b)b]*+=[%(b)b]*+" % _BLANK, re.IGNORECASE)
_LABEL = re.compile(rb"""(?:"([^"]*+)"|'([^']*+)'|([^%(b)b;"'][^%(b)b;]*+))""" % _BLANK)
_XML_LABEL = re.compile(rb"""[\0-\x20]*+=[\0-\x20]*+(?:"([^"\0-\x20]*+)"|'([^'\0-\x20]*+)')""")
_UTF16 = ((b"<\0?\0x\0", "utf-16le"), (b"\0<\0?\0x", "utf-16be"))

Lookup = Callable[[bytes], str | None]  # from a label to the name of an encoding


class _Meta(Struct):
    """What the attributes of a <meta> say."""

    encoding: str | None = None  # "" is one that does not exist
    needs_pragma: bool = False
    has_pragma: bool = False  # http-equiv="content-type"


def prescan(head: bytes, lookup: Lookup) -> str | None:
    """The encoding that a <meta> declares, or else an XML declaration at the very beginning."""
    return utf16_xml(head) or _declared(head, lookup) or xml_encoding(head, lookup)


def utf16_xml(head: bytes) -> str | None:
    """UTF-16 without a byte-order mark, where an XML declaration shows it."""
    return next((name for start, name in _UTF16 if head.startswith(start)), None)


def xml_encoding(head: bytes, lookup: Lookup) -> str | None:
    """The encoding that an XML declaration names."""
    end = head.find(b">") if head.startswith(b"<?xml") else -1
    at = head.find(b"encoding", 0, end) if end > 0 else -1
    found = _XML_LABEL.match(head, at + len(b"encoding"), end) if at >= 0 else None
    return _readable(lookup(found[1] or found[2] or b"")) if found else None


def _declared(head: bytes, lookup: Lookup) -> str | None:
    at = 0
    while (at := head.find(b"<", at)) >= 0:
        meta = None
        if head.startswith(b"<!--", at):
            end = _past(head, b"-->", at + 2)  # "<!-->" is a comment, too
        elif _META.match(head, at):
            meta = _Meta()
            end = _read_attributes(head, at + len(b"<meta"), meta, lookup)
        elif tag := _TAG_NAME.match(head, at):
            end = _read_attributes(head, tag.end())
        elif head.startswith((b"<!", b"</", b"<?"), at):
            end = _past(head, b">", at)
        else:
            end = at + 1
        if end < 0:
            return None
        if meta is not None and meta.encoding and (meta.has_pragma or not meta.needs_pragma):
            return "windows-1252" if meta.encoding == "x-user-defined" else _readable(meta.encoding)
        at = end
    return None


def _past(head: bytes, mark: bytes, at: int) -> int:
    found = head.find(mark, at)
    return found + len(mark) if found >= 0 else -1


def _read_attributes(head: bytes, at: int, meta: _Meta | None = None, lookup: Lookup | None = None) -> int:
    """Up to the end of the tag; -1: the bytes end in it."""
    seen = set[bytes]()
    while found := _ATTRIBUTE.match(head, at):
        at = found.end()
        if meta is not None and lookup is not None and (name := found["name"].lower()) not in seen:
            seen.add(name)
            _take(meta, name, found["double"] or found["single"] or found["bare"] or b"", lookup)
    end = _TAG_END.match(head, at)
    return end.end() if end else -1


def _take(meta: _Meta, name: bytes, value: bytes, lookup: Lookup) -> None:
    match name:
        case b"http-equiv":
            meta.has_pragma = value.lower() == b"content-type"
        case b"charset":
            meta.encoding, meta.needs_pragma = lookup(value) or "", False
        case b"content" if meta.encoding is None and (encoding := lookup(_label_in(value))):
            meta.encoding, meta.needs_pragma = encoding, True


def _label_in(content: bytes) -> bytes:
    """Of "text/html; charset=utf-8"; empty if there is none."""
    found = _CHARSET.search(content)
    label = _LABEL.match(content, found.end()) if found else None
    return label[1] or label[2] or label[3] or b"" if label else b""


def _readable(encoding: str | None) -> str | None:
    """What says so in ASCII is not in UTF-16."""
    return "utf-8" if encoding in ("utf-16le", "utf-16be") else encoding
