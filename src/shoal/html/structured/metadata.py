"""What <meta> says: OpenGraph, Twitter cards, and the rest."""

from __future__ import annotations

from typing import TypeAlias

from selectolax.lexbor import LexborHTMLParser

Values: TypeAlias = dict[str, str | list[str]]  # a list where a name stands there more than once

_MOST = 5_000  # elements that are read
_LONGEST = 64 * 1024  # characters of a value
# Words before the colon that belong to OpenGraph: its own, those of its types, and what shops and Facebook add.
_PREFIXES = "og product article book books profile video music place restaurant business fb al game"
_OPENGRAPH = frozenset(_PREFIXES.split())


class Metadata:
    """The <meta> of a page by where it belongs. Names are in lower case."""

    __slots__ = ("meta", "opengraph", "twitter")

    def __init__(self, tree: LexborHTMLParser) -> None:
        self.opengraph: Values = {}
        self.twitter: Values = {}
        self.meta: Values = {}
        for node in tree.tags("meta")[:_MOST]:
            attributes = node.attributes
            content = attributes.get("content")
            if content is None or not (content := content[:_LONGEST].strip()):
                continue
            for attribute in ("property", "name", "itemprop", "http-equiv"):
                if names := attributes.get(attribute):
                    for name in names.lower().split()[:4]:
                        _add(self._place(name, attribute), name, content)
                    break

    def _place(self, name: str, attribute: str) -> Values:
        prefix, colon, _ = name.partition(":")
        if prefix == "twitter":
            return self.twitter
        # A property with an unknown prefix is OpenGraph with a type of its own.
        return self.opengraph if colon and (prefix in _OPENGRAPH or attribute == "property") else self.meta


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
