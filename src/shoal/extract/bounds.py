"""How much of a page may be parsed: HTML parsers have shapes of input on which they take forever.

Three of them matter. Elements nested n deep cost n² steps, because the parser searches the open elements at every
tag. A tag with n attributes costs n² comparisons. And n unclosed formatting elements (<b id=1><b id=2>…) are opened
anew in every following block, which also costs memory. Ordinary pages are recognised by counting and pass whole; of
others the work is estimated tag by tag, and the tail that would cost more than a page may is left out.
"""

from __future__ import annotations

import re

_SMALL = 32 * 1024  # bytes that cannot hold enough attributes to matter
_FEW_TAGS = 1_000  # no arrangement of so few tags takes longer than some milliseconds
_SOME_TAGS = 16_000  # nesting so many takes less than half a second
_FEW_FORMATS = 100

# Estimated nanoseconds of parsing: what one page may take, and what a tag costs.
_BUDGET = 1_000_000_000
_PER_LEVEL = 4
_PER_FORMAT = 500

_FORMATS = frozenset(b"b big code em font i s small strike strong tt u".split())
_FORMAT = re.compile(rb"<(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)[\s/][^>]*", re.IGNORECASE)
_TAG = re.compile(rb"<(/?)([a-z][^\s/>]*)([^>]*)", re.IGNORECASE)
# More than 500 attributes. Possessive, so that a tag with fewer is left at once instead of tried in other ways.
_CROWDED = re.compile(
    rb"""<[a-z][^\s/>]*+(?:[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+){500}""",
    re.IGNORECASE,
)
# Elements that hold nothing, or end by themselves where the next of their kind begins.
_FLAT = frozenset(
    b"area base br col embed hr img input link meta source track wbr html head body p li dt dd tr td th thead tbody"
    b" tfoot option optgroup colgroup caption rp rt".split()
)


def bounded(html: bytes) -> bytes:
    """`html`, without the tail that a parser would take forever for. Nearly always all of it."""
    tags = html.count(b"<")
    if tags <= _FEW_TAGS and len(html) <= _SMALL:
        return html
    if crowded := _CROWDED.search(html):
        html = html[: crowded.start()]
    if tags <= _SOME_TAGS and len(set(_FORMAT.findall(html))) <= _FEW_FORMATS:
        return html
    return html[: _affordable(html)]


def _affordable(html: bytes) -> int:
    """The length of the part whose parsing fits the budget."""
    depth = formats = work = 0
    for tag in _TAG.finditer(html):
        closing, name, rest = tag.groups()
        name = name.lower()
        if name not in _FLAT and not rest.endswith(b"/"):
            depth = max(0, depth - 1) if closing else depth + 1
        if name in _FORMATS:
            formats = max(0, formats - 1) if closing else formats + 1
        work += depth * _PER_LEVEL + formats * _PER_FORMAT
        if work > _BUDGET:
            return tag.start()
    return len(html)
