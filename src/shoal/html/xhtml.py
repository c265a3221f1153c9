"""XHTML as HTML: a parser of HTML takes "<script/>" for a script that never ends, and CDATA for a comment.

Then all that HTML has holds for it: selectors, links, the same nodes, and the budget of time.
"""

from __future__ import annotations

import itertools
import re
from html import escape

from shoal.html.parsing import stopwatch

_VOID = rb"(?i:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)"
_OFTEN = 1_000  # things found between two looks at the clock
_NAME = rb"[a-zA-Z][^\s/>]*+"
_INSIDE = rb"""(?:[^"'<>/]++|"[^"]*+"|'[^']*+'|/(?!>))*+"""
_RAW = rb"(?i:script|style)"
# What is left as it is, at the speed of C.
_PLAIN = re.compile(
    rb"(?:[^<]++|<(?!%b[\s/>])%b%b>|<%b(?=[\s/])%b/>|</[^>]*+>|<(?![a-zA-Z/!]))*+"
    % (_RAW, _NAME, _INSIDE, _VOID, _INSIDE)
)
_TAG = re.compile(rb"<(?P<name>%b)%b(?P<end>/?>)" % (_NAME, _INSIDE))


def as_html(xhtml: bytes) -> bytes:
    """In one pass, forward only. From what begins and does not end, or when the time is up, all is left as it is."""
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
    """Where the markup at `at` ends, and what it is in HTML; -1: it does not end."""
    if xhtml.startswith(b"<![CDATA[", at):
        end = _after(xhtml, b"]]>", at)
        text = xhtml[at + len(b"<![CDATA[") : end - len(b"]]>")]
        return end, escape(text.decode("utf-8", "replace"), quote=False).encode()
    if xhtml.startswith(b"<!--", at):
        end = _after(xhtml, b"-->", at)
        return end, xhtml[at:end]
    if xhtml.startswith(b"<!", at):
        end = _after(xhtml, b">", at)
        return end, xhtml[at:end]
    tag = _TAG.match(xhtml, at)
    if tag is None:
        return -1, b""
    name = tag["name"]
    if tag["end"] == b"/>":
        return tag.end(), b"%b></%b>" % (tag[0][:-2], name)
    end = xhtml.find(b"</" + name, tag.end())  # of a script: in here "<" is text to a parser of HTML
    return end, xhtml[at:end]


def _after(xhtml: bytes, mark: bytes, at: int) -> int:
    found = xhtml.find(mark, at)
    return found + len(mark) if found >= 0 else -1
