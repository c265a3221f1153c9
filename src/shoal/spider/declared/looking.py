"""A page as the fields of a TOML spider look at it: what several of them need is found once."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from msgspec import Struct
from selectolax.lexbor import LexborNode

from shoal.html.visible_text import readable_text, squeeze
from shoal.html.xml import XmlNode
from shoal.limits import FIELD_VALUES, FIELD_WORK
from shoal.spider.page import Node, Page

VALUES_CUT = "values cut"  # the counter of what is beyond FIELD_VALUES and FIELD_WORK
_SMALL = 200_000  # elements, times those around them: such a page needs no account
_JSON_TYPES = ("application/json", "application/ld+json")
_DECODER = json.JSONDecoder(strict=False)


class Scope(Struct, frozen=True):
    """What a field is looked for in: the page, an element, or a value of JSON."""

    kind: Literal["page", "css", "xpath", "json"] = "page"
    value: Any = None


PAGE = Scope()


class Look:
    def __init__(self, page: Page, site: str = "") -> None:
        self.page = page
        self.site = site
        self._left = _SMALL + FIELD_WORK * self._tags
        self._found: dict[str, list[Node]] = {}
        self._orders: dict[str, list[int]] = {}

    def bounded(self, values: Iterator[Any] | list[Any]) -> list[Any]:
        """The first FIELD_VALUES of them; that there are more is counted."""
        kept = list(islice(values, FIELD_VALUES + 1))
        if len(kept) > FIELD_VALUES:
            self.page.count(VALUES_CUT)
            del kept[FIELD_VALUES:]
        return kept

    def readable(self, elements: list[Any], scope: Scope) -> Iterator[Any]:
        """The elements whose text may be read. Elements inside each other have the same text again and again: a page
        of ten thousand nested ones would take minutes."""
        is_small = scope.kind == "page" and len(elements) * self._tags <= _SMALL
        for one in elements:
            if not is_small and not self._spend(self._size(one)):
                return
            yield one

    def _spend(self, amount: int) -> bool:
        if self._left > 0:
            self._left -= amount
            if self._left <= 0:
                self.page.count(VALUES_CUT)
        return self._left > 0

    def _size(self, found: Any) -> int:
        """How many elements are in it."""
        if isinstance(found, LexborNode):
            return self._spans[found.mem_id][1]
        element = found.element if isinstance(found, XmlNode) else found
        return sum(1 for _ in element.iter()) if hasattr(element, "iter") else 1

    @cached_property
    def _tags(self) -> int:
        return self.page.body.count(b"<")

    # -- elements

    def css(self, selector: str, scope: Scope) -> list[Node]:
        """The elements that match, inside the scope's element, which may itself be one of them."""
        if scope.kind != "css":
            return self._all(selector)
        node = scope.value
        if isinstance(node, XmlNode):
            return list(node.css(selector)) if self._spend(self._size(node)) else []
        return self._inside(selector, node)

    def _all(self, selector: str) -> list[Node]:
        found = self._found.get(selector)
        if found is None:
            found = self._found[selector] = self.page.css(selector)
        return found

    def _inside(self, selector: str, node: LexborNode) -> list[Node]:
        """selectolax's own search inside an element is slow on pages made for that. So the whole page is searched, once
        for a selector, and what lies between the beginning and the end of the element is taken."""
        spans = self._spans
        if selector not in self._orders:
            found = {spans[one.mem_id][0]: one for one in self._all(selector) if isinstance(one, LexborNode)}
            self._found[selector] = [found[place] for place in sorted(found)]
            self._orders[selector] = sorted(found)
        begin, size = spans[node.mem_id]
        places = self._orders[selector]
        return self._found[selector][bisect_left(places, begin) : bisect_left(places, begin + size)]

    @cached_property
    def _spans(self) -> dict[int, tuple[int, int]]:
        """For every element its place in the document, and how many there are in it, itself included."""
        root = self.page.tree.root
        order = [] if root is None else [(node, node.parent) for node in root.traverse()]
        sizes: dict[int, int] = {}
        for node, parent in reversed(order):
            size = sizes[node.mem_id] = sizes.get(node.mem_id, 0) + 1
            if parent is not None:
                sizes[parent.mem_id] = sizes.get(parent.mem_id, 0) + size
        return {node.mem_id: (place, sizes[node.mem_id]) for place, (node, _) in enumerate(order)}

    def xpath(self, expression: str, scope: Scope) -> list[Any]:
        """The page is parsed once for all expressions."""
        element = scope.value if scope.kind == "xpath" else self._root
        if element is None or (scope.kind == "xpath" and not self._spend(self._size(element))):
            return []
        try:
            found = element.xpath(expression, namespaces=self._namespaces, smart_strings=False)
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "lxml":
                raise
            raise ValueError(f"not an XPath expression: {expression!r} ({error})") from None
        return found if isinstance(found, list) else [found]

    @cached_property
    def _root(self) -> Any:
        return next(iter(self.page.xpath("/*")), None)

    @cached_property
    def _namespaces(self) -> dict[str, str]:
        return self.page._document.namespaces if self.page.is_xml else {}

    # -- data

    @cached_property
    def documents(self) -> list[Any]:
        """The body, if it is JSON; else what is in scripts for data."""
        page = self.page
        if page.body.lstrip()[:1] in (b"{", b"["):
            return [value for value in [_decoded(page.html)] if value is not None]
        if page.is_xml:
            return []
        found = (_decoded(script.text()) for script in self._scripts if _is_data(script))
        return [value for value in found if value is not None]

    @cached_property
    def _scripts(self) -> list[LexborNode]:
        return [] if self.page.is_xml else self.page.tree.tags("script")

    def after(self, mark: str) -> Iterator[Any]:
        """The JSON that follows a text such as "window.__STATE__" in a script."""
        for script in self._scripts:
            text = script.text()
            at = text.find(mark)
            if at >= 0 and (value := _first_json(text, at + len(mark))) is not None:
                yield value

    @cached_property
    def meta(self) -> dict[str, list[str]]:
        """What <meta> elements say, by their name, property or itemprop."""
        found: dict[str, list[str]] = {}
        for node in [] if self.page.is_xml else self.page.tree.tags("meta"):
            attributes = node.attributes
            content = squeeze(attributes.get("content") or "")
            for attribute in ("name", "property", "itemprop", "http-equiv"):
                if content and (name := attributes.get(attribute)):
                    found.setdefault(name.strip().lower(), []).append(content)
        return found

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The page's structured data of a kind."""
        read = getattr(self.page, "data", None)
        return [] if read is None else read(kind)


