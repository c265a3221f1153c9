"""XPath, with lxml, which is installed on demand.

lxml is given the same budget as lexbor (see `parsing`): what is not small is read in pieces first. Its parser stops at
256 nested elements, which is why it takes long for few things; nested deeper, a page is only seen by `page.css`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from shoal.html.attribute_bombs import crowded_tag
from shoal.html.parsing import allowance

_SMALL = 24 * 1024  # bytes
_PIECE = 4 * 1024
_SLOWER = 2  # … than lexbor, for ordinary pages


def evaluate(
    html: bytes, expression: str, namespaces: Mapping[str, str] | None = None
) -> tuple[list[Any], int]:
    """What the expression finds in a UTF-8 document, and how many bytes of that were read.

    A single value (count(), string()) is a list of one.
    """
    try:
        from lxml import etree
        from lxml.html import HTMLParser
    except ImportError:
        raise ImportError("page.xpath() needs lxml: pip install 'shoal[xpath]'") from None
    kept = _affordable(html, HTMLParser(encoding="utf-8"))
    root = etree.fromstring(html[:kept] or b"<html/>", HTMLParser(encoding="utf-8"))
    if root is None:  # nothing but blanks or comments
        return [], kept
    try:
        found = root.xpath(expression, namespaces=dict(namespaces or {}), smart_strings=False)
    except etree.XPathError as error:
        raise ValueError(f"not an XPath expression: {expression!r} ({error})") from None
    return (found if isinstance(found, list) else [found]), kept


def _affordable(html: bytes, parser: Any) -> int:
    """How many bytes can be parsed in the time that a page has."""
    if len(html) <= _SMALL:
        return len(html)
    html = html[: crowded_tag(html)]
    began = time.thread_time()
    for at in range(0, len(html), _PIECE):
        parser.feed(html[at : at + _PIECE])
        if time.thread_time() - began > _SLOWER * allowance(at):
            return at
    return len(html)
