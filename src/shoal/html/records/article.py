"""Articles: news, posts, reports. Pure."""

from __future__ import annotations

from typing import Any

from shoal.html.records.dates import iso_date
from shoal.html.records.nodes import Node, Nodes

_MOST_IMAGES = 50
_MOST_PEOPLE = 50
_MOST_WORDS = 100


def article(nodes: Nodes, node: Node) -> dict[str, Any]:
    images = nodes.urls(node, "image", "thumbnailUrl")
    authors = nodes.texts(node, "author", "creator")[:_MOST_PEOPLE]
    return {
        "headline": nodes.text(node, "headline", "name", "alternativeHeadline"),
        "description": nodes.text(node, "description", "abstract"),
        "url": nodes.url(node, "url", "mainEntityOfPage"),
        "author": authors[0] if authors else None,
        "authors": authors,
        "published": iso_date(nodes.first(node, "datePublished", "dateCreated", "uploadDate")),
        "modified": iso_date(nodes.first(node, "dateModified")),
        "section": nodes.text(node, "articleSection"),
        "keywords": keywords(nodes, node),
        "image": images[0] if images else None,
        "images": images[:_MOST_IMAGES],
        "publisher": nodes.text(node, "publisher", "sourceOrganization"),
        "language": nodes.text(node, "inLanguage"),
        "word_count": nodes.number(node, "wordCount"),
        "free": is_free(nodes.first(node, "isAccessibleForFree")),
        "body": nodes.text(node, "articleBody", "text"),
    }


def keywords(nodes: Nodes, node: Node) -> list[str]:
    """One by one, whether they are a list or stand in one text."""
    given = nodes.texts(node, "keywords")
    if len(given) == 1:
        given = [word for part in given[0].split(",") if (word := part.strip())]
    return list(dict.fromkeys(given))[:_MOST_WORDS]


def is_free(value: object) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.rpartition("/")[2].strip().lower())
    return value if isinstance(value, bool) else None
