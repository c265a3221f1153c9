"""Looking into JSON-LD, or what has its shape: values that may be one or many, text or object, here or elsewhere on the
page. Nothing is copied or unfolded, so references can make neither circles nor bombs. Pure."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, TypeAlias

from shoal.html.page_links import join
from shoal.html.records.currencies import CODES, code_of
from shoal.html.records.prices import Price, parse_price
from shoal.html.structured.microdata import short

Node: TypeAlias = dict[str, Any]

_MOST = 20_000  # objects of a page that are looked at
_VALUES = 1_000  # values of one property
_SMALL, _FOR_AN_OBJECT = 20_000, 60  # properties that are looked at, and for every object on the page
_ALL_TEXT = 5_000_000  # characters of all texts
_LINKS = 4  # references that are followed from one value
_REFERENCE = frozenset({"@id", "@type", "@context"})
_PREFIXES = ("schema:", "http://schema.org/", "https://schema.org/", "s:", "sdo:")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--[^<>]*-->")
_DIGITS = re.compile(r"\d[\d.,]*")
# Objects that are about something else than the page.
_ELSEWHERE = [
    "isRelatedTo",
    "isSimilarTo",
    "isAccessoryOrSparePartFor",
    "isConsumableFor",
    "about",
    "mentions",
    "citation",
    "isPartOf",
    "isBasedOn",
    "potentialAction",
    "review",
    "reviews",
    "comment",
    "author",
    "creator",
    "publisher",
]
# What is looked into when an object is a record itself.
_OF_A_RECORD = ("mainEntity", "mainEntityOfPage", "breadcrumb")


class Nodes:
    """The objects of one syntax on a page."""

    def __init__(self, items: Iterable[Node], base: str, home: str | None = None) -> None:
        self.base = base
        self.home = home  # the currency where the page is from
        self._roots = list(items)
        self._found = 0
        self._prefixed = False  # whether names are written as "schema:name" or "http://schema.org/name"
        self._kin: list[Node] = []  # those that have variants, or are one
        self._ids = dict(self._identified())
        # An object that many refer to is read for each of them: without a limit, a small page could take very long.
        self._left = _SMALL + _FOR_AN_OBJECT * self._found
        self._text_left = _ALL_TEXT
        self._variants: dict[int, list[Node]] = {}  # of groups that do not list them
        self._inner = self._find_variants()

    # -- finding objects

    def _identified(self) -> Iterator[tuple[str, Node]]:
        """Those that others can refer to. Of several with one name, the last with most to say comes last."""
        waiting: list[object] = list(reversed(self._roots))
        found: list[tuple[str, Node]] = []
        while waiting and self._found < _MOST:
            value = waiting.pop()
            if isinstance(value, list):
                waiting += value[:_VALUES]
            elif isinstance(value, dict):
                self._found += 1
                self._prefixed = self._prefixed or any(":" in name for name in value)
                if "hasVariant" in value or "isVariantOf" in value:
                    self._kin.append(value)
                name = value.get("@id")
                if isinstance(name, str) and not _REFERENCE.issuperset(value):
                    found.append((name, value))
                waiting += [one for one in value.values() if isinstance(one, dict | list)]
        found.sort(key=lambda pair: len(pair[1]))
        return iter(found)

    def _find_variants(self) -> set[int]:
        """Those that stand beside their group. They are part of its record, and none of their own."""
        tops = {id(root) for root in self._roots}
        inner: set[int] = set()
        for node in self._kin:
            inner |= {id(variant) for variant in self.nodes(node, "hasVariant")}
            for group in self.nodes(node, "isVariantOf"):
                if id(group) in tops and "hasVariant" not in group and id(node) in tops:
                    self._variants.setdefault(id(group), []).append(node)
                    inner.add(id(node))
        return inner

    def variants(self, node: Node) -> list[Node]:
        return self.nodes(node, "hasVariant", "model") or self._variants.get(id(node), [])

    def find(self, kinds: dict[str, str]) -> Iterator[tuple[str, Node]]:
        """The objects that are records, with their kind. `kinds` is by type, in lower case. What is about
        something else than the page is passed over, and so is what is inside a record."""
        waiting: list[object] = list(reversed(self._roots))
        seen: set[int] = set(self._inner)
        most = _MOST + len(seen)
        while waiting and len(seen) < most:
            value = waiting.pop()
            if isinstance(value, list):
                waiting += reversed(value[:_VALUES])
            if not isinstance(value, dict) or id(value) in seen:
                continue
            seen.add(id(value))
            kind = next((kinds[name] for name in self.types(value) if name in kinds), None)
            if kind is not None:
                yield kind, value
                inner = [value[name] for name in _OF_A_RECORD if name in value]
            else:
                inner = [one for name, one in value.items() if name not in _ELSEWHERE]
            waiting += [one for one in reversed(inner) if isinstance(one, dict | list)]

    # -- looking into one

    def types(self, node: Node) -> list[str]:
        """Its types, short and in lower case."""
        given = node.get("@type", node.get("type"))
        names = given if isinstance(given, list) else [given]
        return [_local(name).lower() for name in names[:20] if isinstance(name, str)]

    def values(self, node: Node, *names: str) -> list[Any]:
        """All values of the first of these properties that has some: texts, numbers, objects."""
        for name in names:
            self._left -= 1
            given = node.get(name)
            if given is None and self._prefixed:
                given = next((node[long] for prefix in _PREFIXES if (long := prefix + name) in node), None)
            if given is not None and self._left > 0:
                found = list(self._flat(given))
                self._left -= len(found)
                if found:
                    return found
        return []

    def _flat(self, given: object) -> Iterator[Any]:
        waiting, left = [given], _VALUES
        while waiting and left:
            left -= 1
            value = waiting.pop()
            if isinstance(value, list):
                waiting += reversed(value[:left])
            elif isinstance(value, dict):
                inner = next((value[name] for name in ("@value", "@list", "@set") if name in value), None)
                if inner is not None:
                    waiting.append(inner)
                else:
                    yield self._resolved(value)
            elif value is not None and value != "":
                yield value

    def _resolved(self, node: Node) -> Node:
        for _ in range(_LINKS):
            name = node.get("@id")
            if not isinstance(name, str) or not _REFERENCE.issuperset(node) or name not in self._ids:
                break
            node = self._ids[name]
        return node

    def first(self, node: Node, *names: str) -> Any:
        return next(iter(self.values(node, *names)), None)

    def nodes(self, node: Node, *names: str) -> list[Node]:
        """The values that are objects."""
        return [value for value in self.values(node, *names) if isinstance(value, dict)]

    def node(self, node: Node, *names: str) -> Node | None:
        return next(iter(self.nodes(node, *names)), None)

    # -- values of one kind

    def text(self, node: Node, *names: str) -> str | None:
        """The first text of the first property that has one. Of an object, its name."""
        for name in names:
            for value in self.values(node, name):
                if found := self.as_text(value):
                    return found
        return None

    def texts(self, node: Node, *names: str) -> list[str]:
        found = (self.as_text(value) for value in self.values(node, *names))
        return list(dict.fromkeys(text for text in found if text))

    def as_text(self, value: object) -> str | None:
        if isinstance(value, dict):
            return self.text_of_node(value)
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, float):
            return format(value, "g") if math.isfinite(value) else None
        if not isinstance(value, str | int) or self._text_left <= 0:
            return None
        text = str(value)[: self._text_left] if isinstance(value, str) else format(value, "d")
        self._text_left -= len(text)
        return plain_text(text)

    def text_of_node(self, node: Node) -> str | None:
        for name in ("name", "@value", "value", "text", "headline", "@id"):
            value = node.get(name)
            if isinstance(value, list):
                value = value[0] if value else None
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                return self.as_text(value)
        return None

    def url(self, node: Node, *names: str) -> str | None:
        return next(iter(self.urls(node, *names)), None)

    def urls(self, node: Node, *names: str) -> list[str]:
        """The first of these properties that has absolute URLs of http(s)."""
        for name in names:
            found = [url for value in self.values(node, name) if (url := self._as_url(value))]
            if found:
                return list(dict.fromkeys(found))
        return []

    def _as_url(self, value: object) -> str | None:
        if isinstance(value, dict):
            for name in ("contentUrl", "url", "src", "@id", "thumbnailUrl"):
                inner = value.get(name)
                if isinstance(inner, list):
                    inner = inner[0] if inner else None
                if isinstance(inner, str):
                    return self.absolute(inner)
            return None
        return self.absolute(value) if isinstance(value, str) else None

    def absolute(self, target: str) -> str | None:
        target = html.unescape(target.strip())
        if not target or len(target) > 10_000 or target.startswith(("data:", "_:")):
            return None
        return clean(join(self.base, target) or "") or None

    def number(self, node: Node, *names: str) -> float | int | None:
        """The first number of the first property that has one: 4.5 for "4,5 / 5"."""
        for name in names:
            for value in self.values(node, name):
                if (found := as_number(value)) is not None:
                    return found
        return None

    def currency(self, node: Node) -> str | None:
        text = self.text(node, "priceCurrency", "pricecurrency", "currency")
        if text is None:
            return None
        if text.upper() in CODES:
            return text.upper()
        return code_of(_local(text), self.home)

    def price(self, value: object, currency: str | None) -> Price | None:
        """A price, with its currency by ISO 4217."""
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            if not math.isfinite(value) or not 0 <= value < 1e15:
                return None
            return Price(Decimal(repr(value)), currency)
        if not isinstance(value, str) or value.lstrip().startswith("-"):
            return None
        return parse_price(html.unescape(value[:1_000]), currency, home=currency or self.home)


def _local(name: str) -> str:
    """ "schema:Product", "https://schema.org/Product/" and "Product" are the same."""
    return short(name.strip()).rpartition("/")[2].rpartition("#")[2].rpartition(":")[2]


def as_number(value: object) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = _DIGITS.search(value[:100].replace("\u00a0", ""))
        if found is None:
            return None
        text = found[0].rstrip(".,")
        price = parse_price(text)
        value = None if price is None else float(price.amount)
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e15:
        return int(value) if float(value).is_integer() else value
    return None


def plain_text(text: str) -> str | None:
    """Without markup, entities and superfluous white space; None if nothing is left."""
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    return clean(" ".join(text.split())) or None


def clean(text: str) -> str:
    """Without half characters, which no file could hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
