"""JSON-LD: the objects that a page describes itself with."""

from __future__ import annotations

import html
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from shoal.html.structured.broken_json import read_json
from shoal.limits import JSONLD_OBJECTS

_TYPE = "application/ld+json"
_WRAPPINGS = (("<!--", "-->"), ("//", ""), ("<![CDATA[", "]]>"), ("", "//"), ("<!--", "-->"))
_ESCAPED_QUOTES = ("&quot;", "&#34;", "&#034;", "&#x22;")


def objects_in(tree: LexborHTMLParser) -> list[dict[str, Any]]:
    """Those of lists and graphs one by one, with the context of their graph. What is not JSON is passed over, but
    broken JSON is read as far as it can be understood."""
    objects: list[dict[str, Any]] = []
    for script in tree.tags("script"):
        kind = (script.attributes.get("type") or "").partition(";")[0].strip().lower()
        if kind == _TYPE:
            for value in _decoded(script.text()):
                _collect(value, objects)
    return objects[:JSONLD_OBJECTS]


def _decoded(text: str) -> list[Any]:
    """Pages have a comment or CDATA mark around it all, a semicolon behind it, and entities for its quotes."""
    text = text.strip(" \t\r\n\f\ufeff\u200b\x00").removesuffix(";")
    for opening, closing in _WRAPPINGS:
        text = text.strip().removeprefix(opening).removesuffix(closing)
    text = text.strip().removesuffix(";")
    if text[:1] not in ("{", "[") and "{" not in text:
        return []
    if '"' not in text and any(quote in text for quote in _ESCAPED_QUOTES):
        text = html.unescape(text)
    return read_json(text)


def _collect(value: object, into: list[dict[str, Any]]) -> None:
    """Lists and graphs may hold further ones, as deep as the decoder allows."""
    waiting = [value]
    while waiting and len(into) < JSONLD_OBJECTS:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, dict):
            graph = one.get("@graph")
            if isinstance(graph, dict):
                graph = [graph]
            if not isinstance(graph, list):
                into.append(one)
                continue
            context = {"@context": one["@context"]} if "@context" in one else {}
            waiting += reversed([context | part if isinstance(part, dict) else part for part in graph])
