"""What <meta> says: OpenGraph, Twitter cards, and the rest."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from selectolax.lexbor import LexborHTMLParser

from shoal.limits import META_ELEMENTS

Values: TypeAlias = dict[str, str | list[str]]  # a list where a name stands there more than once

_LONGEST = 64 * 1024  # characters of a value
# Words before the colon that belong to OpenGraph: its own, those of its types, and what shops and Facebook add.
_PREFIXES = "og product article book books profile video music place restaurant business fb al game"
_OPENGRAPH = frozenset(_PREFIXES.split())


class Metadata:
    """The <meta> of a page by where it belongs. Names are in lower case."""

    __slots__ = ("_renamed", "meta", "opengraph", "twitter")

    def __init__(self, tree: LexborHTMLParser) -> None:
        self.opengraph: Values = {}
        self.twitter: Values = {}
        self.meta: Values = {}
        self._renamed = _renamed(tree)
        for node in tree.tags("meta")[:META_ELEMENTS]:
            attributes = node.attributes
            content = attributes.get("content")
            if content is None or not (content := content[:_LONGEST].strip()):
                continue
            for attribute in ("property", "name", "itemprop", "http-equiv"):
                if names := attributes.get(attribute):
                    for name in names.lower().split()[:4]:
                        name = self._usual(name) if attribute == "property" else name
                        _add(self._place(name), name, content)
                    break

    def _usual(self, name: str) -> str:
        """Under the prefix that everybody uses, whatever the page calls it: "http://ogp.me/ns#image" is "og:image"."""
        if name.startswith(("http://ogp.me/ns#", "https://ogp.me/ns#")):
            return f"og:{name.partition('#')[2]}"
        prefix, colon, rest = name.partition(":")
        return f"og:{rest}" if colon and prefix in self._renamed else name

    def _place(self, name: str) -> Values:
        prefix, colon, _ = name.partition(":")
        if prefix == "twitter":
            return self.twitter
        return self.opengraph if colon and prefix in _OPENGRAPH else self.meta


def _renamed(tree: LexborHTMLParser) -> frozenset[str]:
    """The prefixes that stand for OpenGraph on this page: <html xmlns:o="http://ogp.me/ns#" prefix="o: …">."""
    found: set[str] = set()
    for node in (tree.root, tree.head):
        for name, value in (node.attributes if node is not None else {}).items():
            if value and name.startswith("xmlns:") and "ogp.me/ns#" in value:
                found.add(name[6:].lower())
            elif value and name == "prefix":
                words = value.split()[:40]
                found |= {
                    word[:-1].lower()
                    for word, target in pairwise(words)
                    if target.endswith("ogp.me/ns#") and len(word) > 1
                }
    return frozenset(found - {"og"})


def _add(values: Values, name: str, content: str) -> None:
    known = values.get(name)
    if known is None:
        values[name] = content
    elif isinstance(known, list):
        known.append(content)
    elif known != content:
        values[name] = [known, content]


def first(values: Values, *names: str) -> str | None:
    """The first value of the first of these names that is there."""
    for name in names:
        if found := values.get(name):
            return found if isinstance(found, str) else found[0]
    return None


def every(values: Values, *names: str) -> list[str]:
    """All values of the first of these names that is there."""
    for name in names:
        if found := values.get(name):
            return [found] if isinstance(found, str) else list(found)
    return []
