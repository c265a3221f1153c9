"""RDFa Lite: `vocab`, `typeof`, `property`, `resource` and `prefix`, and `about`, `content` and `datetime` beside them.

Items come in the shape of JSON-LD: {"@type": "Product", "name": …}, names of schema.org without its address. As RDFa
1.1 has it, but for one thing: an <a href> without any of these attributes does not change what the text in it is about.

One walk over the page. Items that refer to each other may make circles: how deep and how much is bounded.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.html.page_links import join
from shoal.html.structured.marks import Nearest
from shoal.html.structured.microdata import add, price_text, short
from shoal.html.visible_text import readable_text
from shoal.limits import DESCRIBED

_SHARED = 5  # times as many may be the values of all items together, where some are shared
_DEEPEST = 24  # items in items
_NESTED_TEXTS = 4  # properties in properties whose text is read
_LONGEST = 300  # characters of an address that is put before names
_MOST_PREFIXES = 100  # declared at one place
_WORDS = 20  # words of one attribute
_MARKS = frozenset(("about", "prefix", "property", "resource", "typeof", "vocab"))
_MOVES = frozenset(("resource", "typeof"))  # with one of them, an address says what the content is about
_TYPED = re.compile(rb"\btypeof\s*=", re.IGNORECASE)
_PREFIXES = {
    "schema": "http://schema.org/",
    "og": "http://ogp.me/ns#",
    "dc": "http://purl.org/dc/terms/",
    "dcterms": "http://purl.org/dc/terms/",
    "dc11": "http://purl.org/dc/elements/1.1/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "gr": "http://purl.org/goodrelations/v1#",
    "v": "http://rdf.data-vocabulary.org/#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sioc": "http://rdfs.org/sioc/ns#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


class _Context(Struct):
    """What holds inside an element."""

    vocab: str
    prefixes: dict[str, str]
    subject: str  # what its properties are about
    level: int = 0  # properties that it is in


class _Reference(Struct, frozen=True):
    subject: str


def items_in(tree: LexborHTMLParser, base: str) -> list[dict[str, Any]]:
    """The items of a page that have a type, and are not part of another."""
    html = tree.raw_html or b""
    if tree.root is None or b"typeof" not in html.lower() or _TYPED.search(html) is None:
        return []  # scripts have the word, too
    return _Items(tree.root, base).all()


class _Items:
    def __init__(self, root: LexborNode, base: str) -> None:
        self._base = base
        self._items: dict[str, dict[str, Any]] = {}
        self._blank = 0
        contexts: dict[int, _Context] = {}
        nearest = Nearest(contexts)
        around = _Context("", _PREFIXES, base)
        for node in root.traverse():
            attributes = node.attributes
            if attributes and not _MARKS.isdisjoint(attributes):
                above = nearest.above(node)
                contexts[node.mem_id] = self._read(node, attributes, contexts.get(above or 0, around))
                if len(contexts) >= DESCRIBED:
                    break
        self._left = 5_000 + _SHARED * len(contexts)

    def _read(self, node: LexborNode, attributes: dict[str, str | None], around: _Context) -> _Context:
        here = _Context(around.vocab, around.prefixes, around.subject, around.level)
        if "vocab" in attributes:
            here.vocab = (attributes["vocab"] or "").strip()[:_LONGEST]
        if (prefixes := attributes.get("prefix")) and len(around.prefixes) < _MOST_PREFIXES:
            here.prefixes = around.prefixes | _declared(prefixes)
        about, types = self._address(attributes.get("about"), here), attributes.get("typeof")
        target = next(
            (
                self._address(attributes[name], here)
                for name in ("resource", "href", "src")
                if name in attributes
            ),
            None,
        )
        names = attributes.get("property") or (
            attributes.get("rel") if not _MOVES.isdisjoint(attributes) else None
        )
        written = attributes.get("content", attributes.get("datetime"))
        is_value = bool(names) and written is None and "datatype" not in attributes
        if is_value:
            subject = about or around.subject
            typed = (about or target or self._new()) if types is not None else None
        else:
            moved = target if not _MOVES.isdisjoint(attributes) else None
            subject = about or moved or (self._new() if types is not None else around.subject)
            typed = subject if types is not None else None
        if typed is not None:
            for name in (types or "").split()[:_WORDS]:
                self._add_type(self._items.setdefault(typed, {}), short(_expanded(name, here)))
        if names:
            value = self._value(node, here, written, target if is_value else None, None if about else typed)
            for name in dict.fromkeys(names.split()[:_WORDS]):
                add(self._items.setdefault(subject, {}), short(_expanded(name, here)), value)
        here.subject = typed if is_value and typed is not None else subject
        return here

    @staticmethod
    def _add_type(item: dict[str, Any], name: str) -> None:
        """Once, though the item may be described at several places."""
        known = item.get("@type", [])
        if name != known and (not isinstance(known, list) or (name not in known and len(known) < _WORDS)):
            add(item, "@type", name)

    def _value(
        self, node: LexborNode, here: _Context, written: str | None, target: str | None, typed: str | None
    ) -> str | _Reference:
        if written is not None:
            return written.strip()
        if typed is not None:
            return _Reference(typed)
        if target is not None:
            return _Reference(target)
        here.level += 1
        if here.level > _NESTED_TEXTS:
            return ""
        is_price = "price" in (node.attributes.get("property") or "").lower()
        return (is_price and price_text(node)) or readable_text(node)

    def _address(self, text: str | None, here: _Context) -> str | None:
        """A URL; a name of RDF such as "_:a", or one with a declared prefix, is taken as it is meant."""
        if text is None:
            return None
        text = text.strip().removeprefix("[").removesuffix("]")
        prefix, colon, rest = text.partition(":")
        if prefix == "_":
            return text
        if colon and prefix in here.prefixes and not rest.startswith("//"):
            return here.prefixes[prefix] + rest
        return join(self._base, text) or text

    def _new(self) -> str:
        self._blank += 1
        return f"_:shoal{self._blank}"

    # -- putting items into items

    def all(self) -> list[dict[str, Any]]:
        inner = {
            value.subject
            for subject, item in self._items.items()
            for given in item.values()
            for value in (given if isinstance(given, list) else [given])
            if isinstance(value, _Reference) and value.subject != subject
        }
        typed = [subject for subject, item in self._items.items() if "@type" in item]
        tops = [subject for subject in typed if subject not in inner] or typed[:1]
        return [self._item(subject, ()) for subject in tops if self._left > 0]

    def _item(self, subject: str, inside: tuple[str, ...]) -> dict[str, Any]:
        item: dict[str, Any] = {}
        if not subject.startswith("_:") and subject != self._base:
            item["@id"] = subject
        inside = (*inside, subject)
        for name, given in self._items[subject].items():
            for value in given if isinstance(given, list) else [given]:
                self._left -= 1
                if self._left < 0:
                    return item
                if not isinstance(value, _Reference):
                    add(item, name, value)
                elif value.subject in self._items and value.subject not in inside and len(inside) < _DEEPEST:
                    add(item, name, self._item(value.subject, inside))
                elif not value.subject.startswith("_:"):
                    add(item, name, value.subject)
        return item


def _declared(text: str) -> dict[str, str]:
    """ "schema: http://schema.org/ og: http://ogp.me/ns#" """
    words = text.split()[: 2 * _WORDS]
    return {name[:-1].lower(): address[:_LONGEST] for name, address in pairwise(words) if name.endswith(":")}


def _expanded(name: str, here: _Context) -> str:
    prefix, colon, rest = name.partition(":")
    if colon and not rest.startswith("//"):
        known = here.prefixes.get(prefix.lower())
        return name if known is None else known + rest
    return name if colon else here.vocab + name
