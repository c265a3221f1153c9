"""What a page describes for machines, read when first asked for, and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from shoal.html.records import KINDS, from_structured
from shoal.html.structured import Structured


class PageData:
    """The structured data of a page; of XML there is none."""

    __slots__ = ("_found", "_records")

    def __init__(
        self, tree: LexborHTMLParser | None, base: str, headers: Mapping[str, str], url: str
    ) -> None:
        self._found = Structured(tree or LexborHTMLParser(""), base, headers, url)
        self._records: dict[str | None, list[dict[str, Any]]] = {}

    def records(self, kind: str | None) -> list[dict[str, Any]]:
        """Copies, because handlers change what they are given."""
        if kind is not None and kind not in KINDS:
            raise ValueError(f"page.data() knows no kind {kind!r}: it is one of {', '.join(KINDS)}")
        if None in self._records:
            found = [one for one in self._records[None] if kind in (None, one["type"])]
        elif kind in self._records:
            found = self._records[kind]
        else:
            found = self._records[kind] = from_structured(self._found, None if kind is None else {kind})
        return [_copied(one) for one in found]

    def by_syntax(self) -> dict[str, Any]:
        return self._found.by_syntax()


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value
