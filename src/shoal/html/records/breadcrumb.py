"""Breadcrumbs: where a page stands in its site. Pure."""

from __future__ import annotations

from typing import Any

from shoal.html.records.nodes import Node, Nodes, as_number

_MOST = 100


def breadcrumb(nodes: Nodes, node: Node) -> dict[str, Any]:
    """In the order of their positions, if all have one."""
    given = nodes.nodes(node, "itemListElement", "itemListElements")[:_MOST]
    positions = [as_number(nodes.first(one, "position")) for one in given]
    if all(place is not None for place in positions):
        order = sorted(range(len(given)), key=lambda n: positions[n] or 0)
        given = [given[n] for n in order]
    items = [_item(nodes, one) for one in given]
    items = [item for item in items if item["name"] or item["url"]]
    return {"items": items, "path": " > ".join(item["name"] for item in items if item["name"]) or None}


def _item(nodes: Nodes, node: Node) -> dict[str, str | None]:
    inner = nodes.node(node, "item")
    name = nodes.text(node, "name") or (nodes.text(inner, "name", "title") if inner else None)
    url = nodes.url(node, "item", "url") or (nodes.url(inner, "url", "@id") if inner else None)
    return {"name": name, "url": url}
