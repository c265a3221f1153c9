"""JSON-LD: the objects that a page describes itself with."""

from __future__ import annotations

import json
from typing import Any

from selectolax.lexbor import LexborHTMLParser

_TYPE = "application/ld+json"
_WRAPPINGS = (("<!--", "-->"), ("//", ""), ("<![CDATA[", "]]>"), ("", "//"), ("<!--", "-->"))
_MOST = 10_000  # objects of a page


def objects_in(tree: LexborHTMLParser) -> list[dict[str, Any]]:
    """Those of lists and graphs one by one, with the context of their graph. What is not JSON is passed over."""
    objects: list[dict[str, Any]] = []
    for script in tree.tags("script"):
        kind = (script.attributes.get("type") or "").partition(";")[0].strip().lower()
        if kind == _TYPE:
            _collect(_decoded(script.text()), objects)
    return objects[:_MOST]


def _decoded(text: str) -> object:
    """Pages have line breaks in their strings, a comment or CDATA mark around it all, and a semicolon behind it."""
    text = text.strip().removesuffix(";")
    for opening, closing in _WRAPPINGS:
        text = text.strip().removeprefix(opening).removesuffix(closing)
    try:
        return json.loads(text.strip().removesuffix(";"), strict=False)
    except (ValueError, RecursionError):
        return None


def _collect(value: object, into: list[dict[str, Any]]) -> None:
    """Lists and graphs may hold further ones, as deep as the decoder allows."""
    waiting = [value]
    while waiting and len(into) < _MOST:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, dict):
            graph = one.get("@graph")
            if not isinstance(graph, list):
                into.append(one)
                continue
            context = {"@context": one["@context"]} if "@context" in one else {}
            waiting += reversed([context | part if isinstance(part, dict) else part for part in graph])
