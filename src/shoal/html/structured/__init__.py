"""What pages say about themselves for machines, as it stands there: by syntax, read when first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from shoal.html.page_facts import declared_canonical
from shoal.html.page_links import join
from shoal.html.structured import microdata, rdfa
from shoal.html.structured.jsonld import objects_in
from shoal.html.structured.metadata import Metadata, first
from shoal.html.visible_text import readable_text


class Structured:
    """The structured data of a page."""

    def __init__(
        self,
        tree: LexborHTMLParser,
        base: str,
        headers: Mapping[str, str] | None = None,
        url: str | None = None,
    ) -> None:
        self._tree = tree
        self._headers = headers or {}
        self.base = base  # what links are relative to
        self.url = url or base

    @cached_property
    def jsonld(self) -> list[dict[str, Any]]:
        return objects_in(self._tree)

    @cached_property
    def microdata(self) -> list[dict[str, Any]]:
        return microdata.items_in(self._tree, self.base)

    @cached_property
    def rdfa(self) -> list[dict[str, Any]]:
        return rdfa.items_in(self._tree, self.base)

    @cached_property
    def metadata(self) -> Metadata:
        return Metadata(self._tree)

    @cached_property
    def language(self) -> str:
        """As the page names it: "en-CA"."""
        root = self._tree.root
        given = None if root is None else root.attributes.get("lang")
        return given or self._headers.get("Content-Language", "")

    @cached_property
    def headings(self) -> list[str]:
        """The first headings and the title, as they can be read."""
        nodes = [*self._tree.tags("h1")[:3], *self._tree.tags("title")[:1]]
        return [text for node in nodes if (text := readable_text(node)[:500])]

    def own_urls(self) -> list[str]:
        """What the page is called: where it is, its canonical link, and its OpenGraph URL."""
        said = [declared_canonical(self._tree, self.base), first(self.metadata.opengraph, "og:url")]
        return [self.url, *(url for one in said if one and (url := self.absolute(one)) is not None)]

    def absolute(self, target: str) -> str | None:
        target = target.strip()
        return join(self.base, target) if target and len(target) <= 10_000 else None

    def by_syntax(self) -> dict[str, Any]:
        metadata = self.metadata
        return {
            "jsonld": self.jsonld,
            "microdata": self.microdata,
            "rdfa": self.rdfa,
            "opengraph": metadata.opengraph,
            "twitter": metadata.twitter,
            "meta": metadata.meta,
        }
