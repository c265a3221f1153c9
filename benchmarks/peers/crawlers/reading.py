"""What crawlers that bring no parser of their own do with a page: the ten fields that Shoal's default row has, too."""

from __future__ import annotations

import time
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode


def read(url: str, status: int, body: bytes, depth: int) -> tuple[dict[str, Any], list[str]]:
    tree = LexborHTMLParser(body)
    hrefs = [href for node in tree.tags("a") if (href := node.attributes.get("href"))]
    row = {
        "url": url,
        "status": status,
        "title": text_of(tree.css_first("title")),
        "description": attribute(tree.css_first("meta[name=description]"), "content"),
        "canonical": attribute(tree.css_first("link[rel=canonical]"), "href"),
        "language": attribute(tree.root, "lang"),
        "text_length": len(text_of(tree.body)),
        "links": len(hrefs),
        "fetched_at": time.time(),
        "depth": depth,
    }
    return row, hrefs


def text_of(node: LexborNode | None) -> str:
    return node.text() if node is not None else ""


def attribute(node: LexborNode | None, name: str) -> str | None:
    return node.attributes.get(name) if node is not None else None
