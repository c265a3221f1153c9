"""Recipes: what goes in, what to do, how long it takes. Pure."""

from __future__ import annotations

from typing import Any

from shoal.html.records.article import keywords
from shoal.html.records.dates import iso_date, iso_duration
from shoal.html.records.nodes import Node, Nodes
from shoal.html.records.product import rating

_MOST = 500  # ingredients, and steps
_INNER = 4  # sections in sections


def recipe(nodes: Nodes, node: Node) -> dict[str, Any]:
    images = nodes.urls(node, "image", "photo")
    nutrition = nodes.node(node, "nutrition")
    return {
        "name": nodes.text(node, "name"),
        "description": nodes.text(node, "description", "summary"),
        "url": nodes.url(node, "url"),
        "image": images[0] if images else None,
        "author": nodes.text(node, "author"),
        "published": iso_date(nodes.first(node, "datePublished")),
        "ingredients": nodes.texts(node, "recipeIngredient", "ingredients")[:_MOST],
        "instructions": _steps(nodes, node),
        "yield": nodes.text(node, "recipeYield", "yield"),
        "prep_time": iso_duration(nodes.first(node, "prepTime")),
        "cook_time": iso_duration(nodes.first(node, "cookTime")),
        "total_time": iso_duration(nodes.first(node, "totalTime")),
        "category": nodes.text(node, "recipeCategory"),
        "cuisine": nodes.text(node, "recipeCuisine"),
        "keywords": keywords(nodes, node),
        "calories": None if nutrition is None else nodes.number(nutrition, "calories"),
        "rating": rating(nodes, node),
    }


def _steps(nodes: Nodes, node: Node) -> list[str]:
    """One text a step, whatever they are grouped in. A text with lines is one step a line."""
    found: list[str] = []
    waiting = [(value, 0) for value in reversed(nodes.values(node, "recipeInstructions", "instructions"))]
    while waiting and len(found) < _MOST:
        value, depth = waiting.pop()
        inner = nodes.values(value, "itemListElement", "steps", "step") if isinstance(value, dict) else []
        if inner and depth < _INNER:
            waiting += [(one, depth + 1) for one in reversed(inner)]
        elif isinstance(value, dict):
            found += filter(None, [nodes.text(value, "text", "description", "name", "item")])
        elif isinstance(value, str):
            found += [text for line in value.splitlines()[:_MOST] if (text := nodes.as_text(line))]
    return found[:_MOST]