def text_of(found: Any) -> str:
    """The text of an element, or of what an XPath expression gives."""
    if isinstance(found, LexborNode):
        return readable_text(found)
    if isinstance(found, XmlNode):
        return squeeze(found.text())
    if hasattr(found, "itertext"):
        return squeeze("".join(map(str, found.itertext())))
    if isinstance(found, float):
        return str(int(found)) if found.is_integer() else str(found)
    return squeeze(str(found))


def attribute_of(found: Any, name: str) -> str | None:
    if isinstance(found, LexborNode | XmlNode):
        return found.attributes.get(name)
    value = found.get(name) if hasattr(found, "get") else None
    return None if value is None else str(value)


def markup_of(found: Any) -> str:
    if isinstance(found, LexborNode | XmlNode):
        return found.html or ""
    if hasattr(found, "itertext"):
        from lxml import etree

        return str(etree.tostring(found, encoding="unicode", method="html", with_tail=False))
    return str(found)


def _is_data(script: LexborNode) -> bool:
    kind = (script.attributes.get("type") or "").partition(";")[0].strip().lower()
    return kind in _JSON_TYPES or kind.endswith("+json")


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text.strip().removesuffix(";"))
    except (ValueError, RecursionError):
        return None


def json_in(text: str) -> Any:
    """A text as JSON, whatever follows it; None: it is none."""
    return _first_json(text, 0)


def _first_json(text: str, at: int) -> Any:
    """The first object, list or text in quotes after a place. A text may hold JSON itself, as in JSON.parse("…")."""
    begins = [place for sign in '{["' if (place := text.find(sign, at)) >= 0]
    if not begins:
        return None
    try:
        value, _ = _DECODER.raw_decode(text, min(begins))
    except (ValueError, RecursionError):
        return None
    return _decoded(value) if isinstance(value, str) else value
