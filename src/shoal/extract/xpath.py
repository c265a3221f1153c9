"""XPath, with lxml, which is installed on demand."""

from __future__ import annotations

from typing import Any


def evaluate(html: bytes, expression: str) -> list[Any]:
    """What the expression finds in a UTF-8 document; a single value (count(), string()) is a list of one."""
    try:
        from lxml import etree
        from lxml.html import HTMLParser
    except ImportError:
        raise ImportError("page.xpath() needs lxml: pip install 'shoal[xpath]'") from None
    root = etree.fromstring(html or b"<html/>", HTMLParser(encoding="utf-8"))
    if root is None:  # nothing but blanks or comments
        return []
    try:
        found = root.xpath(expression, smart_strings=False)
    except etree.XPathError as error:
        raise ValueError(f"not an XPath expression: {expression!r} ({error})") from None
    return found if isinstance(found, list) else [found]
