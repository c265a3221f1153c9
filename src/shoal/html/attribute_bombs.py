"""Finds tags with so many attributes that parsing them takes forever: n attributes cost n² comparisons.

Where tags begin depends on what comes before: "<a b" may be a tag, or be inside a comment, a script or a quoted
value. Sometimes only the parser knows: <style> holds text in HTML and tags in SVG. So where there are two ways to
read on, both are followed until they meet again, and a tag counts if any of them finds it. All go forward only, and
there are few of them, so the time is linear in the length of the page.
"""

from __future__ import annotations

import re
from heapq import heappop, heappush

MOST_ATTRIBUTES = 500
_MOST_WAYS = 32  # to read a page; ordinary pages have two or three at a time

_NAME = rb"[a-zA-Z][^ \t\n\r\f/>]*+"
# An attribute by the HTML standard. A value whose quote is never closed does not match: the page ends there.
_VALUE = rb"""(?:"[^"]*+"|'[^']*+'|[^ \t\n\r\f>"'][^ \t\n\r\f>]*+|(?=>))"""
_ATTRIBUTE = (
    rb"[ \t\n\r\f/]*+[^ \t\n\r\f/>][^ \t\n\r\f/>=]*+"
    rb"(?:[ \t\n\r\f]*+=[ \t\n\r\f]*+" + _VALUE + rb"|(?![ \t\n\r\f]*+=))"
)
_RAW = rb"(?:script|style|textarea|title|xmp|iframe|noembed|noframes|plaintext)"
_TAG = re.compile(
    rb"<(/?)(%b)(?:%b){0,%d}+[ \t\n\r\f/]*+(>?)" % (_NAME, _ATTRIBUTE, MOST_ATTRIBUTES), re.IGNORECASE
)
_ONE_MORE = re.compile(_ATTRIBUTE)
# What can be read in one way only, in one fast match: text, tags, comments, and a script or title without "<".
_PLAIN_TAG = rb"(?:%b){0,%d}+[ \t\n\r\f/]*+>" % (_ATTRIBUTE, MOST_ATTRIBUTES)
_PLAIN = re.compile(
    rb"(?:[^<]++|<(?![a-zA-Z/!?])"
    rb"|</?[a-zA-Z][a-zA-Z0-9]?+>|</[a-zA-Z][a-zA-Z0-9]*+>"  # most tags, which the next two would match more slowly
    rb"|<(?!%b[ \t\n\r\f/>])%b%b|</%b%b"
    % (_RAW, _NAME, _PLAIN_TAG, _NAME, _PLAIN_TAG)
    + rb"|<!--(?!-?>)[^-]*+(?:-(?!-!?>)[^-]*+)*+--!?>"
    + b"".join(
        rb"|<%b(?=[ \t\n\r\f/>])%b(?=[^<]*+</%b[ \t\n\r\f/>])" % (name, _PLAIN_TAG, name)
        for name in (b"script", b"style", b"textarea", b"title")
    )
    + rb")*+",
    re.IGNORECASE,
)
_IS_RAW = re.compile(_RAW, re.IGNORECASE)

Way = tuple[int, bool]  # how far it has been read, and whether that is inside a script


class _Next:
    """Finds the next match of a pattern. Positions only grow, so that nothing is searched twice."""

    def __init__(self, html: bytes) -> None:
        self._html = html
        self._found: dict[bytes, int] = {}  # -1: no more of it

    def __call__(self, pattern: bytes, at: int) -> int:
        found = self._found.get(pattern, 0)
        if 0 <= found < at or pattern not in self._found:
            match = re.compile(pattern, re.IGNORECASE).search(self._html, at)
            found = self._found[pattern] = match.start() if match else -1
        return found


class _Reader:
    def __init__(self, html: bytes) -> None:
        self._html = html
        self._next = _Next(html)
        self._ways: list[Way] = [(0, False)]

    def crowded(self) -> int | None:
        html, ways = self._html, self._ways
        read = -1  # up to here
        while ways:
            at, in_script = heappop(ways)
            if in_script:  # it may end here, or go on
                self._push(self._script_end(at + 1), in_script=True)
            end = ways[0][0] if ways else len(html)
            if plain := _PLAIN.match(html, at, end):
                at = plain.end()
            if at == end and ways:
                continue  # it has met the next way
            at = html.find(b"<", at)
            if at <= read:
                continue
            read = at
            if len(ways) > _MOST_WAYS or not self._read_on(at):
                return at
        return None

    def _read_on(self, at: int) -> bool:
        """Adds where the markup at `at` may end. False: it is a tag with too many attributes."""
        tag = _TAG.match(self._html, at)
        if tag is None:
            self._read_other(at)
            return True
        if not tag[3]:  # one more attribute, or the page ends in it
            return _ONE_MORE.match(self._html, tag.end()) is None
        self._push(tag.end())
        if not tag[1] and _IS_RAW.fullmatch(tag[2]):
            self._read_raw(tag[2].lower(), tag.end())
        return True

    def _read_raw(self, name: bytes, start: int) -> None:
        if name == b"script":
            end = self._script_end(start)
            self._push(end)
            if 0 <= self._next(b"<!--", start) < end and 0 <= self._next(b"<script", start) < end:
                self._push(self._script_end(end + 1), in_script=True)  # the standard ends it there, or later
        elif name != b"plaintext":
            self._push(self._next(rb"</%b[ \t\n\r\f/>]" % name, start))

    def _read_other(self, at: int) -> None:
        """Comments, declarations, and text that looks like markup."""
        if self._html.startswith(b"<!--", at):
            self._push(self._next(b"--!?>", at + 2))
            return
        if self._html.startswith(b"<![CDATA[", at):
            self._push(self._next(rb"\]\]>", at))
        if self._html.startswith((b"<!", b"<?", b"</"), at):
            self._push(self._next(b">", at))
        else:
            self._push(at + 1)

    def _script_end(self, at: int) -> int:
        return self._next(rb"</script[ \t\n\r\f/>]", at)

    def _push(self, at: int, *, in_script: bool = False) -> None:
        """Negative: the page ends first."""
        if at >= 0 and (at, in_script) not in self._ways:
            heappush(self._ways, (at, in_script))


def crowded_tag(html: bytes) -> int | None:
    """Where the first tag with too many attributes begins; None: there is none."""
    return None if _is_clear(html) else _Reader(html).crowded()


# -- pages of which it is clear at a glance

_SHORT = 2 * MOST_ATTRIBUTES  # an attribute has a name, and something before it
# Where no quoted value has ">" in it, every tag ends at the next one, in whatever way the page is read.
_END_IN_QUOTES = re.compile(rb"""=[ \t\n\r\f]*+(?:"[^">]*+>|'[^'>]*+>)""")
_SHORT_TAGS = re.compile(rb"(?:[^<]*+<[^>]{0,%d}+>)*+[^<]*+" % _SHORT)
_BETWEEN = b" \t\n\r\f/\"'"


def _is_clear(html: bytes) -> bool:
    """Whether no tag is long enough for too many attributes, or those that are have too few blanks between them."""
    if _END_IN_QUOTES.search(html) is not None:
        return False
    at = 0
    while (found := _SHORT_TAGS.match(html, at)) is not None and (at := found.end()) < len(html):
        end = html.find(b">", at) + 1 or len(html)
        tag = html[at:end]
        if len(tag) - len(tag.translate(None, _BETWEEN)) > MOST_ATTRIBUTES:
            return False
        at = end
    return True
