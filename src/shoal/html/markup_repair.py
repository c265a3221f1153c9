"""Repairs XML so that parsers accept it, removes what is dangerous, and turns XHTML into HTML. One pass, forward only.

Feeds have unescaped "&", entities of HTML, and control characters; a strict parser fails there, and a lenient one drops
the text around them. Document types are removed: their entities can expand without end or name other files. References
to such entities stay as they are written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from html import escape, unescape

from shoal.html.parsing import stopwatch

# Matches are handled one by one, so references that are certainly valid do not match. "<!" that begins no comment,
# CDATA or document type is text.
_RIGHT = rb"&(?:amp|lt|gt|quot|apos|#(?:3[2-9]|[4-9]\d|1[01]\d|12[0-7]|1[6-9]\d|[2-9]\d\d|[1-9]\d{3}));"
_ODD = re.compile(
    rb"<!\[CDATA\[|<!--|<\?|<!(?i:doctype)(?=[\s\[>])|<(?![a-zA-Z_:/\x80-\xff])|\]\]>|(?!%b)&" % _RIGHT
)
_REFERENCE = re.compile(rb"&(?:#[0-9]{1,10}|#[xX][0-9a-fA-F]{1,8}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_ENDS = {b"<![CDATA[": b"]]>", b"<!--": b"-->", b"<?": b"?>"}
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\r"})
_IN_DOCTYPE = re.compile(rb"""[^\[\]<>"']++|"[^"]*+"|'[^']*+'|<!--|<|\[|\]|>""")
_OFTEN = 1_000  # matches between two looks at the clock
_ESCAPED = {"<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "'": "&apos;"}
_NO_CHARACTER = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def mend(xml: bytes, is_over: Callable[[int], bool] = lambda at: False) -> tuple[bytes, bool]:
    """The repaired document from its first tag on, and whether it is complete. What is never closed goes on to the end.

    `is_over` says whether the time for so many bytes is used up.
    """
    xml = xml.translate(None, _CONTROLS)
    at = max(xml.find(b"<"), 0)
    parts = list[bytes]()
    for count in itertools.count(1):
        found = _ODD.search(xml, at)
        if found is None:
            break
        if count % _OFTEN == 0 and is_over(at):
            return b"".join(parts), False
        parts.append(xml[at : found.start()])
        what = found[0]
        if what.upper() == b"<!DOCTYPE":
            at = _after_doctype(xml, found.end())
        elif what in _ENDS:
            at = _after(xml, _ENDS[what], found.end())
            parts.append(_whole(what, xml[found.start() : at]))
        elif what == b"&" and (reference := _REFERENCE.match(xml, found.start())):
            at = reference.end()
            parts.append(_character(reference[0].decode()))
        else:
            at = found.end()
            parts.append({b"<": b"&lt;", b"&": b"&amp;"}.get(what, b"]]&gt;"))
    parts.append(xml[at:])
    return b"".join(parts), True


def _whole(what: bytes, section: bytes) -> bytes:
    """CDATA as escaped text, because within an attribute it has no meaning. Comments and instructions are dropped:
    their content breaks parsers."""
    if what != b"<![CDATA[":
        return b""
    text = section[len(what) :].removesuffix(b"]]>")
    return text.replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b">", b"&gt;")


def _after(xml: bytes, end: bytes, at: int) -> int:
    found = xml.find(end, at)
    return found + len(end) if found >= 0 else len(xml)


def _after_doctype(xml: bytes, at: int) -> int:
    """Its end is the first ">" that is not in brackets or quotes."""
    depth = 0
    while found := _IN_DOCTYPE.match(xml, at):
        at = found.end()
        match found[0]:
            case b"<!--":
                at = _after(xml, b"-->", at)
            case b"[":
                depth += 1
            case b"]":
                depth -= 1
            case b">" if depth <= 0:
                return at
    return len(xml)


def _character(reference: str) -> bytes:
    """The character of an HTML entity or a number. An unknown name stays as it is written."""
    text = _NO_CHARACTER.sub("\ufffd", unescape(reference))
    if text == reference:
        return reference.replace("&", "&amp;").encode()
    return "".join(_ESCAPED.get(sign, sign) for sign in text).encode()


# -- XHTML as HTML
#
# An HTML parser takes "<script/>" for a script that never ends, and CDATA for a comment. As HTML, XHTML has the same
# selectors, links, nodes and budget of time.


_VOID = rb"(?i:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)"
_NAME = rb"[a-zA-Z][^\s/>]*+"
_INSIDE = rb"""(?:[^"'<>/]++|"[^"]*+"|'[^']*+'|/(?!>))*+"""
_RAW = rb"(?i:script|style)"
# What stays as it is, in one fast match.
_PLAIN = re.compile(
    rb"(?:[^<]++|<(?!%b[\s/>])%b%b>|<%b(?=[\s/])%b/>|</[^>]*+>|<(?![a-zA-Z/!]))*+"
    % (_RAW, _NAME, _INSIDE, _VOID, _INSIDE)
)
_TAG = re.compile(rb"<(?P<name>%b)%b(?P<end>/?>)" % (_NAME, _INSIDE))


def as_html(xhtml: bytes) -> bytes:
    """XHTML as HTML. After markup that is never closed, or when the time is up, the rest stays as it is."""
    parts, at, is_over = list[bytes](), 0, stopwatch()
    for count in itertools.count(1):
        plain = _PLAIN.match(xhtml, at)
        assert plain is not None  # it may be empty
        parts.append(plain[0])
        at = plain.end()
        end, text = _odd(xhtml, at)
        if end < 0 or (count % _OFTEN == 0 and is_over(at)):
            break
        parts.append(text)
        at = end
    return b"".join(parts) + xhtml[at:]


def _odd(xhtml: bytes, at: int) -> tuple[int, bytes]:
    """Where the markup at `at` ends, and its HTML; -1: it does not end."""
    if xhtml.startswith(b"<![CDATA[", at):
        end = _past(xhtml, b"]]>", at)
        text = xhtml[at + len(b"<![CDATA[") : end - len(b"]]>")]
        return end, escape(text.decode("utf-8", "replace"), quote=False).encode()
    if xhtml.startswith(b"<!--", at):
        end = _past(xhtml, b"-->", at)
        return end, xhtml[at:end]
    if xhtml.startswith(b"<!", at):
        end = _past(xhtml, b">", at)
        return end, xhtml[at:end]
    tag = _TAG.match(xhtml, at)
    if tag is None:
        return -1, b""
    name = tag["name"]
    if tag["end"] == b"/>":
        return tag.end(), b"%b></%b>" % (tag[0][:-2], name)
    end = xhtml.find(b"</" + name, tag.end())  # of a script: "<" is text in it for an HTML parser
    return end, xhtml[at:end]


def _past(xhtml: bytes, mark: bytes, at: int) -> int:
    found = xhtml.find(mark, at)
    return found + len(mark) if found >= 0 else -1
