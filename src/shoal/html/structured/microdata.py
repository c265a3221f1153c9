"""Microdata: items (`itemscope`) and their properties (`itemprop`, `itemref`), by the algorithm of the HTML standard.

Items come in the shape of JSON-LD: {"@type": "Product", "name": …}, with a list where a property has several values.
Beyond the standard, as pages and search engines have it: `content` counts on any element, and an item that is a
property of nothing stands for itself.

Every element has one nearest marked element above it, so all items together are gathered in one pass. What `itemref`
adds may belong to several items and make circles: how deep and how much is bounded.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.html.page_links import join
from shoal.html.structured.marks import Nearest
from shoal.html.visible_text import readable_text
from shoal.limits import DESCRIBED

_SHARED = 5  # times as many may be those of all items together, where itemref shares them
_DEEPEST = 24  # items in items
_NAMES = 10  # of one property
_NESTED_TEXTS = 4  # properties in properties whose text is read: each reads the text of those inside again
_SOURCES = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
}


def items_in(tree: LexborHTMLParser, base: str) -> list[dict[str, Any]]:
    """The items of a page that are not part of another."""
    if b"itemscope" not in (tree.raw_html or b"").lower():
        return []
    return _Items(tree, base).all()


class _Items:
    def __init__(self, tree: LexborHTMLParser, base: str) -> None:
        self._base = base
        self._scopes = {node.mem_id: node for node in tree.css("[itemscope]")[:DESCRIBED]}
        properties = tree.css("[itemprop]")[:DESCRIBED]
        self._properties = {node.mem_id: node for node in properties}
        self._order = {element: place for place, element in enumerate(self._properties)}
        self._ids = self._referenced(tree)
        marked = {**self._scopes, **self._properties, **{node.mem_id: node for node in self._ids.values()}}
        nearest = Nearest(marked)
        self._above = {element: nearest.above(node) for element, node in marked.items()}
        self._inside: dict[int, list[int]] = {}
        for element, above in self._above.items():
            if above is not None:
                self._inside.setdefault(above, []).append(element)
        self._left = self._allowed = 5_000 + _SHARED * len(marked)
        self._levels: dict[int, int] = {}

    def _referenced(self, tree: LexborHTMLParser) -> dict[str, LexborNode]:
        """The elements that an itemref names."""
        wanted = {
            word for node in self._scopes.values() for word in (node.attributes.get("itemref") or "").split()
        }
        found: dict[str, LexborNode] = {}
        for node in tree.css("[id]") if wanted else ():
            name = node.attributes.get("id")
            if name in wanted:
                found.setdefault(name, node)
        return found

    def all(self) -> list[dict[str, Any]]:
        used = {element for scope in self._scopes for element in self._own(scope) if element in self._scopes}
        self._left = self._allowed
        return [self._item(scope, ()) for scope in self._scopes if scope not in used and self._left > 0]

    def _own(self, scope: int) -> list[int]:
        """The properties of an item, in the order of the page."""
        names = (self._scopes[scope].attributes.get("itemref") or "").split()
        referenced = [self._ids[name].mem_id for name in dict.fromkeys(names) if name in self._ids]
        waiting = [*referenced, *self._inside.get(scope, ())]
        seen: set[int] = {scope}
        found: list[int] = []
        while waiting and self._left > 0:
            element = waiting.pop()
            if element in seen:
                continue
            seen.add(element)
            self._left -= 1
            if element in self._properties:
                found.append(element)
            if element not in self._scopes:
                waiting += self._inside.get(element, ())
        return sorted(found, key=self._order.__getitem__)

    def _item(self, scope: int, inside: tuple[int, ...]) -> dict[str, Any]:
        attributes = self._scopes[scope].attributes
        item: dict[str, Any] = {}
        if types := [short(name) for name in (attributes.get("itemtype") or "").split()]:
            item["@type"] = types[0] if len(types) == 1 else types
        if identity := attributes.get("itemid"):
            item["@id"] = join(self._base, identity.strip()) or identity
        inside = (*inside, scope)
        for element in self._own(scope):
            if element in inside or (element in self._scopes and len(inside) >= _DEEPEST):
                continue
            names = (self._properties[element].attributes.get("itemprop") or "").split()[:_NAMES]
            text = "" if element in self._scopes else self._value(element)
            for name in dict.fromkeys(names):
                add(item, short(name), self._item(element, inside) if element in self._scopes else text)
        return item

    def _value(self, element: int) -> str:
        node = self._properties[element]
        attributes, tag = node.attributes, node.tag or ""
        content = attributes.get("content")
        if tag == "meta" or content:
            return (content or "").strip()
        if (source := _SOURCES.get(tag)) and (target := attributes.get(source)) is not None:
            target = target.strip()
            return join(self._base, target) or target
        for name in _PLAIN_VALUES.get(tag, ()):
            if (value := attributes.get(name)) is not None:
                return value.strip()
        if self._level(element) > _NESTED_TEXTS:
            return ""
        return (_PRICES.search(attributes.get("itemprop") or "") and price_text(node)) or readable_text(node)

    def _level(self, element: int) -> int:
        """How many properties with a text it is in."""
        passed: list[int] = []
        at: int | None = element
        while at is not None and at not in self._levels:
            passed.append(at)
            at = self._above[at]
        level = 0 if at is None else self._levels[at]
        for one in reversed(passed):
            level += one in self._properties and one not in self._scopes
            self._levels[one] = level
        return level


_PRICES = re.compile(r"price", re.IGNORECASE)
_PARTS = 40  # elements of a price
_CENTS = re.compile(r"\d\d", re.ASCII)


def price_text(node: LexborNode) -> str | None:
    """The text of a price without what is crossed out, and 12<sup>99</sup> as "12.99"; other raised text is a note, and
    left out. None if nothing is crossed out or raised: then its text will do."""
    text, is_special = "", False
    waiting = list(islice(node.iter(include_text=True), _PARTS))
    for _ in range(_PARTS):
        if not waiting:
            break
        child = waiting.pop(0)
        if child.tag in ("del", "s", "strike"):
            is_special = True
        elif child.tag == "sup":
            is_special, cents = True, child.text()[:10].strip()
            text = text.rstrip()
            text += f".{cents} " if _CENTS.fullmatch(cents) and text[-1:].isdigit() else " "
        elif child.tag == "-text":
            text += (child.text_content or "")[:100]
        else:
            waiting[:0] = islice(child.iter(include_text=True), _PARTS)
    return text.strip() if is_special and any(map(str.isdigit, text)) else None


_PLAIN_VALUES = {"data": ("value",), "meter": ("value",), "time": ("datetime",)}


def short(name: str) -> str:
    """ "http://schema.org/Product" is "Product"; names of other vocabularies stay whole."""
    for prefix in (
        "http://schema.org/",
        "https://schema.org/",
        "http://www.schema.org/",
        "https://www.schema.org/",
    ):
        if name.startswith(prefix):
            return name[len(prefix) :].strip("/") or name
    return name


def add(item: dict[str, Any], name: str, value: object) -> None:
    """One more value of a property."""
    if name not in item:
        item[name] = value
    elif isinstance(item[name], list):
        item[name].append(value)
    else:
        item[name] = [item[name], value]
